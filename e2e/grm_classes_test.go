//go:build grm

package e2e

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const (
	otherClass     = "other"
	ourFinalizer   = resourcesv1alpha1.FinalizerBase
	otherFinalizer = resourcesv1alpha1.FinalizerBase + "-" + otherClass
)

// foreign creates ConfigMaps of another owner in a cluster and returns a function that expects them unchanged. They
// even have the origin of the ManagedResource "mr", like objects that it once left there.
func (s *space) foreign(cluster *testbed.Cluster, names ...string) (untouched func()) {
	s.t.Helper()
	versions := map[string]string{}
	for _, name := range names {
		cm := &corev1.ConfigMap{Data: map[string]string{"key": "of another client"}}
		cm.Namespace, cm.Name = s.name, name
		cm.Annotations = map[string]string{resourcesv1alpha1.OriginAnnotation: s.name + "/mr"}
		s.Expect(cluster.Client.Create(s.ctx, cm)).To(Succeed())
		versions[name] = cm.ResourceVersion
	}
	return func() {
		s.t.Helper()
		for _, name := range names {
			cm := &corev1.ConfigMap{}
			s.Expect(cluster.Client.Get(s.ctx, s.key(name), cm)).To(Succeed(), "%s of another client", name)
			s.Expect(cm.ResourceVersion).To(Equal(versions[name]), "%s of another client", name)
			s.Expect(cm.DeletionTimestamp).To(BeNil())
		}
	}
}

// toClass changes the class of the ManagedResource "mr" and the Secret it refers to, in one step. An empty class is
// none.
func (s *space) toClass(class, secret string) {
	s.t.Helper()
	value := "null"
	if class != "" {
		value = fmt.Sprintf("%q", class)
	}
	s.patchMR("mr", fmt.Sprintf(`{"spec":{"class":%s,"secretRefs":[{"name":%q}]}}`, value, secret))
}

// inventoryNames are the names in the inventory of the ManagedResource "mr".
func (s *space) inventoryNames() []string {
	names := []string{}
	for _, ref := range s.mr("mr").Status.Resources {
		names = append(names, ref.Name)
	}
	return names
}

// A resource manager of class "other" applies to west, the hub's default class to east. The ManagedResource moves from
// one to the other, each time with new content in the same step, and another owner has objects in the new target with
// the names of those in the old one.
func TestGRM_BUG8_X8_MR12_MR13_HandoverBetweenClasses(t *testing.T) {
	type side struct {
		class, finalizer string
		cluster          **testbed.Cluster
	}
	ours, theirs := side{"", ourFinalizer, &east}, side{otherClass, otherFinalizer, &west}
	for name, test := range map[string]struct {
		from, to side
		// second is the Secret with the content after the change of class, and what it holds.
		second  string
		content []string
	}{
		"from the resource manager with other content":       {theirs, ours, "second", []string{"three"}},
		"from the resource manager with overlapping content": {theirs, ours, "overlapping", []string{"three", "two"}},
		"from the resource manager with the same content":    {theirs, ours, "first", []string{"one", "two"}},
		"to the resource manager with other content":         {ours, theirs, "second", []string{"three"}},
		"to the resource manager with the same content":      {ours, theirs, "first", []string{"one", "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t, nil)
			s.register("target", east)
			s.startHub()
			s.startGRM(otherClass, grmOtherLease, west)
			for secret, names := range map[string][]string{"first": {"one", "two"}, "second": {"three"}, "overlapping": {"three", "two"}} {
				var manifests []string
				for _, n := range names {
					manifests = append(manifests, s.configMap(n, secret))
				}
				s.Expect(source.Client.Create(s.ctx, testbed.Content(s.name, secret, "objects.yaml", manifests...))).To(Succeed())
			}
			oldTarget, newTarget := *test.from.cluster, *test.to.cluster
			mr := testbed.ManagedResource(s.name, "mr", "first")
			if test.from.class != "" {
				mr.Spec.Class = &test.from.class
			}
			s.Expect(source.Client.Create(s.ctx, mr)).To(Succeed())
			s.eventuallyGood("mr")
			s.Expect(s.mr("mr").Finalizers).To(ConsistOf(test.from.finalizer))
			s.Expect(s.value(oldTarget, "one")).To(Equal("first"))

			untouched := func() {}
			if test.second != "first" {
				untouched = s.foreign(newTarget, "one")
			}
			s.hold(oldTarget, "one", true)
			s.toClass(test.to.class, test.second)

			// The old one cleans up, the new one waits.
			s.eventuallyValue(oldTarget, "two", "")
			s.eventuallyCondition("mr", applied, "Progressing/DeletionPending")
			s.Consistently(func() string { return s.value(newTarget, test.content[0]) }, 3*time.Second, time.Second).Should(BeEmpty())
			s.Expect(s.mr("mr").Finalizers).To(ConsistOf(test.from.finalizer))
			untouched()

			s.hold(oldTarget, "one", false)
			s.Eventually(func() []string { return s.mr("mr").Finalizers }).Should(ConsistOf(test.to.finalizer))
			for _, name := range test.content {
				s.eventuallyValue(newTarget, name, test.second)
			}
			s.eventuallyGood("mr")
			s.Expect(s.inventoryNames()).To(ConsistOf(test.content))
			s.Expect(s.value(oldTarget, "one")).To(BeEmpty())
			untouched()

			// And the way back. The resource manager leaves its inventory behind again.
			s.toClass(test.from.class, "first")
			s.Eventually(func() []string { return s.mr("mr").Finalizers }, 2*patience).Should(ConsistOf(test.from.finalizer))
			s.eventuallyValue(oldTarget, "one", "first")
			s.eventuallyGood("mr")
			s.Expect(s.inventoryNames()).To(ConsistOf("one", "two"))
			for _, name := range test.content {
				s.eventuallyValue(newTarget, name, "")
			}
			untouched()
		})
	}
}

// A ManagedResource whose deletion begins while it is handed over leaves nothing in the cluster that has its objects,
// and takes nothing from the other.
func TestGRM_DeletionAmidHandover(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string
		old, new **testbed.Cluster
	}{
		"from the resource manager": {otherClass, "", &west, &east},
		"to the resource manager":   {"", otherClass, &east, &west},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t, nil)
			s.register("target", east)
			s.startHub()
			s.startGRM(otherClass, grmOtherLease, west)
			mr := testbed.ManagedResource(s.name, "mr", "mr")
			if test.from != "" {
				mr.Spec.Class = &test.from
			}
			s.manageWith(mr, testbed.Content(s.name, "mr", "objects.yaml", s.configMap("one", "1"), s.configMap("two", "1")))
			s.eventuallyGood("mr")
			s.hold(*test.old, "one", true)
			s.toClass(test.to, "mr")
			s.eventuallyCondition("mr", applied, "Progressing/DeletionPending")

			s.deleteMR("mr")
			s.hold(*test.old, "one", false)
			s.eventuallyGone("mr")
			for _, name := range []string{"one", "two"} {
				s.Expect(s.uid(*test.old, name)).To(Equal(types.UID("")))
				s.Expect(s.uid(*test.new, name)).To(Equal(types.UID("")))
			}
		})
	}
}
