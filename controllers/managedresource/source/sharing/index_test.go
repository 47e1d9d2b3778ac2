package sharing_test

import (
	"fmt"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/sharing"
	"github.com/trellis-hub/trellis/engine/inventory"
)

const cluster = sharing.Cluster("cluster")

var a, b, c = name("a"), name("b"), name("c")

func name(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: n} }

func key(n string) inventory.Key { return inventory.Key{Kind: "ConfigMap", Namespace: "x", Name: n} }

// mr is a ManagedResource in some version that is bound to the cluster and lists ConfigMaps.
func mr(name types.NamespacedName, version int, lists ...string) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
		Namespace: name.Namespace, Name: name.Name, UID: types.UID(name.Name), ResourceVersion: strconv.Itoa(version),
		Annotations: map[string]string{hubv1alpha1.TargetUIDAnnotation: string(cluster)},
	}}
	for _, l := range lists {
		mr.Status.Resources = append(mr.Status.Resources, resourcesv1alpha1.ObjectReference{
			ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "x", Name: l},
		})
	}
	return mr
}

func TestOthers(t *testing.T) {
	g := NewWithT(t)
	x := sharing.NewIndex()
	g.Expect(x.Observe(mr(a, 1, "both", "mine")).Concerned).To(BeEmpty())
	g.Expect(x.Others(cluster, key("both"), a, nil)).To(BeEmpty())
	x.Observe(mr(c, 2, "both"))
	x.Observe(mr(b, 3, "both", "both", "yours"))
	g.Expect(x.Others(cluster, key("both"), a, nil)).To(Equal([]types.NamespacedName{b, c}))
	g.Expect(x.Others(cluster, key("mine"), a, nil)).To(BeEmpty())
	g.Expect(x.Others(cluster, key("yours"), a, nil)).To(ConsistOf(b))
	g.Expect(x.Others(sharing.Cluster("another cluster"), key("both"), a, nil)).To(BeEmpty())
	managedResources, objects := x.Len()
	g.Expect([]int{managedResources, objects}).To(Equal([]int{3, 5}))
}

func TestWhoHasNoAccess(t *testing.T) {
	deleting := func(version int, keep bool) *resourcesv1alpha1.ManagedResource {
		m := mr(b, version, "both")
		m.DeletionTimestamp, m.Spec.KeepObjects = &metav1.Time{}, &keep
		return m
	}
	unbound := mr(b, 2, "both")
	unbound.Annotations = nil
	for name, tc := range map[string]struct {
		other *resourcesv1alpha1.ManagedResource
		says  bool
	}{
		"one that is there":                    {mr(b, 2, "both"), true},
		"one that is being deleted":            {deleting(2, false), false},
		"one that keeps its objects":           {deleting(2, true), true},
		"one that is not bound to any cluster": {unbound, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			x := sharing.NewIndex()
			x.Observe(mr(a, 1, "both"))
			x.Observe(tc.other)
			g.Expect(x.Others(cluster, key("both"), a, nil)).To(HaveLen(map[bool]int{true: 1}[tc.says]))
			_, _, found := x.Any(cluster, a, nil, func(inventory.Key) bool { return true })
			g.Expect(found).To(Equal(tc.says))
		})
	}
}

// A Gardener resource manager binds nothing.
func TestManagedResourceThatAnotherInstanceApplied(t *testing.T) {
	g := NewWithT(t)
	x := sharing.NewIndex()
	m := mr(b, 2, "both")
	m.Annotations, m.Finalizers = nil, []string{"some/other", resourcesv1alpha1.FinalizerBase}
	x.Observe(m)
	g.Expect(x.Others(sharing.Unbound{Namespace: "ns", Finalizer: resourcesv1alpha1.FinalizerBase}, key("both"), a,
		nil)).To(ConsistOf(b))
	g.Expect(x.Others(sharing.Unbound{Namespace: "other", Finalizer: resourcesv1alpha1.FinalizerBase}, key("both"), a,
		nil)).To(BeEmpty())
	g.Expect(x.Others(sharing.Unbound{Namespace: "ns", Finalizer: resourcesv1alpha1.FinalizerBase + "-x"},
		key("both"), a, nil)).To(BeEmpty())
	x.Observe(mr(b, 3, "both"))
	g.Expect(x.Others(sharing.Unbound{Namespace: "ns", Finalizer: resourcesv1alpha1.FinalizerBase}, key("both"), a,
		nil)).To(BeEmpty())
	g.Expect(x.Others(cluster, key("both"), a, nil)).To(ConsistOf(b))
}

func TestWhoIsConcernedByAChange(t *testing.T) {
	for name, tc := range map[string]struct {
		change    func() *resourcesv1alpha1.ManagedResource
		concerned []types.NamespacedName
		left      []types.NamespacedName
	}{
		"nothing changed":       {func() *resourcesv1alpha1.ManagedResource { return mr(a, 6, "both", "mine") }, nil, []types.NamespacedName{a, c}},
		"what is its own went":  {func() *resourcesv1alpha1.ManagedResource { return mr(a, 6, "both") }, nil, []types.NamespacedName{a, c}},
		"what is shared went":   {func() *resourcesv1alpha1.ManagedResource { return mr(a, 6, "mine") }, []types.NamespacedName{b, c}, []types.NamespacedName{c}},
		"an older state is old": {func() *resourcesv1alpha1.ManagedResource { return mr(a, 4, "mine") }, nil, []types.NamespacedName{a, c}},
		"it is being deleted": {func() *resourcesv1alpha1.ManagedResource {
			m := mr(a, 6, "both", "mine")
			m.DeletionTimestamp = &metav1.Time{}
			return m
		}, []types.NamespacedName{b, c}, []types.NamespacedName{c}},
		"it went to another cluster": {func() *resourcesv1alpha1.ManagedResource {
			m := mr(a, 6, "both", "mine")
			m.Annotations[hubv1alpha1.TargetUIDAnnotation] = "elsewhere"
			return m
		}, []types.NamespacedName{b, c}, []types.NamespacedName{c}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			x := sharing.NewIndex()
			x.Observe(mr(a, 5, "both", "mine"))
			x.Observe(mr(b, 2, "both"))
			x.Observe(mr(c, 3, "both"))
			g.Expect(x.Observe(tc.change()).Concerned).To(Equal(tc.concerned))
			g.Expect(x.Others(cluster, key("both"), b, nil)).To(Equal(tc.left))
		})
	}
}

func TestForget(t *testing.T) {
	g := NewWithT(t)
	x := sharing.NewIndex()
	x.Observe(mr(a, 1, "both"))
	x.Observe(mr(b, 2, "both"))
	g.Expect(x.Forget(a, "the one before").Concerned).To(BeEmpty(), "one of the same name lives")
	g.Expect(x.Others(cluster, key("both"), b, nil)).To(ConsistOf(a))
	g.Expect(x.Forget(a, types.UID(a.Name)).Concerned).To(ConsistOf(b))
	g.Expect(x.Forget(a, types.UID(a.Name)).Concerned).To(BeEmpty())
	g.Expect(x.Others(cluster, key("both"), b, nil)).To(BeEmpty())
	x.Forget(b, types.UID(b.Name))
	managedResources, objects := x.Len()
	g.Expect(managedResources + objects).To(BeZero())
}

func TestAny(t *testing.T) {
	g := NewWithT(t)
	x := sharing.NewIndex()
	x.Observe(mr(a, 1, "1", "2"))
	x.Observe(mr(b, 2, "3", "2"))
	in := func(k inventory.Key) bool { return k.Namespace == "x" }
	k, by, found := x.Any(cluster, a, nil, in)
	g.Expect(found).To(BeTrue())
	g.Expect(k).To(Equal(key("2")))
	g.Expect(by).To(Equal(b))
	_, _, found = x.Any(cluster, b, nil, func(k inventory.Key) bool { return k.Name == "3" })
	g.Expect(found).To(BeFalse())
}

func BenchmarkObserve(bench *testing.B) {
	x := sharing.NewIndex()
	var lists []string
	for i := range 15 {
		lists = append(lists, fmt.Sprintf("object-%d", i))
	}
	states := make([]*resourcesv1alpha1.ManagedResource, 0, 1000)
	for i := range 1000 {
		states = append(states, mr(name(fmt.Sprintf("mr-%d", i)), i+1, lists...))
	}
	bench.ReportAllocs()
	for i := 0; bench.Loop(); i++ {
		x.Observe(states[i%len(states)])
	}
}
