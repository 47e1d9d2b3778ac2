package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestMR01_PlainContentUnderAnyKey(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.secret("content", "whatever-it.is_called", []byte(testbed.ConfigMap(p.ns, "one", "1")))
	p.mr("mr", "content")
	mr := p.awaitReady("mr")
	p.awaitValue("one", "1")
	p.Expect(mr.Status.Resources).To(ConsistOf(SatisfyAll(
		HaveField("APIVersion", "v1"), HaveField("Kind", "ConfigMap"), HaveField("Namespace", p.ns), HaveField("Name", "one"),
		HaveField("UID", read(p, p.configMap("one")).UID))))
	p.Expect(mr.Finalizers).To(ConsistOf(resourcesv1alpha1.FinalizerBase))
}

func TestMR02_BrotliContent(t *testing.T) {
	t.Parallel()
	p := registered(t)
	yaml := "# a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: " + p.ns + "}\ndata: {key: 'on'}\n---\n" +
		testbed.ConfigMap(p.ns, "two", "2") + "\n"
	p.secret("content", "data.yaml.br", testbed.Brotli([]byte(yaml)))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.awaitValue("one", "on")
	p.awaitValue("two", "2")
}

func TestMR06_ChangedContentIsAppliedAndChecksStartAnew(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	before := p.awaitReady("mr")
	uid := read(p, p.configMap("one")).UID

	seen := p.history("mr")
	p.content("content", testbed.ConfigMap(p.ns, "one", "changed"))
	p.awaitValue("one", "changed")
	p.await("mr", has(ready, yes, ""), checksumOtherThan(before))
	p.Eventually(seen.versions).Should(ContainElement(reset()))
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
}

func TestMR07_NewDataKeyBringsNewObjects(t *testing.T) {
	t.Parallel()
	p := registered(t)
	one, two := []byte(testbed.ConfigMap(p.ns, "one", "1")), []byte(testbed.ConfigMap(p.ns, "two", "2"))
	p.secretData("content", map[string][]byte{"a": one})
	p.mr("mr", "content")
	before := p.awaitReady("mr")

	seen := p.history("mr")
	p.secretData("content", map[string][]byte{"a": one, "b": two})
	p.awaitValue("two", "2")
	p.awaitValue("one", "1")
	after := p.await("mr", has(ready, yes, ""), checksumOtherThan(before))
	p.Expect(after.Status.Resources).To(HaveLen(2))
	p.Eventually(seen.versions).Should(ContainElement(reset()))
}

func TestMR09_AnotherSecretBringsItsObjects(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("first", testbed.ConfigMap(p.ns, "one", "1"))
	p.content("second", testbed.ConfigMap(p.ns, "two", "2"))
	p.mr("mr", "first")
	before := p.awaitReady("mr")
	p.expectAbsent(p.configMap("two"))

	seen := p.history("mr")
	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: "second"})
	})
	p.await("mr", has(ready, yes, ""), observed(), checksumOtherThan(before))
	p.awaitValue("one", "1")
	p.awaitValue("two", "2")
	p.Eventually(seen.versions).Should(ContainElement(reset()))
}

func TestMR14_ModeIgnoreIsNeverCreated(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.configMapWith("one", `{"annotations":{"resources.gardener.cloud/mode":"Ignore"}}`),
		testbed.ConfigMap(p.ns, "two", "2"))
	p.mr("mr", "content")
	mr := p.awaitReady("mr")
	p.Expect(mr.Status.Resources).To(ConsistOf(HaveField("Name", "two")))
	p.expectAbsent(p.configMap("one"))
}

// The statement's other half: an object that was managed stays, without our marks.
func TestMR14_ModeIgnoreReleasesWhatWasManaged(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	uid := read(p, p.configMap("one")).UID
	p.Expect(read(p, p.configMap("one")).Annotations).To(HaveKeyWithValue(resourcesv1alpha1.OriginAnnotation, p.ns+"/mr"))

	p.content("content", p.configMapWith("one", `{"annotations":{"resources.gardener.cloud/mode":"Ignore"}}`))
	p.await("mr", has(ready, yes, ""), HaveField("Status.Resources", BeEmpty()))
	live := read(p, p.configMap("one"))
	p.Expect(live.UID).To(Equal(uid))
	p.Expect(live.Annotations).NotTo(Or(HaveKey(resourcesv1alpha1.OriginAnnotation), HaveKey(resourcesv1alpha1.DescriptionAnnotation)))

	p.edit(target, live, func() { live.Data["key"] = "by hand" })
	p.fence()
	p.awaitValue("one", "by hand")

	p.deleteMR("mr")
	p.awaitGone("mr")
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
}

func TestMR22_LabelsInObjectAndTemplate(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.deploymentManifest("app", "{}"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.InjectLabels = map[string]string{"injected": "yes"}
	p.inSource(mr)
	p.awaitApplied("mr")

	labels := SatisfyAll(HaveKeyWithValue(resourcesv1alpha1.ManagedByLabel, resourcesv1alpha1.ManagedByDefault), HaveKeyWithValue("injected", "yes"))
	live := read(p, p.deployment("app"))
	p.Expect(live.Labels).To(labels)
	p.Expect(live.Spec.Template.Labels).To(SatisfyAll(labels, HaveKeyWithValue("app", "app")))
	p.Expect(live.Spec.Selector.MatchLabels).To(Equal(map[string]string{"app": "app"}))
}

func TestMR23_ManagedByCannotBeInjected(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.configMapWith("one", `{"labels":{"resources.gardener.cloud/managed-by":"manifest"}}`))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.InjectLabels = map[string]string{resourcesv1alpha1.ManagedByLabel: "injected"}
	p.inSource(mr)
	p.awaitReady("mr")
	p.Expect(read(p, p.configMap("one")).Labels).To(HaveKeyWithValue(resourcesv1alpha1.ManagedByLabel, resourcesv1alpha1.ManagedByDefault))
}
