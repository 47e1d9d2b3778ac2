package managedresource_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/managedresource"
	hubtest "github.com/trellis-hub/trellis/hack/testbed"
)

// TestForHowLongATargetIsNeededWithoutItsRegistration has one ManagedResource with objects in the target.
func TestForHowLongATargetIsNeededWithoutItsRegistration(t *testing.T) {
	t.Parallel()
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
			mr := hubtest.ManagedResource(key.Namespace, "mr", "mr")
			mr.Annotations = map[string]string{hubv1alpha1.TargetUIDAnnotation: "uid"}
			mr.Status.Resources = []resourcesv1alpha1.ObjectReference{{}}
			if c.change != nil {
				c.change(mr, ns)
			}
			clusters := fake.New(nil)
			clusters.SetStatus(clustercache.Status{Cluster: key, State: clustercache.StateDraining, UID: "uid", Since: time.Now().Add(-c.gone)})
			needed := managedresource.StillNeeded(fakeclient.NewClientBuilder().WithScheme(hubtest.Scheme()).WithObjects(mr, ns).
				WithIndex(mr, managedresource.TargetUIDField, managedresource.TargetUIDOf).Build(),
				func() clustercache.ClusterCache { return clusters }, []configv1alpha1.Class{{Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}}})
			g.Expect(needed(key)).To(Equal(c.needed))
		})
	}
}

// A class has a fixed target. A ManagedResource counts as one that needs it only in namespaces that the class selects,
// whatever is written on it.
func TestWhoNeedsAFixedTarget(t *testing.T) {
	t.Parallel()
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
			mr := hubtest.ManagedResource(c.namespace, "mr", "mr")
			mr.Spec.Class = ptr.To("garden")
			mr.Annotations = map[string]string{hubv1alpha1.TargetUIDAnnotation: "uid"}
			mr.Finalizers = []string{resourcesv1alpha1.Finalizer("garden")}
			mr.Status.Resources = []resourcesv1alpha1.ObjectReference{{}}
			mr.DeletionTimestamp = ptr.To(metav1.Now())
			builder := fakeclient.NewClientBuilder().WithScheme(hubtest.Scheme()).WithObjects(mr)
			if c.namespace != "absent" {
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
				if c.selected {
					ns.Labels = map[string]string{"garden": "true"}
				}
				builder.WithObjects(ns)
			}
			clusters := fake.New(nil)
			clusters.SetStatus(clustercache.Status{Cluster: key, State: clustercache.StateDraining, UID: "uid",
				Since: time.Now()})
			needed := managedresource.StillNeeded(builder.WithIndex(mr, managedresource.TargetUIDField,
				managedresource.TargetUIDOf).Build(),
				func() clustercache.ClusterCache { return clusters }, []configv1alpha1.Class{{
					Name: "garden", Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetRegistration,
						Namespace: "garden", Name: "virtual"},
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"garden": "true"}},
				}})
			g.Expect(needed(key)).To(Equal(c.needed))
		})
	}
}
