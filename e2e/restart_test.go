package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// definition and instance are manifests of a kind of the space's own, and of an object of that kind.
func definition(s *space) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.%[1]s.example.com"},
		"spec":{"group":"%[1]s.example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`, s.name)
}

func instance(s *space) string {
	return fmt.Sprintf(`{"apiVersion":"%[1]s.example.com/v1","kind":"Widget","metadata":{"namespace":%[1]q,"name":"one"},"spec":{"size":3}}`, s.name)
}

// deployment is the manifest of a Deployment in the space.
func deployment(s *space, name string, replicas int) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":%[2]q},"spec":{"replicas":%d,"selector":{"matchLabels":{"app":%[2]q}},
		"template":{"metadata":{"labels":{"app":%[2]q}},"spec":{"containers":[{"name":"main","image":"example.com/web:1"}]}}}}`, s.name, name, replicas)
}

// workload is a Deployment with what belongs to it.
func workload(s *space) []string {
	return []string{
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":%q,"name":"web"}}`, s.name),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":%q,"name":"web"},"spec":{"selector":{"app":"web"},"ports":[{"port":80}]}}`, s.name),
		deployment(s, "web", 2),
	}
}

// fleet is ManagedResources of all kinds in both targets and the source, all Ready.
func fleet(t *testing.T) (inEast, inWest *space) {
	t.Helper()
	inEast, inWest = newSpace(t, map[string]string{"seed": "true"}), newSpace(t, nil)
	t.Cleanup(func() {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets." + inWest.name + ".example.com"}}
		inWest.Expect(west.Client.Delete(inWest.ctx, crd)).To(Succeed())
	})
	inEast.register("target", east)
	inWest.register("target", west)

	var many []string
	for i := range 30 {
		many = append(many, inEast.configMap(fmt.Sprint("many-", i), "m"))
	}
	compressed := testbed.Content(inEast.name, "compressed", "objects.yaml.br")
	compressed.Data["objects.yaml.br"] = testbed.Brotli([]byte(strings.Join(many, "\n---\n")))
	inEast.manageWith(testbed.ManagedResource(inEast.name, "compressed", "compressed"), compressed)
	inEast.manage("ignoring", inEast.configMap("watched", "w"),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"ignored","annotations":{"resources.gardener.cloud/ignore":"true"}},"data":{"key":"i"}}`, inEast.name))
	seeded := testbed.ManagedResource(inEast.name, "seeded", "seeded")
	seeded.Spec.Class = new("seed")
	inEast.manageWith(seeded, testbed.Content(inEast.name, "seeded", "objects.yaml", inEast.configMap("seeded", "s")))
	kept := testbed.ManagedResource(inEast.name, "two-secrets", "two-secrets", "second-secret")
	kept.Spec.InjectLabels = map[string]string{"injected": "yes"}
	inEast.Expect(source.Client.Create(inEast.ctx, testbed.Content(
		inEast.name, "second-secret", "a.yaml", inEast.configMap("second", "2")))).To(Succeed())
	inEast.manageWith(kept, testbed.Content(inEast.name, "two-secrets", "a.yaml", inEast.configMap("first", "1")))

	inWest.manage("custom", definition(inWest), instance(inWest))
	inWest.manage("workload", workload(inWest)...)
	inWest.manage("idle", deployment(inWest, "idle", 0))
	return inEast, inWest
}

// eventuallySettled waits until the status of a target agrees with its ManagedResources, and its label with its
// conditions, so that nothing is left to write.
func (s *space) eventuallySettled(name string, managedResources int32) {
	s.t.Helper()
	s.Eventually(func() string {
		target := s.target(name)
		counts, label := target.Status.ManagedResources, target.Labels[hubv1alpha1.StatusLabel]
		if counts != nil && counts.Total == managedResources && counts.Ready == managedResources &&
			label == hubv1alpha1.StatusHealthy {
			return ""
		}
		return fmt.Sprintf("%+v, labelled %q", counts, label)
	}).Should(BeEmpty())
}

func TestW07_W08_RestartOverAnUnchangedFleetSendsNothing(t *testing.T) {
	inEast, inWest := fleet(t)
	s := inEast
	first := s.startHub()
	inEast.eventuallyReady("compressed", "ignoring", "seeded", "two-secrets")
	inWest.eventuallyReady("custom", "workload", "idle")
	inEast.eventuallyNoted("compressed", "ignoring", "seeded", "two-secrets")
	inWest.eventuallyNoted("custom", "workload", "idle")
	inEast.eventuallySettled("target", 3)
	inWest.eventuallySettled("target", 3)
	s.stopHub(first)
	s.edit(east, "ignored", "what is ignored may change")

	changesInEast, changesInWest := inEast.watchStatus(), inWest.watchStatus()
	askedSource, askedEast, askedWest := listen(s.WithT, source), listen(s.WithT, east), listen(s.WithT, west)
	s.startHub()

	// The hub lists and watches each kind in use, in each target that it uses it in.
	watched := func(asked func() []request) func() []string {
		return func() []string {
			kinds := []string{}
			for _, e := range without(asked(), func(e request) bool { return e.Verb != "watch" }) {
				kinds = append(kinds, e.Resource)
			}
			slices.Sort(kinds)
			return slices.Compact(kinds)
		}
	}
	s.Eventually(watched(askedEast)).Should(ContainElements("configmaps", "nodes"))
	s.Eventually(watched(askedWest)).Should(ContainElements("customresourcedefinitions", "deployments", "nodes", "pods", "serviceaccounts", "services", "widgets"))
	s.Eventually(watched(askedSource)).Should(ContainElements("configmaps", "leases", "managedresources", "namespaces", "secrets", "targetclusters"))

	// In the source it also keeps its Lease and gets the token by which it is a client of its own source.
	own := func(e request) bool {
		return e.Namespace == testbed.HubNamespace &&
			(e.Resource == "leases" || e.Resource == "serviceaccounts" && e.Subresource == "token")
	}
	unexpected := func() []string {
		return slices.Concat(
			texts(without(askedEast(), isConnectionCheck, isRead)),
			texts(without(askedWest(), isConnectionCheck, isRead)),
			texts(without(askedSource(), isConnectionCheck, isRead, own)),
		)
	}
	// A start that misses something looks again after 20 s. That it knows enough shows below.
	s.Consistently(unexpected, 25*time.Second, time.Second).Should(BeEmpty())
	s.Expect(changesInEast()).To(BeEmpty())
	s.Expect(changesInWest()).To(BeEmpty())
	for _, each := range []struct {
		*space
		names []string
	}{{inEast, []string{"compressed", "ignoring", "seeded", "two-secrets"}}, {inWest, []string{"custom", "workload", "idle"}}} {
		for _, name := range each.names {
			each.Expect(each.condition(name, ready)).To(Equal("True/Ready"), name)
		}
	}
	s.Expect(s.value(east, "ignored")).To(Equal("what is ignored may change"))

	// It knows all of it.
	s.edit(east, "many-7", "drift")
	s.remove(east, "first")
	s.edit(source, "seeded", "drift")
	s.eventuallyValue(east, "many-7", "m")
	s.eventuallyValue(east, "first", "1")
	s.eventuallyValue(source, "seeded", "s")
	for _, object := range []client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: inWest.name, Name: "idle"}}, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: inWest.name, Name: "web"}},
	} {
		s.Expect(west.Client.Delete(s.ctx, object)).To(Succeed())
		s.Eventually(func() error { return west.Client.Get(s.ctx, client.ObjectKeyFromObject(object), object) }).Should(Succeed())
	}
}
