package bundle

import (
	"strings"
	"testing"
	"time"
)

// FuzzDecode feeds arbitrary values, plain and as Brotli streams: decoding must end, soon, within its limits, and with
// faults that do not quote what was read.
func FuzzDecode(f *testing.F) {
	whole := compress(f, manyConfigMaps(3))
	for _, seed := range []string{
		"", "---", "---\n---", "# comment", "null", "~", "a", "- a", "{}", "{}{}", "{} x", `{"a":1}` + "\n---\n" + `{"b":2}`,
		configMap("a") + "---\n" + configMap("b"), whole, whole[:len(whole)/2], whole + "x", laughs("lol"),
		"a: &a [*a]", "a: *hunter2", "? [a]\n: b", "a: !!int hunter2", "%YAML 1.1\n---\na: b\n", "a: |\n  ---\n", "\xef\xbb\xbfa: b",
		"{a: 1, a: 2}", "{1: a, '1': b}", "<<: [a]", "a: !!binary hunter2", strings.Repeat("[", 300), strings.Repeat(`{"a":`, 300),
		"a: 1e999", `{"a":1e999}`, "a: .inf", "a: 0b1", "a: 1_000", "a: 1:30", "!!set {a, b}", "--- |\nx\n...\n--- >\ny\n",
		nested(3), nested(20), "apiVersion: v1\nkind: hunter2List\nitems: [{metadata: {name: a}}, 1, ~, {items: [hunter2]}]", "kind: List\nitems: hunter2",
	} {
		f.Add([]byte(seed))
	}
	limits := Limits{Documents: 100, Bytes: 1 << 20, Memory: 4 << 20, DocumentBytes: 1 << 18, Depth: 32}
	f.Fuzz(func(t *testing.T, value []byte) {
		start := time.Now()
		source := Source{Namespace: "n", Name: "s", Data: map[string][]byte{"plain": value, "stream.br": value}}
		bundle := Decode([]Source{source}, limits)
		if took := time.Since(start); took > 10*time.Second {
			t.Fatalf("took %s", took)
		}
		if count := len(bundle.Objects) + len(bundle.Faults); count > limits.Documents+2 {
			t.Fatalf("%d objects and faults", count)
		}
		for _, object := range bundle.Objects {
			object.DeepCopy()
			_ = object.Invalid()
		}
		for _, fault := range bundle.Faults {
			if text := fault.String(); len(text) > 200 || strings.Contains(text, "\n") || strings.Contains(text, "hunter") {
				t.Fatalf("fault %q", text)
			}
		}
	})
}
