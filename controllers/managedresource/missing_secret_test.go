package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestMR03_MissingSecret(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("there", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "there", "missing")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonCannotReadSecret, p.ns+"/missing", "not found"), has(ready, no, resourcesv1alpha1.ReasonCannotReadSecret))
	p.fence()
	p.expectAbsent(p.configMap("one"))
}

// The Secret's creation is the event: its MR waits in a backoff of minutes by then.
func TestX10_BUG11_SecretCreatedLaterIsPickedUp(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.mr("mr", "late")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonCannotReadSecret, p.ns+"/late"))
	p.fence()
	p.content("late", testbed.ConfigMap(p.ns, "one", "1"))
	p.awaitReady("mr")
	p.awaitValue("one", "1")
}

func TestMR03_DeletedSecretDeletesNothing(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	uid := read(p, p.configMap("one")).UID

	p.Expect(source.Client.Delete(p.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "content"}})).To(Succeed())
	mr := p.await("mr", has(applied, no, resourcesv1alpha1.ReasonCannotReadSecret, p.ns+"/content", "not found"))
	p.Expect(mr.Status.Resources).To(HaveLen(1))
	p.fence()
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))

	p.content("content", testbed.ConfigMap(p.ns, "one", "2"))
	p.awaitValue("one", "2")
	p.awaitReady("mr")
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
}

// A Secret concerns the ManagedResources that refer to it, and of those only ours.
func TestMR32_OnlyReferencedSecretsOfOwnManagedResourcesAreRead(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("ours", testbed.ConfigMap(p.ns, "one", "1"))
	p.content("foreign", testbed.ConfigMap(p.ns, "two", "1"))
	p.content("unused", testbed.ConfigMap(p.ns, "three", "1"))
	other := testbed.ManagedResource(p.ns, "other", "foreign")
	class := "other"
	other.Spec.Class = &class
	p.inSource(other)
	p.mr("mr", "ours")
	p.awaitReady("mr")

	for _, name := range []string{"unused", "foreign", "ours"} {
		p.content(name, testbed.ConfigMap(p.ns, name, "2"))
	}
	p.awaitValue("ours", "2")
	p.fence()
	of := func(name string) func(controlplane.AuditEntry) bool {
		return func(e controlplane.AuditEntry) bool {
			return e.Namespace == p.ns && e.Resource == "secrets" && e.Verb == "get" && e.Name == name
		}
	}
	p.Expect(p.requests(source, of("ours"))).NotTo(BeEmpty())
	p.Expect(p.requests(source, of("foreign"))).To(BeEmpty())
	p.Expect(p.requests(source, of("unused"))).To(BeEmpty())
}
