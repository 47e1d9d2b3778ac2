package members_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	fakeclusters "github.com/trellis-hub/trellis/clustercache/fake"
	. "github.com/trellis-hub/trellis/controllers/targetcluster/members"
)

// TestForHowLongATargetIsNeededWithoutItsRegistration has one ManagedResource with objects in the target.
func TestForHowLongATargetIsNeededWithoutItsRegistration(t *testing.T) {
	key := clustercache.ClusterKey{Namespace: "ns", Name: "target"}
	goes := func(m metav1.Object) {
		m.SetDeletionTimestamp(ptr.To(metav1.Now()))
		m.SetFinalizers([]string{"tests/kept"})
	}
	for name, c := range map[string]struct {
		gone   time.Duration // for how long the registration has been gone
		change func(mr *resourcesv1alpha1.ManagedResource, ns *corev1.Namespace)
		needed bool
	}{
		"at first, because the deletion may be seen later": {needed: true},
		"and no longer":                   {gone: time.Minute},
		"by a ManagedResource that goes":  {gone: time.Minute, needed: true, change: func(mr *resourcesv1alpha1.ManagedResource, _ *corev1.Namespace) { goes(mr) }},
		"by what goes with its namespace": {gone: time.Minute, needed: true, change: func(_ *resourcesv1alpha1.ManagedResource, ns *corev1.Namespace) { goes(ns) }},
		"but not by one without objects":  {change: func(mr *resourcesv1alpha1.ManagedResource, _ *corev1.Namespace) { mr.Status.Resources = nil }},
		"nor by one with objects elsewhere": {change: func(mr *resourcesv1alpha1.ManagedResource, _ *corev1.Namespace) {
			mr.Annotations[hubv1alpha1.TargetUIDAnnotation] = "another"
		}},
		"nor by one that keeps its objects": {change: func(mr *resourcesv1alpha1.ManagedResource, ns *corev1.Namespace) {
			mr.Spec.KeepObjects = ptr.To(true)
			goes(mr)
			goes(ns)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}
			mr := mr(key.Namespace, appliedTo("uid"))
			mr.Status.Resources = []resourcesv1alpha1.ObjectReference{{}}
			if c.change != nil {
				c.change(mr, ns)
			}
			now := time.Now()
			clusters := fakeclusters.New(nil)
			clusters.SetStatus(clustercache.Status{Cluster: key, State: clustercache.StateDraining, UID: "uid", Since: now})
			index := newIndexOf(g, clusters,
				[]configv1alpha1.Class{{Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}}},
				now.Add(c.gone), mr, ns)
			g.Expect(index.StillNeeded(key)).To(Equal(c.needed))
		})
	}
}

// A class has a fixed target. A ManagedResource counts as one that needs it only in namespaces that the class selects,
// whatever is written on it.
func TestWhoNeedsAFixedTarget(t *testing.T) {
	key := clustercache.ClusterKey{Namespace: "garden", Name: "virtual"}
	for name, c := range map[string]struct {
		namespace string
		selected  bool
		needed    bool
	}{
		"a ManagedResource of a selected namespace":          {"chosen", true, true},
		"one that says so, of a namespace that is not":       {"hostile", false, false},
		"one of the namespace of the registration":           {"garden", false, true},
		"one of a namespace of which nothing is known (yet)": {"absent", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			mr := mr(c.namespace, class("garden"), appliedTo("uid"))
			mr.Finalizers = []string{resourcesv1alpha1.Finalizer("garden")}
			mr.Status.Resources = []resourcesv1alpha1.ObjectReference{{}}
			mr.DeletionTimestamp = ptr.To(metav1.Now())
			objects := []client.Object{mr}
			if c.namespace != "absent" {
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
				if c.selected {
					ns.Labels = map[string]string{"garden": "true"}
				}
				objects = append(objects, ns)
			}
			now := time.Now()
			clusters := fakeclusters.New(nil)
			clusters.SetStatus(clustercache.Status{Cluster: key, State: clustercache.StateDraining, UID: "uid", Since: now})
			g.Expect(newIndexOf(g, clusters, classes, now, objects...).StillNeeded(key)).To(Equal(c.needed))
		})
	}
}

// What is in use is known by what was written of the target, whatever becomes of its registration.
func TestTargetIsInUseAsLongAsItHasObjects(t *testing.T) {
	g := NewWithT(t)
	registered := func(name string, uid types.UID) *hubv1alpha1.TargetCluster {
		return &hubv1alpha1.TargetCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: name},
			Status:     hubv1alpha1.TargetClusterStatus{ClusterUID: uid},
		}
	}
	used, empty := mr("one", appliedTo("used")), mr("one", appliedTo("empty"))
	used.Status.Resources = []resourcesv1alpha1.ObjectReference{{}}
	empty.Name = "empty"
	clusters := fakeclusters.New(nil)
	index := newIndexOf(g, clusters, classes, time.Now(), used, empty, registered("a", "used"), registered("b", "empty"),
		registered("c", ""))
	for name, inUse := range map[string]bool{"a": true, "b": false, "c": false, "unknown": false} {
		g.Expect(index.InUse(t.Context(), clustercache.ClusterKey{Namespace: "one", Name: name})).To(Equal(inUse), name)
	}
	clusters.SetStatus(clustercache.Status{Cluster: target("one/other"), State: clustercache.StateConnected, UID: "used"})
	g.Expect(index.InUse(t.Context(), target("one/a"))).To(BeFalse(), "another registration leads there")
}

// Nothing is known before the informers have the index, so everything may be in use.
func TestTargetMayBeInUseUntilThatIsKnown(t *testing.T) {
	g := NewWithT(t)
	clusters := fakeclusters.New(nil)
	clusters.SetStatus(clustercache.Status{Cluster: target("one/a"), State: clustercache.StateDraining, UID: "uid"})
	source := &informers{Client: fake.NewClientBuilder().WithScheme(newScheme(g)).Build()}
	index, err := New(source, clusters, classes, clock.RealClock{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(index.StillNeeded(target("one/a"))).To(BeTrue())
}

// newIndexOf returns an index of objects for which it is always now.
func newIndexOf(g Gomega, clusters clustercache.ClusterCache, classes []configv1alpha1.Class, now time.Time,
	objects ...client.Object) *Index {
	index, err := New(&informers{scheme: newScheme(g), objects: objects}, clusters, classes,
		clocktesting.NewFakePassiveClock(now))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(index.Register(context.Background())).To(Succeed())
	return index
}
