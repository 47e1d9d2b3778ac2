package secretindex

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

func referring(name string, secrets ...string) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{}
	mr.Namespace, mr.Name = "ns", name
	for _, s := range secrets {
		mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: s})
	}
	return mr
}

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(prefix, i)
	}
	return names
}

// sized is an index whose sizes can be compared.
func (x *Index) sized() []int { return []int{len(x.refs), len(x.byMR), len(x.versions), len(x.noted)} }

func TestOnlyAsManyReferencesAreKeptAsAreRead(t *testing.T) {
	g := NewWithT(t)
	x := New(nil, nil)
	notified := 0
	x.SetHandler(func(types.NamespacedName) { notified++ })
	x.setRefs(referring("mr", numbered("s", 40_000)...))
	g.Expect(x.sized()).To(Equal([]int{0, 0, 0, 0}))
	g.Expect(notified).To(BeZero(), "there is nothing to read")

	same := make([]string, 20_000)
	for i := range same {
		same[i] = "s"
	}
	x.setRefs(referring("mr", same...))
	g.Expect(x.sized()).To(Equal([]int{1, 1, 0, 1}))
	x.setRefs(referring("mr", numbered("s", 40_000)...))
	g.Expect(x.sized()).To(Equal([]int{0, 0, 0, 0}), "it counts as one without references now")
}

// All referrers of a Secret are notified of it, however many there are, in whatever order they are added and removed.
func TestManyReferToOneSecret(t *testing.T) {
	g := NewWithT(t)
	x := New(nil, nil)
	const n = 2000
	secret := types.NamespacedName{Namespace: "ns", Name: "shared"}
	notified := map[string]int{}
	for i := range n {
		x.setRefs(referring(fmt.Sprint(i), "shared", fmt.Sprint("own-", i)))
	}
	x.SetHandler(func(mr types.NamespacedName) { notified[mr.Name]++ })
	x.changed(secret, Version{UID: "u", ResourceVersion: "1"}, "1")
	g.Expect(notified).To(HaveLen(n))
	for i := 0; i < n; i += 2 {
		x.setRefs(referring(fmt.Sprint(i), fmt.Sprint("own-", i)))
	}
	clear(notified)
	x.changed(secret, Version{UID: "u", ResourceVersion: "2"}, "2")
	g.Expect(notified).To(HaveLen(n / 2))
	g.Expect(notified).NotTo(HaveKey("0"))
	for i := range n {
		x.drop(referring(fmt.Sprint(i)))
	}
	g.Expect(x.sized()).To(Equal([]int{0, 0, 0, 0}))
}

// Twice as many references, or referrers, take twice as much work.
func TestWorkOnReferencesIsLinear(t *testing.T) {
	for name, work := range map[string]func(x *Index, n int){
		"one with many": func(x *Index, n int) {
			x.setRefs(referring("mr", numbered("a", n)...))
			x.setRefs(referring("mr", numbered("b", n)...))
		},
		"many with one": func(x *Index, n int) {
			for i := range n {
				x.setRefs(referring(fmt.Sprint(i), "shared"))
			}
			for i := range n {
				x.drop(referring(fmt.Sprint(i)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			allocations := func(n int) float64 {
				return testing.AllocsPerRun(5, func() { work(New(nil, nil), n) })
			}
			once, twice := allocations(450), allocations(900)
			NewWithT(t).Expect(twice).To(BeNumerically("<=", 2.5*once), "quadratic work would be four times as much")
		})
	}
}

func TestUnchangedReferencesAreNoWork(t *testing.T) {
	g := NewWithT(t)
	x := New(nil, nil)
	mr := referring("mr", numbered("s", 1000)...)
	x.setRefs(mr)
	notes := x.notes
	name := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	g.Expect(testing.AllocsPerRun(5, func() { x.replaceRefs(name, x.byMR[name]) })).To(BeZero())
	g.Expect(x.notes).To(Equal(notes))
}

func BenchmarkSetRefs(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("changes of ", n), func(b *testing.B) {
			x := New(nil, nil)
			one, other := referring("mr", numbered("a", n)...), referring("mr", numbered("b", n)...)
			b.ReportAllocs()
			for b.Loop() {
				x.setRefs(one)
				x.setRefs(other)
			}
		})
	}
	for _, n := range []int{20_000, 40_000} {
		b.Run(fmt.Sprint("too many: ", n), func(b *testing.B) {
			x := New(nil, nil)
			one := referring("mr", numbered("a", n)...)
			for b.Loop() {
				x.setRefs(one)
			}
		})
	}
	b.Run("many refer to one", func(b *testing.B) {
		x := New(nil, nil)
		for i := range 10_000 {
			x.setRefs(referring(fmt.Sprint(i), "shared"))
		}
		b.ReportAllocs()
		for b.Loop() {
			x.setRefs(referring("5000", "shared"))
			x.setRefs(referring("5000"))
		}
	})
}
