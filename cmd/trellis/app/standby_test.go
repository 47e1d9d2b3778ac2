package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// simulated is a target in a namespace of its own, with a ManagedResource of one ConfigMap. It can be rotated.
type simulated struct {
	*env
	*fleetsim.Target
	ns string
}

// simulate starts targets, of which none is registered yet.
func (e *env) simulate(n int) []*simulated {
	e.t.Helper()
	fleet, err := fleetsim.Start(e.ctx, fleetsim.Options{Targets: n, Prefix: e.name + "-", Seed: time.Now().UnixNano()})
	e.Expect(err).NotTo(HaveOccurred())
	e.t.Cleanup(fleet.Stop)
	var out []*simulated
	for _, target := range fleet.Targets() {
		out = append(out, &simulated{env: e, Target: target, ns: testbed.Namespace(e.t, nil, source)})
	}
	return out
}

func (s *simulated) registration() *corev1.Secret {
	return testbed.Registration(s.ns, "target", s.Kubeconfig())
}

func (s *simulated) content(value string) *corev1.Secret {
	return testbed.Content(s.ns, "mr", "objects.yaml", testbed.ConfigMap("default", "one", value))
}

// register has hubs look after the target until the end of the test.
func (s *simulated) register(value string) {
	s.t.Helper()
	for _, object := range []client.Object{s.registration(), s.content(value), testbed.ManagedResource(s.ns, "mr", "mr")} {
		s.Expect(source.Client.Create(s.ctx, object)).To(Succeed())
	}
	s.t.Cleanup(func() {
		mr := testbed.ManagedResource(s.ns, "mr")
		s.Expect(client.IgnoreNotFound(source.Client.Patch(s.ctx, mr, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
		s.Expect(client.IgnoreNotFound(source.Client.Delete(s.ctx, mr))).To(Succeed())
		s.Expect(source.Client.DeleteAllOf(s.ctx, &corev1.Secret{}, client.InNamespace(s.ns))).To(Succeed())
	})
}

// unregister takes back what register did, as people would.
func (s *simulated) unregister() {
	s.t.Helper()
	mr := testbed.ManagedResource(s.ns, "mr")
	s.Expect(source.Client.Delete(s.ctx, mr)).To(Succeed())
	s.Eventually(func() bool { return apierrors.IsNotFound(source.Client.Get(s.ctx, client.ObjectKeyFromObject(mr), mr)) }).Should(BeTrue())
	s.Expect(source.Client.Delete(s.ctx, s.registration())).To(Succeed())
}

// rewrite writes an object again that is different now.
func (s *simulated) rewrite(object client.Object) {
	s.t.Helper()
	s.Expect(source.Client.Update(s.ctx, object)).To(Succeed())
}

func (s *simulated) value() string {
	s.t.Helper()
	for _, object := range s.Server().Objects(corev1.SchemeGroupVersion.WithResource("configmaps")) {
		if object.GetNamespace() == "default" && object.GetName() == "one" {
			value, _, err := unstructured.NestedString(object.Object, "data", "key")
			s.Expect(err).NotTo(HaveOccurred())
			return value
		}
	}
	return ""
}

// expectCare insists that drift is corrected.
func (s *simulated) expectCare(value string) {
	s.t.Helper()
	s.Eventually(s.value).Should(Equal(value))
	mr := &resourcesv1alpha1.ManagedResource{}
	s.Eventually(func() bool {
		s.Expect(source.Client.Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: "mr"}, mr)).To(Succeed())
		c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionReady)
		return c != nil && c.Status == resourcesv1alpha1.ConditionTrue
	}).Should(BeTrue())
	_, err := s.Call(s.ctx, fleetsim.Call{
		Method: http.MethodPatch, Path: "/api/v1/namespaces/default/configmaps/one", UserAgent: "another-client",
		ContentType: "application/merge-patch+json", Body: []byte(`{"data":{"key":"edited"}}`),
	})
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(s.value).Should(Equal(value))
}

// written is what hubs wrote to the target since a time.
func (s *simulated) written(since time.Time) []string {
	found := []string{}
	for _, c := range s.Journal().Changes(since) {
		if c.UserAgent == "trellis" {
			found = append(found, fmt.Sprintf("%s %s", c.Verb, c.Object()))
		}
	}
	return found
}

// connected returns the targets that a hub is connected to.
func (e *env) connected(hub *testbed.Hub) func() []string {
	return func() []string {
		var up []string
		for _, m := range e.gathered(hub)["trellis_target_up"].GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "target" && m.GetGauge().GetValue() == 1 {
					up = append(up, label.GetValue())
				}
			}
		}
		return up
	}
}

// connections is how often a hub connected to targets, lost or rotated a connection. Attempts that failed do not count.
func (e *env) connections(hub *testbed.Hub) map[string]float64 {
	families, out := e.gathered(hub), map[string]float64{}
	for _, name := range []string{"trellis_clustercache_connects_total", "trellis_clustercache_rotations_total", "trellis_clustercache_disconnects_total"} {
		for _, m := range families[name].GetMetric() {
			failed := slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "result" && l.GetValue() != "ok" })
			if !failed {
				out[name] += m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// TestStandbyStaysWarm has a standby that waits while targets come, go and rotate, their content changes, and the
// source is away.
func TestStandbyStaysWarm(t *testing.T) {
	e := newEnv(t)
	targets := e.simulate(4)
	token, authority, goes, comes := targets[0], targets[1], targets[2], targets[3]
	for _, s := range targets[:3] {
		s.register("1")
	}
	first := e.startHub(impatient)
	e.expectWork()
	for _, s := range targets[:3] {
		s.expectCare("1")
	}
	second := e.startHub()
	e.Eventually(e.connected(second)).Should(ConsistOf("source", e.name+"/target", token.ns+"/target", authority.ns+"/target", goes.ns+"/target"))

	e.Expect(token.RotateToken(fleetsim.Rotation{})).To(Succeed())
	token.rewrite(token.registration())
	e.Expect(authority.RotateCA(fleetsim.Rotation{})).To(Succeed())
	authority.rewrite(authority.registration())
	goes.unregister()
	comes.register("1")
	token.rewrite(token.content("2"))
	token.expectCare("2")
	for _, s := range []*simulated{authority, comes} {
		s.expectCare("1")
	}
	t.Cleanup(func() { e.Expect(source.Thaw()).To(Succeed()) })
	e.Expect(source.Freeze()).To(Succeed())
	e.Eventually(termGoroutines).Should(BeEmpty(), "the leader has noticed")
	e.Expect(source.Thaw()).To(Succeed())
	e.expectWork()
	token.expectCare("2") // or a term that applies what it could not note in the last one is still at it when this one ends
	authority.expectCare("1")
	comes.expectCare("1")
	all := []string{"source", e.name + "/target", token.ns + "/target", authority.ns + "/target", comes.ns + "/target"}
	e.Eventually(e.connected(second)).Should(ConsistOf(all))
	e.Eventually(func() float64 { return e.connections(second)["trellis_clustercache_rotations_total"] }).Should(BeEquivalentTo(2))

	before, began := e.connections(second), time.Now()
	e.stop(first)
	e.expectWork()
	token.expectCare("2")
	authority.expectCare("1")
	comes.expectCare("1")
	e.Expect(e.connections(second)).To(Equal(before), "it was connected")
	e.Expect(e.connected(second)()).To(ConsistOf(all))
	for _, s := range []*simulated{token, authority, comes} {
		e.Expect(s.written(began)).To(Equal([]string{"apply configmaps default/one"}), "the correction: it knew what is there")
	}
	e.Expect(goes.written(began)).To(BeEmpty())
	e.stop(second)
}
