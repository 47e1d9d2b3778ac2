package pack

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/engine/bundle"
)

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: default\ndata:\n  key: %q\n", name, value)
}

// read reads manifests as from stdin.
func read(t *testing.T, text string) []Manifest {
	t.Helper()
	manifests, err := ReadFiles([]string{"-"}, false, strings.NewReader(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return manifests
}

// text is everything that was packed.
func text(t *testing.T, p *Packed) string {
	t.Helper()
	var b strings.Builder
	for _, o := range p.objects() {
		raw, err := yaml.Marshal(o)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		b.Write(raw)
	}
	return b.String()
}

func TestEqualManifestsGiveEqualBytes(t *testing.T) {
	for _, o := range []Options{{Name: "a"}, {Name: "a", Brotli: true}, {Name: "a", Brotli: true, Immutable: true, InjectLabels: map[string]string{"x": "1", "y": "2", "z": "3"}}} {
		g := NewWithT(t)
		one, err := Pack(read(t, configMap("b", "1")+"---\n# a comment\n"+configMap("a", "2")), o)
		g.Expect(err).NotTo(HaveOccurred())
		other, err := Pack(read(t, `{"kind":"List","apiVersion":"v1","items":[
			{"kind":"ConfigMap","apiVersion":"v1","data":{"key":"2"},"metadata":{"namespace":"default","name":"a"}},
			{"metadata":{"name":"b","namespace":"default"},"apiVersion":"v1","kind":"ConfigMap","data":{"key":"1"}}]}`), o)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(text(t, one)).To(Equal(text(t, other)))

		changed, err := Pack(read(t, configMap("b", "1")+"---\n"+configMap("a", "3")), o)
		g.Expect(err).NotTo(HaveOccurred())
		if o.Immutable {
			g.Expect(changed.Secrets[0].Name).NotTo(Equal(one.Secrets[0].Name))
		} else {
			g.Expect(changed.Secrets[0].Name).To(Equal(one.Secrets[0].Name))
		}
	}
}

func TestWhatIsPackedTwiceIsTheSame(t *testing.T) {
	g := NewWithT(t)
	const tricky = `
apiVersion: example.org/v1
kind: Tricky
metadata: {name: x}
spec: {number: 9007199254740993, float: 1.5, text: "0123", yes: "yes", none: null, empty: {}, list: [], long: "a\nb\n", umlaut: "ü"}
`
	packed, err := Pack(read(t, tricky), Options{Name: "a"})
	g.Expect(err).NotTo(HaveOccurred())
	again, err := Pack(read(t, string(packed.Secrets[0].Data["data.yaml"])), Options{Name: "a"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text(t, again)).To(Equal(text(t, packed)))
	g.Expect(string(packed.Secrets[0].Data["data.yaml"])).To(ContainSubstring("9007199254740993"))
}

// noise cannot be compressed.
func noise(size int, seed uint64) string {
	random := rand.New(rand.NewPCG(1, seed))
	var b strings.Builder
	for b.Len() < size {
		b.WriteByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"[random.IntN(64)])
	}
	return b.String()
}

func TestMuchContentIsSpreadOverSecrets(t *testing.T) {
	for _, o := range []Options{{Name: "a"}, {Name: "a", Brotli: true}, {Name: "a", Immutable: true}} {
		g := NewWithT(t)
		var all []string
		for i := range 5 {
			all = append(all, configMap(fmt.Sprintf("c%d", i), noise(400_000, uint64(i))))
		}
		packed, err := Pack(read(t, strings.Join(all, "---\n")), o)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(len(packed.Secrets)).To(BeNumerically(">", 1))
		names := map[string]bool{}
		for i, s := range packed.Secrets {
			size := 0
			for _, value := range s.Data {
				size += len(value)
			}
			g.Expect(size).To(BeNumerically("<=", 1<<20))
			names[s.Name] = true
			g.Expect(packed.ManagedResource.Spec.SecretRefs[i].Name).To(Equal(s.Name))
		}
		g.Expect(names).To(HaveLen(len(packed.Secrets)))
		g.Expect(bundle.Decode(Sources(packed.Secrets), bundle.Limits{}).Objects).To(HaveLen(5))
	}
}

func TestWhatCannotBePacked(t *testing.T) {
	for name, test := range map[string]struct {
		text, says string
	}{
		"no YAML":          {configMap("a", "1") + "---\n{not: [yaml", "stdin, document 2: "},
		"no object":        {"- 1\n- 2\n", "stdin, document 1: not an object but a list"},
		"no kind":          {"apiVersion: v1\nmetadata: {name: a}\n", "stdin, document 1 has no kind"},
		"no name":          {"apiVersion: v1\nkind: ConfigMap\n", "stdin, document 1: the object has no metadata.name"},
		"a generated name": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n", "metadata.generateName instead of metadata.name"},
		"twice":            {configMap("a", "1") + "---\n" + configMap("a", "2"), "stdin, document 2: ConfigMap default/a is already in stdin, document 1"},
		"a bad item":       {"apiVersion: v1\nkind: List\nitems: [1]\n", "stdin, document 1, item 1: not an object but a number"},
		"an invalid item":  {"apiVersion: v1\nkind: List\nitems: [{kind: ConfigMap, metadata: {name: a}}]\n", "stdin, document 1, item 1 has no apiVersion"},
		"a number a label": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: 1}}\n", "not a string (quote it): x"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := ReadFiles([]string{"-"}, false, strings.NewReader(test.text))
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(cli.ExitCode(err)).To(Equal(cli.ExitRefused))
		})
	}
	t.Run("an object that fits into no Secret", func(t *testing.T) {
		g := NewWithT(t)
		_, err := Pack(read(t, configMap("big", noise(1<<20, 1))), Options{Name: "a"})
		g.Expect(err).To(MatchError(And(ContainSubstring("ConfigMap default/big takes 1024 KiB"), ContainSubstring("try --brotli"))))
		packed, err := Pack(read(t, configMap("big", strings.Repeat("x", 1<<20))), Options{Name: "a", Brotli: true})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(packed.Secrets).To(HaveLen(1))
	})
	t.Run("an inventory that is too large", func(t *testing.T) {
		g := NewWithT(t)
		var all []string
		for i := range 4 {
			all = append(all, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, annotations: {note: %q}}\n", i, strings.Repeat("x", 300_000)))
		}
		_, err := Pack(read(t, strings.Join(all, "---\n")), Options{Name: "a"})
		g.Expect(err).To(MatchError(ContainSubstring("pack them into several ManagedResources")))
	})
}

func TestDirectories(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir()
	g.Expect(os.MkdirAll(filepath.Join(root, "sub"), 0o700)).To(Succeed())
	for file, content := range map[string]string{"b.yaml": configMap("b", "1"), "a.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, "README.md": "no: manifest", "sub/c.yml": configMap("c", "1")} {
		g.Expect(os.WriteFile(filepath.Join(root, file), []byte(content), 0o600)).To(Succeed())
	}
	flat, err := ReadFiles([]string{root}, false, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(flat).To(HaveLen(2))
	deep, err := ReadFiles([]string{root}, true, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(deep).To(HaveLen(3))
	_, err = ReadFiles([]string{t.TempDir()}, true, nil)
	g.Expect(err).To(MatchError(ContainSubstring("has no files")))
}

func TestNames(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		says    string
	}{
		"upper case": {Options{Name: "A"}, "--name"},
		"too long":   {Options{Name: strings.Repeat("x", 240)}, "--name"},
		"a label":    {Options{Name: "a", Labels: map[string]string{"a b": "c"}}, "--labels"},
		"its value":  {Options{Name: "a", InjectLabels: map[string]string{"a": "b c"}}, "--inject-labels a"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(test.options.Validate()).To(MatchError(ContainSubstring(test.says)))
		})
	}
	NewWithT(t).Expect(Options{Name: "addons", Labels: map[string]string{"a/b": "c"}, Cluster: "shoot-a"}.Validate()).To(Succeed())
}
