package app_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/apis/references"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// passes counts the passes of the garbage collector, by the address of the target.
type passes struct{ ofTarget, ofSource atomic.Int64 }

func (p *passes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/configmaps") &&
			strings.HasPrefix(r.URL.Query().Get("labelSelector"), references.Label) && r.URL.Query().Get("watch") == "" {
			if strings.Contains(target.RESTConfig().Host, r.URL.Host) {
				p.ofTarget.Add(1)
			} else {
				p.ofSource.Add(1)
			}
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// setControllers sets spec.controllers of the target's TargetCluster.
func (e *env) setControllers(json string) error {
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: "target"}}
	patch := []byte(`{"spec":{"controllers":` + json + `}}`)
	return source.Client.Patch(e.ctx, tc, client.RawPatch(types.MergePatchType, patch))
}

// collecting is in how many targets the garbage collector works.
func (e *env) collecting(hub *testbed.Hub) func() float64 { return e.working(hub, "garbage-collector") }

// working is in how many targets a controller works.
func (e *env) working(hub *testbed.Hub, controller string) func() float64 {
	return func() float64 {
		families, err := hub.Registry.Gather()
		e.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			if family.GetName() != "trellis_controller_targets" {
				continue
			}
			for _, m := range family.GetMetric() {
				for _, label := range m.GetLabel() {
					if label.GetName() == "controller" && label.GetValue() == controller {
						return m.GetGauge().GetValue()
					}
				}
			}
		}
		return 0
	}
}

// reasons are those of the events about the target's TargetCluster, with their notes.
func (e *env) reasons() (all []string) {
	list := &eventsv1.EventList{}
	e.Expect(source.Client.List(e.ctx, list, client.InNamespace(e.name))).To(Succeed())
	for _, event := range list.Items {
		if event.Regarding.Kind == "TargetCluster" {
			all = append(all, event.Reason+": "+event.Note)
		}
	}
	return all
}

// MC-8: what one TargetCluster says concerns its target alone.
func TestMC8_ControllersOfOneTarget(t *testing.T) {
	e := newEnv(t)
	// The source is a target of its own in another namespace.
	other := testbed.Namespace(t, nil, source)
	e.Expect(source.Client.Create(e.ctx, testbed.Registration(other, "other", source.Kubeconfig()))).To(Succeed())
	t.Cleanup(func() {
		e.Expect(source.Client.DeleteAllOf(e.ctx, &corev1.Secret{}, client.InNamespace(other))).To(Succeed())
	})
	seen := &passes{}
	hub := e.startHubWith(testbed.HubOptions{WrapTarget: seen.wrap}, func(*configv1alpha1.HubConfiguration) {})
	e.eventuallyReady()
	e.Eventually(func() error {
		return source.Client.Get(e.ctx, types.NamespacedName{Namespace: other, Name: "other"}, &hubv1alpha1.TargetCluster{})
	}).Should(Succeed())
	e.Expect(e.collecting(hub)()).To(BeZero(), "it is off by default")

	t.Log("what cannot be a duration")
	e.Expect(e.setControllers(`{"garbageCollector":{"enabled":true,"syncPeriod":"soon"}}`)).
		To(MatchError(apierrors.IsInvalid, "IsInvalid"))

	t.Log("on for this target")
	e.Expect(e.setControllers(`{"garbageCollector":{"enabled":true,"syncPeriod":"15s"}}`)).To(Succeed())
	e.Eventually(e.collecting(hub)).Should(BeEquivalentTo(1))
	e.Eventually(seen.ofTarget.Load).Should(BeNumerically(">=", 2))
	e.Expect(seen.ofSource.Load()).To(BeZero())

	t.Log("a period that is too short")
	e.Expect(e.setControllers(`{"garbageCollector":{"syncPeriod":"1s"}}`)).To(Succeed())
	e.Eventually(e.collecting(hub)).Should(BeZero())
	e.Eventually(e.reasons).Should(ContainElement(And(
		HavePrefix("ControllersInvalid"), ContainSubstring(`spec.controllers.garbageCollector.syncPeriod: Invalid value: "1s"`),
	)))

	t.Log("another period, then a target that is paused")
	e.Expect(e.setControllers(`{"garbageCollector":{"syncPeriod":"12h"}}`)).To(Succeed())
	e.Eventually(e.collecting(hub)).Should(BeEquivalentTo(1))
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: "target"}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`))
	e.Expect(source.Client.Patch(e.ctx, tc, patch)).To(Succeed())
	e.Eventually(e.collecting(hub)).Should(BeZero())
	e.expectNothingOf(other)
}

// expectNothingOf insists that no event is about the controllers of the other target.
func (e *env) expectNothingOf(namespace string) {
	e.t.Helper()
	list := &eventsv1.EventList{}
	e.Expect(source.Client.List(e.ctx, list, client.InNamespace(namespace))).To(Succeed())
	for _, event := range list.Items {
		e.Expect(event.Reason).NotTo(Equal("ControllersInvalid"))
	}
}

// MC-4 If the configuration has controllers for the source, they work for no registration of it.
func TestMC4_TheSourceComesBeforeItsRegistrations(t *testing.T) {
	e := newEnv(t)
	again := testbed.Namespace(t, nil, source)
	e.Expect(source.Client.Create(e.ctx, testbed.Registration(again, "again", source.Kubeconfig()))).To(Succeed())
	t.Cleanup(func() {
		e.Expect(source.Client.DeleteAllOf(e.ctx, &corev1.Secret{}, client.InNamespace(again))).To(Succeed())
	})
	collect := &hubv1alpha1.GarbageCollectorController{Enabled: ptr.To(true)}
	hub := e.startHub(func(c *configv1alpha1.HubConfiguration) {
		for i := range c.Classes[:2] {
			c.Classes[i].Controllers.GarbageCollector = collect
		}
	})
	e.Eventually(func() any {
		tc := &hubv1alpha1.TargetCluster{}
		err := source.Client.Get(e.ctx, types.NamespacedName{Namespace: again, Name: "again"}, tc)
		e.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return tc.Status.Conditions
	}).Should(ContainElement(And(HaveField("Type", hubv1alpha1.ConditionDuplicateRegistration),
		HaveField("Status", metav1.ConditionTrue), HaveField("Message", ContainSubstring("for the source")))))
	e.Eventually(e.collecting(hub)).Should(BeEquivalentTo(2), "the source and the other target")
	e.Consistently(e.collecting(hub), "500ms").Should(BeEquivalentTo(2))
}

const collectables = `
apiVersion: v1
kind: ConfigMap
metadata:
  namespace: NAMESPACE
  name: collectable
  labels: {resources.gardener.cloud/garbage-collectable-reference: "true"}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  namespace: NAMESPACE
  name: collectable
  labels: {resources.gardener.cloud/garbage-collectable-reference: "true"}
spec: {maxUnavailable: 1}
`

func TestGC24_CollectableObjectsOfManagedResourcesStay(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub()
	e.eventuallyReady()
	e.Expect(e.setControllers(`{"garbageCollector":{"enabled":true,"syncPeriod":"1h"}}`)).To(Succeed())
	e.Eventually(e.collecting(hub)).Should(BeEquivalentTo(1))

	manifests := func(more string) {
		content := testbed.Content(e.name, "mr", "objects.yaml", testbed.ConfigMap(e.name, "one", "1"),
			strings.ReplaceAll(more, "NAMESPACE", e.name))
		e.Expect(source.Client.Update(e.ctx, content)).To(Succeed())
	}
	key := types.NamespacedName{Namespace: e.name, Name: "collectable"}
	there := func(obj client.Object) func() bool {
		return func() bool {
			err := target.Client.Get(e.ctx, key, obj)
			e.Expect(client.IgnoreNotFound(err)).To(Succeed())
			return err == nil
		}
	}
	manifests(collectables)
	e.Eventually(there(&corev1.ConfigMap{})).Should(BeTrue())
	e.Eventually(there(&policyv1.PodDisruptionBudget{})).Should(BeTrue())
	e.eventuallyReady()
	manifests("")
	e.Eventually(there(&policyv1.PodDisruptionBudget{})).Should(BeFalse(), "only ConfigMaps and Secrets are collected")
	e.eventuallyReady()
	e.Expect(there(&corev1.ConfigMap{})()).To(BeTrue(), "it is left to the garbage collector")

	t.Log("without the garbage collector")
	e.Expect(e.setControllers(`{"garbageCollector":{"enabled":false}}`)).To(Succeed())
	e.Eventually(e.collecting(hub)).Should(BeZero())
	manifests(strings.ReplaceAll(collectables, "name: collectable", "name: again"))
	key.Name = "again"
	e.Eventually(there(&corev1.ConfigMap{})).Should(BeTrue())
	e.eventuallyReady()
	manifests("")
	e.Eventually(there(&corev1.ConfigMap{})).Should(BeFalse())
}
