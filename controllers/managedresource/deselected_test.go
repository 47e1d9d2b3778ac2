package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A deletion in a namespace that is not selected any longer waits for the operator. A hub that starts while the fixed
// target does not answer does not know which cluster that is, and waits as well.
func TestDeletionInADeselectedNamespaceStillWaitsAfterARestart(t *testing.T) {
	t.Parallel()
	p := apart(t, map[string]string{"chosen": "true"})
	other := testbed.Namespace(t, nil, p.source, target)
	options := testbed.HubOptions{Config: func(c *configv1alpha1.HubConfiguration) {
		fixed := configv1alpha1.ClassTarget{Type: configv1alpha1.TargetRegistration, Namespace: other, Name: "fixed"}
		c.Classes = []configv1alpha1.Class{
			{Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}},
			{
				Name: "fixed", Target: fixed,
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"chosen": "true"}},
			},
		}
	}}
	get := func(ns, name string) func() (*resourcesv1alpha1.ManagedResource, error) {
		return func() (*resourcesv1alpha1.ManagedResource, error) {
			mr := &resourcesv1alpha1.ManagedResource{}
			return mr, p.source.Client.Get(p.ctx, client.ObjectKey{Namespace: ns, Name: name}, mr)
		}
	}
	register := func(kubeconfig []byte) {
		s := testbed.Registration(other, "fixed", nil)
		p.edit(p.source, s, func() { s.Data = testbed.Registration(other, "fixed", kubeconfig).Data })
	}
	choose := func(value string) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.ns}}
		p.edit(p.source, ns, func() { ns.Labels["chosen"] = value })
	}
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Class = ptr.To("fixed")
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.inSource(testbed.Registration(other, "fixed", target.Kubeconfig()), mr)
	stop := p.run(options)
	p.Eventually(get(p.ns, "mr")).Should(has(ready, yes, ""))
	choose("false")
	p.Eventually(get(p.ns, "mr")).Should(has(applied, no, resourcesv1alpha1.ReasonTargetNotFound))
	p.Expect(p.source.Client.Delete(p.ctx, mr)).To(Succeed())
	p.Eventually(get(p.ns, "mr")).Should(has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "not selected"))
	stop()

	register(badRegistrations()["a closed port"].kubeconfig(p))
	stop = p.run(options)
	defer func() { stop() }()
	p.inSource(testbed.Registration(other, "good", target.Kubeconfig()),
		testbed.Content(other, "content", manifests, testbed.ConfigMap(other, "fence", "1")))
	fence := testbed.ManagedResource(other, "fence", "content")
	fence.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: "good"}
	p.inSource(fence)
	p.Eventually(get(other, "fence")).Should(has(ready, yes, ""))
	p.Expect(get(p.ns, "mr")()).To(has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "not selected"))

	register(target.Kubeconfig())
	choose("true")
	p.Eventually(func() error { _, err := get(p.ns, "mr")(); return err }).Should(Satisfy(apierrors.IsNotFound))
	p.expectAbsent(p.configMap("one"))
}
