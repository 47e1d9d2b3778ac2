package ownership_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trellis-hub/trellis/engine/ownership"
)

// nested returns the text of fields under a number of levels, the spec being the first.
func nested(depth int, fields string) string {
	return `{"f:spec":` + strings.Repeat(`{"f:a":`, depth-1) + "{" + fields + "}" + strings.Repeat("}", depth-1) + "}"
}

// leaves returns the text of a number of fields.
func leaves(prefix string, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"f:%s%05d":{}`, prefix, i)
	}
	return strings.Join(names, ",")
}

// manifest returns an object with fields under a number of levels.
func manifest(depth int, prefix string, n int) *unstructured.Unstructured {
	inner := map[string]any{}
	for i := range n {
		inner[fmt.Sprintf("%s%05d", prefix, i)] = "x"
	}
	for range depth - 1 {
		inner = map[string]any{"a": inner}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "spec": inner,
	}}
}

// compareAll performs all operations on managedFields.
func compareAll(o metav1.Object, desired *unstructured.Unstructured) error {
	intended := ownership.Fields(desired.Object)
	exempt, kept := ownership.ExemptFor(desired, true), ownership.KeptFor(desired, true)
	record := ownership.Read(o, manager)
	record.State()
	record.ByControlPlane()
	record.Gone(intended, kept)
	ownership.LostTo(o, manager, intended, kept)
	foreign, err := record.Foreign(exempt)
	for _, f := range foreign {
		f.Within(intended)
		f.Paths(10)
	}
	if err != nil {
		return err
	}
	_, _, err = record.Rewrite("v1", exempt, []fieldpath.Path{fieldpath.MakePathOrDie("spec", "a")})
	return err
}

func TestManagedFieldsOutOfBoundsAreNotRead(t *testing.T) {
	many := entries{}.ours(`{"f:spec":{"f:x":{}}}`)
	for i := range ownership.MaxEntries {
		many = many.of(fmt.Sprint("manager-", i), metav1.ManagedFieldsOperationApply, "", `{"f:spec":{"f:y":{}}}`)
	}
	large := `{"f:spec":{"f:` + strings.Repeat("x", ownership.MaxBytes) + `":{}}}`
	tests := map[string]struct {
		entries entries
		message string
	}{
		"too many entries":       {many, "1001 entries are more than the limit for the managedFields of an object: 1000"},
		"too many bytes":         {entries{}.ours(`{}`).update(large), "are more than the limit"},
		"too many bytes of ours": {entries{}.ours(large).update(`{"f:spec":{"f:y":{}}}`), "are more than the limit"},
		"too deep": {
			entries{}.ours(`{}`).update(nested(1000, leaves("x", 20_000))), "more than 100 levels of nesting",
		},
		"ours, with others' beside": {
			entries{}.ours(nested(1000, `"f:x":{}`)).update(`{"f:spec":{"f:y":{}}}`), "more than 100 levels of nesting",
		},
		"as deep as a list of values": {
			entries{}.ours(`{}`).update(strings.Repeat(`{"v:1":`, 5000) + "{}" + strings.Repeat("}", 5000)),
			"levels of nesting",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := object(test.entries)
			err := compareAll(o, manifest(1, "x", 1))
			g.Expect(err).To(MatchError(ownership.ErrTooLarge))
			g.Expect(err).To(MatchError(ContainSubstring(test.message)))

			// Entries that cannot be read count nevertheless: a change of them is a change.
			was := ownership.Observe(o, manager)
			g.Expect(ownership.Observe(o, manager)).To(Equal(was))
			last := &o.ManagedFields[len(o.ManagedFields)-1]
			f := &metav1.FieldsV1{}
			f.SetRawBytes(append([]byte(nil), strings.Replace(string(last.FieldsV1.GetRawBytes()), ":", ":z", 1)...))
			last.FieldsV1 = f
			g.Expect(ownership.Observe(o, manager)).NotTo(Equal(was))
		})
	}
}

// Comparing anything within the bounds takes memory and time in proportion to its size, not to the size of one
// manager's entry times the number of managers, nor to the square of the depth.
func TestManagedFieldsWithinBoundsAreComparedInLinearTime(t *testing.T) {
	const deep = ownership.MaxDepth - 2
	byMany := entries{}.ours(nested(1, leaves("ours", 20_000)))
	for i := range ownership.MaxEntries - 1 {
		fields := nested(1, leaves(fmt.Sprintf("m%04d", i), 20))
		byMany = byMany.of(fmt.Sprint("manager-", i), metav1.ManagedFieldsOperationApply, "", fields)
	}
	tests := map[string]struct {
		entries entries
		desired *unstructured.Unstructured
	}{
		"deep and wide": {
			entries{}.ours(nested(deep, leaves("x", 20_000))).update(nested(deep, leaves("y", 20_000))),
			manifest(deep, "z", 20_000),
		},
		"wide": {
			entries{}.ours(nested(1, leaves("x", 30_000))).update(nested(1, leaves("y", 30_000))),
			manifest(1, "z", 100_000),
		},
		"many managers": {byMany, manifest(1, "ours", 20_000)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			size := 0
			for _, e := range test.entries {
				size += len(e.FieldsV1.GetRawBytes())
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			g.Expect(compareAll(object(test.entries), test.desired)).To(Succeed())
			runtime.ReadMemStats(&after)
			perByte := (after.TotalAlloc - before.TotalAlloc) / uint64(size)
			t.Logf("%d bytes allocated for each byte", perByte)
			g.Expect(perByte).To(BeNumerically("<", 800))
		})
	}
}

// FuzzFieldsV1 compares the entries of two managers with arbitrary content. The work is bounded by the length of
// the entries.
func FuzzFieldsV1(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"f:spec":{"f:x":{}}}`, `{"f:spec":{".":{},"f:y":{}}}`},
		{`{"f:metadata":{"f:labels":{"f:ours":{}}}}`,
			`{"f:spec":{"k:{\"name\":\"a\"}":{".":{},"f:b":{}},"v:1":{},"i:0":{}}}`},
		{nested(90, leaves("x", 50)), nested(90, leaves("y", 50))},
		{`{`, `{"f:spec":null}`},
		{`{"v:[[[[]]]]":{}}`, `{"k:{}":{"k:{\"a\":{}}":{}}}`},
	} {
		f.Add(seed[0], seed[1])
	}
	desired := manifest(3, "x", 3)
	f.Fuzz(func(t *testing.T, ours, theirs string) {
		o := object(entries{}.ours(ours).update(theirs).
			of("kube-controller-manager", metav1.ManagedFieldsOperationUpdate, "status", theirs))
		allocations := testing.AllocsPerRun(1, func() { _ = compareAll(o, desired) })
		if most := float64(5000 + 100*ownership.MaxDepth/10*(len(ours)+len(theirs))); allocations > most {
			t.Errorf("%.0f allocations for %d bytes", allocations, len(ours)+len(theirs))
		}
		rewritten, changed, err := ownership.Read(o, manager).Rewrite("v1", nil, nil)
		if err != nil || !changed {
			return
		}
		o.ManagedFields = rewritten
		left, err := ownership.ForeignPayload(o, manager, nil)
		if err != nil || len(left) > 0 {
			t.Errorf("%d managers are left with payload: %v", len(left), err)
		}
	})
}

// BenchmarkCompare performs all operations on managedFields of the two most expensive shapes.
func BenchmarkCompare(b *testing.B) {
	for name, depth := range map[string]int{"wide": 1, "deep": ownership.MaxDepth - 2} {
		for _, n := range []int{2_500, 5_000, 10_000, 20_000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				o := object(entries{}.ours(nested(depth, leaves("x", n))).update(nested(depth, leaves("y", n))))
				desired := manifest(depth, "z", n)
				b.ReportAllocs()
				for b.Loop() {
					if err := compareAll(o, desired); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
