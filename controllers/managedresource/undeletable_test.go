package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A ManagedResource that labels a namespace of every cluster cannot have it deleted, and does not wait for ever: it
// gives up its labels.
func TestNamespaceOfEveryClusterIsReleased(t *testing.T) {
	t.Parallel()
	p := registered(t)
	public := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespacePublic}}
	label := "trellis.test/" + p.ns
	p.content("content", fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: kube-public, labels: {%s: "1"}}}`,
		label), testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.Expect(read(p, public).Labels).To(HaveKey(label))

	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.awaitEvent("Warning ObjectsReleased: Not deleted because it belongs to every cluster", "Namespace kube-public")
	mr := p.awaitReady("mr")
	p.Expect(mr.Status.Resources).To(ConsistOf(HaveField("Name", "one")))
	p.Expect(read(p, public).Labels).NotTo(SatisfyAny(HaveKey(label), HaveKey(resourcesv1alpha1.ManagedByLabel)))
	p.Expect(public.Annotations).NotTo(HaveKey(resourcesv1alpha1.OriginAnnotation))

	p.content("content", fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: kube-public, labels: {%s: "2"}}}`, label))
	p.await("mr", has(ready, yes, ""), HaveField("Status.Resources", ConsistOf(HaveField("Name", "kube-public"))))
	p.deleteMR("mr")
	p.awaitGone("mr")
	p.Expect(read(p, public).DeletionTimestamp).To(BeNil())
	p.Expect(public.Labels).NotTo(HaveKey(label))
}
