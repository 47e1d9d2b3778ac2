package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// versionedCRD serves plants in v1, and in v1beta1 as long as that is wanted. They have a status.
func (p place) versionedCRD(beta bool) string {
	const schema = `"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"height":{"type":"integer"}}},` +
		`"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}},"subresources":{"status":{}}`
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"plants.%[1]s"},
"spec":{"group":%[1]q,"scope":"Cluster","names":{"kind":"Plant","listKind":"PlantList","plural":"plants","singular":"plant"},
"versions":[{"name":"v1","served":true,"storage":true,%[2]s},{"name":"v1beta1","served":%[3]t,"storage":false,%[2]s}]}}`, p.group(), schema, beta)
}

func (p place) versionedPlant(version, name string) string {
	return fmt.Sprintf(`{"apiVersion":"%s/%s","kind":"Plant","metadata":{"name":%q},"spec":{"height":1}}`, p.group(), version, name)
}

// wither and bloom let a plant say how it is.
func (p place) wither(name string) {
	p.status(p.livePlant(name, ""), `{"observedGeneration":9,"conditions":[{"type":"Ready","status":"False","reason":"Dry","message":"no water"}]}`)
	p.await("mr", has(healthy, no, "PlantUnhealthy", name, "condition Ready is False (Dry): no water"), has(ready, no, "PlantUnhealthy"))
}

func (p place) bloom(name string) {
	p.status(p.livePlant(name, ""), `{"observedGeneration":9,"conditions":[{"type":"Ready","status":"True"}]}`)
	p.awaitReady("mr")
}

// Objects of one kind in two versions are watched, judged and kept; and when the old version is gone, those that left
// it.
func TestTwoVersionsOfAKindInOneManagedResource(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.versionedCRD(true), p.versionedPlant("v1", "rose-"+p.ns), p.versionedPlant("v1beta1", "lily-"+p.ns))
	p.mr("mr", "content")
	p.awaitReady("mr")
	rose, lily := "rose-"+p.ns, "lily-"+p.ns
	for _, name := range []string{rose, lily} {
		p.wither(name)
		p.bloom(name)
		plant := p.livePlant(name, "")
		p.edit(target, plant, func() { p.Expect(unstructured.SetNestedField(plant.Object, int64(7), "spec", "height")).To(Succeed()) })
		p.Eventually(func() int64 { return height(read(p, p.livePlant(name, ""))) }).Should(Equal(int64(1)), func() string { return hub.Log.About(p.ns) })
	}

	p.content("content", p.versionedCRD(false), p.versionedPlant("v1", rose), p.versionedPlant("v1", lily))
	p.Eventually(func() bool { return read(p, p.liveCRD()).Spec.Versions[1].Served }).Should(BeFalse())
	p.awaitReady("mr")
	for _, name := range []string{rose, lily} {
		p.wither(name)
		p.bloom(name)
	}
}

// A status about an earlier generation says nothing about what was applied since.
func TestCustomResourceIsNotHealthyBeforeItsGenerationWasObserved(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.versionedCRD(true), p.versionedPlant("v1", "rose"))
	p.mr("mr", "content")
	p.awaitReady("mr") // it says nothing
	p.status(p.livePlant("rose", ""), `{"observedGeneration":1,"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]}`)
	p.awaitReady("mr")

	p.content("content", p.versionedCRD(true), fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Plant","metadata":{"name":"rose"},"spec":{"height":2}}`, p.group()))
	const unobserved = "generation 2 has not been observed yet, only 1"
	p.await("mr", has(applied, yes, ""), has(healthy, no, "PlantUnhealthy", unobserved), has(progressing, yes, "PlantProgressing", unobserved))
	p.status(p.livePlant("rose", ""), `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]}`)
	p.await("mr", has(healthy, no, "PlantUnhealthy", "condition Ready is about generation 1, not about 2"))
	p.status(p.livePlant("rose", ""), `{"conditions":[{"type":"Reconciling","status":"True","reason":"Growing"},{"type":"Ready","status":"True","observedGeneration":2}]}`)
	p.await("mr", has(healthy, yes, ""), has(progressing, yes, "PlantProgressing", "Growing"))
	p.status(p.livePlant("rose", ""), `{"conditions":[{"type":"Stalled","status":"True","reason":"Frost"},{"type":"Reconciling","status":"True"},{"type":"Ready","status":"Unknown"}]}`)
	p.await("mr", has(healthy, no, "PlantUnhealthy", "condition Stalled is True (Frost)"), has(progressing, no, ""))
	p.status(p.livePlant("rose", ""), `{"conditions":[{"type":"Ready","status":"True"}]}`)
	p.awaitReady("mr")
}
