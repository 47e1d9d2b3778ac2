package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
)

const (
	nss  = "/api/v1/namespaces"
	crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

	things = "/apis/sim.test/v1/namespaces/default/things"
	crd    = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.sim.test},
		spec: {group: sim.test, scope: Namespaced, names: {plural: things, singular: thing, kind: Thing, listKind: ThingList},
		versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}}}]}}`
)

func thing(name, rest string) string {
	return "{apiVersion: sim.test/v1, kind: Thing, metadata: {name: " + name + rest + "}, spec: {a: x, b: z}}"
}

func TestANamespaceIsEmptiedAndGoes(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{})
	const inside = nss + "/own/configmaps"
	g.Expect(s.send(g, "POST", inside, configMap("early", "")).status(g).Reason).To(Equal(metav1.StatusReasonNotFound))
	g.Expect(s.send(g, "POST", nss, "{apiVersion: v1, kind: Namespace, metadata: {name: own}}").code).To(Equal(http.StatusCreated))
	g.Expect(s.send(g, "POST", inside, configMap("plain", "")).code).To(Equal(http.StatusCreated))
	g.Expect(s.send(g, "POST", inside, "{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [sim.test/hold]}}").code).To(Equal(http.StatusCreated))
	g.Expect(s.send(g, "POST", cms, configMap("elsewhere", "")).code).To(Equal(http.StatusCreated))
	pod := "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: here, containers: [{name: c, image: i}]}}"
	g.Expect(s.send(g, "POST", nss+"/own/pods", pod).code).To(Equal(http.StatusCreated))

	deleted := s.send(g, "DELETE", nss+"/own", "")
	g.Expect(deleted.code).To(Equal(http.StatusOK))
	g.Expect(deleted.at("status", "phase")).To(Equal("Terminating"))
	refused := s.send(g, "POST", inside, configMap("late", ""))
	g.Expect(refused.code).To(Equal(http.StatusForbidden))
	g.Expect(refused.status(g).Details.Causes).To(ContainElement(HaveField("Type", BeEquivalentTo("NamespaceTerminating"))))
	left := func(path string) int { return s.send(g, "GET", path, "").code }
	g.Eventually(left, patience, shortly).WithArguments(inside + "/plain").Should(Equal(http.StatusNotFound))
	g.Eventually(left, patience, shortly).WithArguments(nss + "/own/pods/p").Should(Equal(http.StatusNotFound))
	g.Eventually(func() any { return s.send(g, "GET", inside+"/held", "").at("metadata", "deletionTimestamp") }, patience, shortly).ShouldNot(BeNil())
	g.Expect(left(nss + "/own")).To(Equal(http.StatusOK))

	freed := s.send(g, "PATCH", inside+"/held", "{metadata: {finalizers: null}}", "Content-Type", "application/merge-patch+json")
	g.Expect(freed.code).To(Equal(http.StatusOK))
	g.Eventually(left, patience, shortly).WithArguments(nss + "/own").Should(Equal(http.StatusNotFound))
	g.Expect(left(cms + "/elsewhere")).To(Equal(http.StatusOK))
}

func TestWithoutControllersNothingIsEmptied(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{NoControllers: true})
	g.Expect(s.send(g, "POST", nss, "{apiVersion: v1, kind: Namespace, metadata: {name: own}}").code).To(Equal(http.StatusCreated))
	g.Expect(s.send(g, "DELETE", nss+"/own", "").code).To(Equal(http.StatusOK))
	g.Expect(s.send(g, "POST", cms, configMap("x", "")).code).To(Equal(http.StatusCreated))
	g.Expect(s.send(g, "DELETE", cms+"/x?propagationPolicy=Foreground", "").code).To(Equal(http.StatusOK))
	s.Stop() // whatever was in progress is over
	g.Expect(s.Objects(schemaOf("", "configmaps"))).To(HaveLen(1))
	g.Expect(s.Objects(schemaOf("", "namespaces"))).To(HaveLen(5))
}

func TestDeletionsThatWaitForTheGarbageCollectorEnd(t *testing.T) {
	for _, policy := range []string{"Foreground", "Orphan"} {
		t.Run(policy, func(t *testing.T) {
			g := NewWithT(t)
			s := start(t, apiserver.Options{})
			g.Expect(s.send(g, "POST", cms, configMap("x", "")).code).To(Equal(http.StatusCreated))
			g.Expect(s.send(g, "DELETE", cms+"/x?propagationPolicy="+policy, "").at("metadata", "finalizers")).To(HaveLen(1))
			g.Eventually(func() int { return s.send(g, "GET", cms+"/x", "").code }, patience, shortly).Should(Equal(http.StatusNotFound))
		})
	}
}

func TestACustomResourceComesAndGoes(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{})
	establish := func() {
		g.Expect(s.send(g, "POST", crds, crd).code).To(Equal(http.StatusCreated))
		g.Eventually(func() int { return s.send(g, "GET", things, "").code }, patience, shortly).Should(Equal(http.StatusOK))
	}
	missing := s.send(g, "GET", things, "")
	g.Expect(missing.code).To(Equal(http.StatusNotFound))
	g.Expect(missing.text).To(Equal("404 page not found\n"))
	tag := func() string {
		return s.send(g, "GET", "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").header.Get("ETag")
	}
	before := tag()
	establish()
	g.Expect(tag()).NotTo(Equal(before))
	g.Expect(s.send(g, "GET", crds+"/things.sim.test", "").at("status", "acceptedNames", "kind")).To(Equal("Thing"))

	created := s.send(g, "POST", things, thing("one", ""))
	g.Expect(created.code).To(Equal(http.StatusCreated))
	g.Expect(created.at("spec")).To(Equal(map[string]any{"a": "x"}))
	g.Expect(s.send(g, "POST", things, thing("held", ", finalizers: [sim.test/hold]")).code).To(Equal(http.StatusCreated))

	// A new schema counts at once.
	changed := s.send(g, "PATCH", crds+"/things.sim.test", `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b","value":{"type":"string"}}]`,
		"Content-Type", "application/json-patch+json")
	g.Expect(changed.code).To(Equal(http.StatusOK), changed.text)
	two := s.send(g, "POST", things, thing("two", ""))
	g.Expect(two.at("spec")).To(Equal(map[string]any{"a": "x", "b": "z"}), two.text)

	events := s.watch(t, things+"?watch=1")
	g.Expect(next(g, events, 3)).To(ConsistOf("ADDED held", "ADDED one", "ADDED two"))
	g.Expect(s.send(g, "DELETE", crds+"/things.sim.test", "").at("metadata", "deletionTimestamp")).NotTo(BeNil())
	g.Expect(next(g, events, 3)).To(ConsistOf("MODIFIED held", "DELETED one", "DELETED two"))
	g.Expect(s.send(g, "GET", crds+"/things.sim.test", "").code).To(Equal(http.StatusOK), "an instance is held")
	for _, late := range []answer{
		s.send(g, "POST", things, thing("late", "")),
		s.send(g, "PATCH", things+"/late?fieldManager=m", thing("late", ""), "Content-Type", "application/apply-patch+yaml"),
	} {
		g.Expect(late.code).To(Equal(http.StatusForbidden), late.text)
		g.Expect(late.at("message")).To(HaveSuffix("create not allowed while custom resource definition is terminating"))
	}
	g.Expect(s.send(g, "PATCH", things+"/held", "{metadata: {finalizers: null}}", "Content-Type", "application/merge-patch+json").code).To(Equal(http.StatusOK))
	g.Expect(next(g, events, 1)).To(ConsistOf("DELETED held"))
	g.Eventually(events, patience).Should(BeClosed())
	g.Eventually(func() int { return s.send(g, "GET", crds+"/things.sim.test", "").code }, patience, shortly).Should(Equal(http.StatusNotFound))
	g.Eventually(func() int { return s.send(g, "GET", things, "").code }, patience, shortly).Should(Equal(http.StatusNotFound))
	g.Eventually(tag, patience, shortly).Should(Equal(before))

	establish()
	g.Expect(s.send(g, "GET", things, "").at("items")).To(BeEmpty())
}

// TestNothingReturnsWithADefinition writes without a pause while a CustomResourceDefinition is deleted, with and
// without a finalizer of another client.
func TestNothingReturnsWithADefinition(t *testing.T) {
	for name, finalizers := range map[string]any{"no finalizer": nil, "a finalizer": []any{"sim.test/hold"}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := start(t, apiserver.Options{})
			take := func(finalizers any) int {
				body, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
				g.Expect(err).NotTo(HaveOccurred())
				return s.send(g, "PATCH", crds+"/things.sim.test", string(body), "Content-Type", "application/merge-patch+json").code
			}
			stop := make(chan struct{})
			var writers sync.WaitGroup
			defer writers.Wait()
			defer close(stop)
			for i := range 2 {
				writers.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
							// Some come before the definition and some after it.
							serve(g, s, "POST", things, thing(fmt.Sprintf("x-%d-%d", i, n), ""))
						}
					}
				})
			}
			for range 20 {
				g.Expect(s.send(g, "POST", crds, crd).code).To(Equal(http.StatusCreated))
				g.Eventually(func() int { return len(s.Objects(schemaOf("sim.test", "things"))) }, patience, shortly).Should(BeNumerically(">", 1))
				if finalizers != nil {
					g.Expect(take(finalizers)).To(Equal(http.StatusOK))
				}
				g.Expect(s.send(g, "DELETE", crds+"/things.sim.test", "").code).To(Equal(http.StatusOK))
				if finalizers != nil {
					g.Eventually(func() any { return s.send(g, "GET", crds+"/things.sim.test", "").at("metadata", "finalizers") }, patience, shortly).Should(HaveLen(1))
					g.Expect(take(nil)).To(Equal(http.StatusOK))
				}
				g.Eventually(func() int { return s.send(g, "GET", crds+"/things.sim.test", "").code }, patience, shortly).Should(Equal(http.StatusNotFound))
				g.Expect(s.Count()).To(Equal(4), "four namespaces are left")
			}
		})
	}
}
