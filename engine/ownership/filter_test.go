package ownership

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// What is kept of a set is the same whether paths are copied one by one or not, and what that allocates does not grow
// with how deep they are.
func TestFilterCopiesNoPath(t *testing.T) {
	g := NewWithT(t)
	set := func(depth int) *fieldpath.Set {
		out := fieldpath.NewSet()
		at := out
		for range depth {
			at = at.Children.Descend(fieldpath.PathElement{FieldName: new("a")})
		}
		for i := range 2000 {
			at.Members.Insert(fieldpath.PathElement{FieldName: new(fmt.Sprintf("%05d", i))})
		}
		return out
	}
	odd := func(p fieldpath.Path) bool { return strings.HasSuffix(*p[len(p)-1].FieldName, "1") }
	want := fieldpath.NewSet()
	set(5).Iterate(func(p fieldpath.Path) {
		if odd(p) {
			want.Insert(p.Copy())
		}
	})
	g.Expect(filter(set(5), nil, odd).Equals(want)).To(BeTrue())
	allocations := func(depth int) float64 {
		deep := set(depth)
		return testing.AllocsPerRun(3, func() { filter(deep, nil, odd) })
	}
	g.Expect(allocations(90)).To(BeNumerically("<", allocations(5)+1000))
}
