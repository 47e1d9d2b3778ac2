package intern_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/intern"
)

func at(s string) *byte { return unsafe.StringData(s) }

func TestEqualTextsAreOne(t *testing.T) {
	g := NewWithT(t)
	table := intern.New(100, clock.RealClock{})
	large := strings.Repeat("x", 10_000) + "name"
	first := table.Text(large[10_000:])
	second := table.Text(string([]byte("name")))
	g.Expect(first).To(Equal("name"))
	g.Expect(at(first)).To(BeIdenticalTo(at(second)))
	g.Expect(at(first)).NotTo(BeIdenticalTo(at(large[10_000:])), "it would keep the large text")
	g.Expect(table.Text("")).To(BeEmpty())
	g.Expect(table.Text(large)).To(Equal(large))
}

func TestEqualMapsAreOne(t *testing.T) {
	g := NewWithT(t)
	table := intern.New(100, clock.RealClock{})
	letters := func() map[string]string { return map[string]string{"a": "1", "b": "2"} }
	first := table.Map(letters())
	second := table.Map(letters())
	g.Expect(second).To(Equal(letters()))
	first["c"] = "3" // which no caller may do, to see that it is the same map
	g.Expect(second).To(HaveKey("c"))
	g.Expect(table.Map(map[string]string{"a": "2", "b": "1"})).To(Equal(map[string]string{"a": "2", "b": "1"}))
	g.Expect(table.Map(nil)).To(BeNil())
	g.Expect(table.Map(map[string]string{})).To(BeEmpty())
}

// What is used stays interned, however much else comes. What is not is dropped.
func TestTableIsBounded(t *testing.T) {
	g := NewWithT(t)
	table := intern.New(100, clock.RealClock{})
	first, rare := table.Text("often"), table.Text("rare")
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	for i := range 100_000 {
		table.Text(fmt.Sprintf("%0200d", i))
		table.Map(map[string]string{"n": fmt.Sprintf("%0200d", i)})
		g.Expect(at(table.Text("often"))).To(BeIdenticalTo(at(first)))
	}
	g.Expect(heap() - before).To(BeNumerically("<", 1<<20))
	g.Expect(at(table.Text("rare"))).NotTo(BeIdenticalTo(at(rare)))
	runtime.KeepAlive(table)
}

// Texts of targets that are gone must not fill the table.
func TestUnusedTextsAreDropped(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	table := intern.New(100, clock)
	often, rare := at(table.Text("often")), at(table.Text("rare"))
	for i := range 10 {
		clock.SetTime(clock.Now().Add(3 * time.Minute))
		table.Text(fmt.Sprint("new ", i))
		g.Expect(at(table.Text("often"))).To(BeIdenticalTo(often))
	}
	g.Expect(at(table.Text("rare"))).NotTo(BeIdenticalTo(rare))
}

func TestTableIsSharedByGoroutines(t *testing.T) {
	table := intern.New(10, clock.RealClock{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 1000 {
				name := fmt.Sprint(i % 20)
				if table.Text(name) != name || table.Map(map[string]string{name: name})[name] != name {
					t.Errorf("%q is another text", name)
				}
			}
		})
	}
	group.Wait()
}

func full() *resourcesv1alpha1.ManagedResource {
	class := "seed"
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shoot--a", Name: "mr", UID: "uid", ResourceVersion: "1", Labels: map[string]string{"l": "v"},
		Annotations: map[string]string{"a": "v"}, Finalizers: []string{"f"},
	}}
	mr.Spec = resourcesv1alpha1.ManagedResourceSpec{Class: &class, InjectLabels: map[string]string{"i": "v"}, SecretRefs: []corev1.LocalObjectReference{{Name: "s"}}}
	mr.Status.Conditions = []resourcesv1alpha1.Condition{{Type: resourcesv1alpha1.ConditionResourcesApplied, Status: resourcesv1alpha1.ConditionTrue, Reason: "r", Message: "m"}}
	mr.Status.Resources = make([]resourcesv1alpha1.ObjectReference, 0, 16)
	for i := range 3 {
		mr.Status.Resources = append(mr.Status.Resources, resourcesv1alpha1.ObjectReference{
			ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: fmt.Sprint("object-", i), UID: "uid", FieldPath: "f"},
			Labels:          map[string]string{"l": "v"}, Annotations: map[string]string{"a": "v"},
		})
	}
	return mr
}

func TestManagedResourceSaysTheSame(t *testing.T) {
	g := NewWithT(t)
	table := intern.New(1000, clock.RealClock{})
	for range 2 {
		mr := full()
		table.ManagedResource(mr)
		g.Expect(mr).To(Equal(full()))
		table.ManagedResource(mr)
		g.Expect(mr).To(Equal(full()), "twice is as good as once")
		g.Expect(mr.Status.Resources).To(HaveCap(3))
	}
	empty := &resourcesv1alpha1.ManagedResource{}
	table.ManagedResource(empty)
	g.Expect(empty).To(Equal(&resourcesv1alpha1.ManagedResource{}))
}

// The caller that made a copy may change it.
func TestCopiesShareNoMaps(t *testing.T) {
	g := NewWithT(t)
	table := intern.New(1000, clock.RealClock{})
	one, two := full(), full()
	table.ManagedResource(one)
	table.ManagedResource(two)
	own := one.DeepCopy()
	own.Labels["x"], own.Annotations["x"], own.Status.Resources[0].Labels["x"], own.Spec.InjectLabels["x"] = "y", "y", "y", "y"
	g.Expect(one).To(Equal(full()))
	g.Expect(two).To(Equal(full()))
}

// BenchmarkManagedResource shows what one more target's inventory entry takes whose like is known.
func BenchmarkManagedResource(b *testing.B) {
	const n = 10_000
	table := intern.New(1000, clock.RealClock{})
	table.ManagedResource(full())
	heap := func() float64 {
		var stats runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&stats)
		return float64(stats.HeapAlloc)
	}
	for b.Loop() {
		kept := make([]*resourcesv1alpha1.ManagedResource, n)
		before := heap()
		for i := range kept {
			kept[i] = full()
			table.ManagedResource(kept[i])
		}
		b.ReportMetric((heap()-before)/n/3, "heapB/object")
		runtime.KeepAlive(kept)
	}
}
