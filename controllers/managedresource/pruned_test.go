package managedresource_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// pruned counts by cause.
const pruned = "trellis_objects_pruned_total"

// What is deleted is reported, whatever the cause, with the names and in the log.
func TestDeletionsAreReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		remove      func(p place)
		cause, says string
	}{
		"dropped": {
			func(p place) { p.content("content", testbed.ConfigMap(p.ns, "stays", "1")) }, "removed",
			"Deleted 2 objects that no manifest names any longer: [ConfigMap NS/one ConfigMap NS/two]",
		},
		"with the ManagedResource": {
			func(p place) { p.deleteMR("mr") }, "deleted",
			"Deleted 3 objects with the ManagedResource: [ConfigMap NS/one ConfigMap NS/stays ConfigMap NS/two]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", testbed.ConfigMap(p.ns, "stays", "1"), testbed.ConfigMap(p.ns, "one", "1"),
				testbed.ConfigMap(p.ns, "two", "1"))
			p.mr("mr", "content")
			p.awaitReady("mr")
			before := p.figure(pruned, test.cause)
			test.remove(p)
			p.awaitAbsent(p.configMap("two"))
			p.awaitEvent("Normal Pruned: " + test.says)
			p.Expect(p.events()).NotTo(ContainElement(HavePrefix("Warning AllPruned")))
			p.Eventually(func() string { return hub.Log.About(p.ns) }).Should(SatisfyAll(
				ContainSubstring("Deleted an object"), ContainSubstring("ConfigMap "+p.ns+"/one"), ContainSubstring("ConfigMap "+p.ns+"/two")))
			p.Eventually(func() float64 { return p.figure(pruned, test.cause) }).Should(BeNumerically(">=", before+2))
		})
	}
}

// An empty Secret may be intended, or the output of a program that failed: everything is deleted, and a warning names
// the client that changed the Secret.
func TestEmptyBundlePrunesAllAndSaysWhoseChangeThatWas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		empty func(p place)
		says  []string
	}{
		"the Secret": {
			func(p place) { p.contentAs("a-program", "content", "") },
			[]string{"Warning AllPruned: Deleted 2 of 3 objects, because no manifest is left in Secret NS/", "Secret NS/content (changed by a-program at 2", "Secret NS/second (changed by "},
		},
		"the references": {
			func(p place) {
				p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.SecretRefs = mr.Spec.SecretRefs[:0] })
			},
			[]string{"Warning AllPruned: Deleted 2 of 3 objects, because spec.secretRefs is empty"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("second", "# nothing")
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "1"),
				p.configMapWith("kept", `{"annotations":{"`+resourcesv1alpha1.KeepObjectAnnotation+`":"true"}}`))
			p.mr("mr", "second", "content")
			p.awaitReady("mr")
			before := p.figure(pruned, "emptied")
			test.empty(p)
			p.awaitAbsent(p.configMap("one"))
			p.awaitAbsent(p.configMap("two"))
			mr := p.awaitReady("mr")
			p.Expect(mr.Status.Resources).To(BeEmpty())
			p.awaitEvent(test.says...)
			p.Eventually(func() float64 { return p.figure(pruned, "emptied") }).Should(BeNumerically(">=", before+2))
			read(p, p.configMap("kept"))
		})
	}
}

// A bundle that cannot be read is not an empty one.
func TestUnreadableBundlePrunesNothing(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.content("content", "{")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonDecodingFailed))
	read(p, p.configMap("one"))
	p.Expect(p.events()).NotTo(ContainElement(ContainSubstring("Pruned")))
}

// contentAs writes manifests into an existing Secret, as a field manager.
func (p place) contentAs(who, secret, manifest string) {
	p.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: secret}}
	p.Expect(source.Client.Get(p.ctx, client.ObjectKeyFromObject(s), s)).To(Succeed())
	s.Data = map[string][]byte{manifests: []byte(manifest)}
	p.Expect(source.Client.Update(p.ctx, s, client.FieldOwner(who))).To(Succeed())
}

// awaitEvent waits for an event that has some texts in it, in which NS stands for the namespace.
func (p place) awaitEvent(texts ...string) {
	p.t.Helper()
	parts := make([]gomegatypes.GomegaMatcher, 0, len(texts))
	for _, text := range texts {
		parts = append(parts, ContainSubstring(strings.ReplaceAll(text, "NS", p.ns)))
	}
	p.Eventually(p.events).Should(ContainElement(SatisfyAll(parts...)), func() string { return hub.Log.About(p.ns) })
}
