package references_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/quick"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/references"
)

func referring(names ...string) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{}
	mr.Namespace = "ns"
	for _, name := range names {
		mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: name})
	}
	return mr
}

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("secret-", i)
	}
	return names
}

func namesOf(t *testing.T, mr *resourcesv1alpha1.ManagedResource) []string {
	t.Helper()
	found, err := references.Of(mr)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	out := make([]string, 0, len(found))
	for _, name := range found {
		out = append(out, name.Name)
	}
	return out
}

func TestReferencesAreReadOnceAtTheirLastPlace(t *testing.T) {
	for name, c := range map[string]struct{ refs, want string }{
		"none":                      {"", ""},
		"one":                       {"a", "a"},
		"several":                   {"c a b", "c a b"},
		"the same one":              {"a a a", "a"},
		"again after another":       {"a b a", "b a"},
		"a few among many":          {"a b c d e f g h a i", "b c d e f g h a i"},
		"no name":                   {"a - b -", "a b -"},
		"many and only one of them": {strings.Repeat("x ", 20_000) + "x", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			mr := referring(strings.Fields(c.refs)...)
			g.Expect(strings.Join(namesOf(t, mr), " ")).To(Equal(c.want))
			references.Trim(mr)
			g.Expect(mr.Spec.SecretRefs).To(Equal(referring(strings.Fields(c.want)...).Spec.SecretRefs))
		})
	}
}

func TestTooManyReferences(t *testing.T) {
	g := NewWithT(t)
	g.Expect(namesOf(t, referring(numbered(references.Max)...))).To(HaveLen(references.Max))
	twice := append(numbered(references.Max), numbered(references.Max)...)
	g.Expect(namesOf(t, referring(twice...))).To(HaveLen(references.Max))

	for _, n := range []int{references.Max + 1, 40_000} {
		mr := referring(numbered(n)...)
		_, err := references.Of(mr)
		g.Expect(err).To(MatchError(references.TooManyError{}))
		references.Trim(mr)
		g.Expect(mr.Spec.SecretRefs).To(HaveLen(references.Max + 1))
		if n > references.Max+1 {
			g.Expect(mr.Spec.SecretRefs).To(HaveCap(references.Max+1), "the rest is not kept")
		}
		_, err = references.Of(mr)
		g.Expect(err).To(MatchError(references.TooManyError{}), "what was cut is still too much")
	}
}

// Any list is cut to the same result as a simple walk that takes each Secret at its last position.
func TestReferencesOfAnyList(t *testing.T) {
	property := func(list []uint8) bool {
		var names, want []string
		for i, n := range list {
			names = append(names, fmt.Sprint(n))
			if strings.IndexByte(string(list[i+1:]), n) < 0 {
				want = append(want, fmt.Sprint(n))
			}
		}
		mr := referring(names...)
		before := strings.Join(namesOf(t, mr), " ")
		references.Trim(mr)
		return before == strings.Join(want, " ") && strings.Join(namesOf(t, mr), " ") == before
	}
	NewWithT(t).Expect(quick.Check(property, nil)).To(Succeed())
}

// Twice as many references take twice as much memory, not four times.
func TestReferencesAreLinear(t *testing.T) {
	allocations := func(n int) float64 {
		mr := referring(append(numbered(n), numbered(n)...)...)
		return testing.AllocsPerRun(10, func() { _, _ = references.Of(mr) })
	}
	NewWithT(t).Expect(allocations(800)).To(BeNumerically("<=", 2.2*allocations(400)))
}

func BenchmarkOf(b *testing.B) {
	for name, mr := range map[string]*resourcesv1alpha1.ManagedResource{
		"one":               referring("a"),
		"same 20,000 times": referring(strings.Fields(strings.Repeat("a ", 20_000))...),
		"40,000":            referring(numbered(40_000)...),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = references.Of(mr)
			}
		})
	}
}
