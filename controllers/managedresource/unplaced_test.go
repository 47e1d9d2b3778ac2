package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestObjectsWithoutANamespaceGoToDefaultWithAWarning(t *testing.T) {
	t.Parallel()
	p := registered(t)
	unplaced := func(value string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + p.ns + `"},"data":{"key":"` + value + `"}}`
	}
	role := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"` + p.ns + `"},"rules":[]}`
	p.content("content", unplaced("1"), testbed.ConfigMap(p.ns, "placed", "1"), role)
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.Expect(read(p, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.ns}}).Data).To(HaveKeyWithValue("key", "1"))
	p.Eventually(p.events).Should(ContainElement(And(HavePrefix("Warning DefaultNamespace"),
		HaveSuffix("because the manifests name none: ConfigMap default/"+p.ns))))
}
