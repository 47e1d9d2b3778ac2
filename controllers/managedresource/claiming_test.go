package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// expectUntouched is for ManagedResources that are not ours: not a byte changed, and the hub did not even read their
// Secrets. Another namespace is served meanwhile.
func (p place) expectUntouched(mrs ...*resourcesv1alpha1.ManagedResource) {
	p.t.Helper()
	elsewhere := registered(p.t)
	elsewhere.fence()
	for _, mr := range mrs {
		p.Expect(p.get(mr.Name)).To(Equal(mr))
	}
	p.Expect(p.requests(source, func(e controlplane.AuditEntry) bool {
		return p.writes(e) && e.Resource == "managedresources" || p.inNamespace(e) && e.Resource == "secrets"
	})).To(BeEmpty())
	p.Expect(p.requests(target, p.inNamespace)).To(BeEmpty())
}

func TestWithoutRegistrationNothingIsTouched(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	plain := p.mr("plain", "content")
	picky := testbed.ManagedResource(p.ns, "picky", "content")
	picky.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: "a"}
	missing := p.mr("missing", "nothing")
	foreign := testbed.ManagedResource(p.ns, "managed-by-grm", "content")
	foreign.Finalizers = []string{resourcesv1alpha1.FinalizerBase}
	asked := testbed.ManagedResource(p.ns, "asked", "content")
	asked.Annotations = map[string]string{resourcesv1alpha1.OperationAnnotation: resourcesv1alpha1.OperationReconcile}
	ignored := testbed.ManagedResource(p.ns, "ignored", "content")
	ignored.Annotations = map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
	p.inSource(picky, foreign, asked, ignored)
	p.content("content", testbed.ConfigMap(p.ns, "one", "2"))
	p.expectUntouched(plain, picky, missing, foreign, asked, ignored)
}

// A deleted ManagedResource of another hub is cleaned up by that hub.
func TestWithoutRegistrationDeletionIsLeftToTheOtherInstance(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Finalizers = []string{resourcesv1alpha1.FinalizerBase}
	p.inSource(mr)
	p.deleteMR("mr")
	mr = p.get("mr")
	p.expectUntouched(mr)
}

func TestRegistrationClaimsWhatIsThere(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := p.mr("mr", "content")
	p.expectUntouched(mr)
	p.inSource(testbed.Registration(p.ns, "a", target.Kubeconfig()))
	p.awaitReady("mr")
	p.awaitValue("one", "1")
}

func TestClassThatIsNotConfiguredIsNotTouched(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	registration := testbed.Registration(p.ns, "a", target.Kubeconfig())
	registration.Labels[hubv1alpha1.ClassLabel] = "other"
	p.inSource(registration)
	p.awaitTarget("a", hubv1alpha1.ConditionConnected, metav1.ConditionTrue, hubv1alpha1.ReasonConnected)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	other := testbed.ManagedResource(p.ns, "other", "content")
	other.Spec.Class = ptr.To("other")
	p.inSource(other)
	// Nor does the registration of that class serve another one.
	p.expectUntouched(other, p.mr("default", "content"))

	p.edit(source, registration, func() { delete(registration.Labels, hubv1alpha1.ClassLabel) })
	p.awaitReady("default")
	p.Expect(p.get("other")).To(Equal(other))
}

// A Secret that looks like a registration but for one thing is none.
func TestOnlyExactRegistrationsCount(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	for _, change := range []func(s *corev1.Secret){
		func(s *corev1.Secret) { s.Name = "a-ca" },
		func(s *corev1.Secret) { s.Name = "b-kubeconfig" },
		func(s *corev1.Secret) { s.Name = "c-kubeconfig"; s.Labels = nil },
	} {
		s := testbed.Registration(p.ns, "a", target.Kubeconfig())
		change(s)
		p.inSource(s)
	}
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.expectUntouched(p.mr("mr", "content"))
}

func TestSourceClassServesSelectedNamespaces(t *testing.T) {
	t.Parallel()
	p := unregistered(t, map[string]string{"seed": "true"})
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Class = ptr.To("seed")
	plain := p.mr("plain", "content") // of the default class, which has no target here
	p.inSource(mr)
	p.Expect(p.awaitReady("mr").Finalizers).To(ConsistOf(resourcesv1alpha1.FinalizerBase + "-seed"))

	cm := p.configMap("one")
	p.Expect(source.Client.Get(p.ctx, client.ObjectKeyFromObject(cm), cm)).To(Succeed())
	p.Expect(cm.Data).To(HaveKeyWithValue("key", "1"))
	p.expectAbsent(p.configMap("one"))
	p.edit(source, cm, func() { cm.Data["key"] = "by hand" })
	p.Eventually(func() (map[string]string, error) {
		err := source.Client.Get(p.ctx, client.ObjectKeyFromObject(cm), cm)
		return cm.Data, err
	}).Should(HaveKeyWithValue("key", "1"))
	p.Expect(p.get("plain")).To(Equal(plain))

	p.deleteMR("mr")
	p.awaitGone("mr")
	p.Expect(source.Client.Get(p.ctx, client.ObjectKeyFromObject(cm), cm)).To(Satisfy(apierrors.IsNotFound))
}

func TestSourceClassNeedsTheSelector(t *testing.T) {
	t.Parallel()
	p := unregistered(t, map[string]string{"seed": "false"})
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Class = ptr.To("seed")
	p.inSource(mr)
	p.expectUntouched(mr)

	// The label of the namespace is the operator's word, and it counts at once.
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.ns}}
	p.edit(source, ns, func() { ns.Labels["seed"] = "true" })
	p.awaitReady("mr")
	p.edit(source, ns, func() { ns.Labels["seed"] = "false" })
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonTargetNotFound, p.ns, "not selected", "seed"), has(healthy, unknown, resourcesv1alpha1.ReasonTargetNotFound))
	cm := p.configMap("one")
	p.Expect(source.Client.Get(p.ctx, client.ObjectKeyFromObject(cm), cm)).To(Succeed())
	p.edit(source, ns, func() { ns.Labels["seed"] = "true" })
	p.awaitReady("mr")
}
