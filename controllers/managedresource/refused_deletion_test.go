package managedresource_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// guard has the target refuse deletions of ConfigMaps in the namespace of the test, until it is called.
func (p place) guard(message string) (lift func()) {
	p.t.Helper()
	lift = p.forbid(admissionregistrationv1.Delete, "", "configmaps", message)
	probe := p.configMap("probe")
	p.inTarget(probe)
	p.Eventually(func() error { return target.Client.Delete(p.ctx, probe, client.DryRunAll) }).Should(Satisfy(apierrors.IsInvalid))
	return lift
}

// forbid has the target refuse what is done to a kind in the namespace of the test, from some moment on.
func (p place) forbid(operation admissionregistrationv1.OperationType, group, resource, message string) (lift func()) {
	p.t.Helper()
	name := strings.ToLower(fmt.Sprintf("%s-%s-%s", p.ns, operation, resource))
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{operation},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: message}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.ns}},
			},
		},
	}
	lift = func() {
		p.Expect(client.IgnoreNotFound(target.Client.Delete(p.ctx, binding))).To(Succeed())
		p.Expect(client.IgnoreNotFound(target.Client.Delete(p.ctx, policy))).To(Succeed())
	}
	p.t.Cleanup(lift)
	p.inTarget(policy, binding)
	return lift
}

// A deletion that the target refuses is a pending one, as any that did not come to its end, and it is said why it does
// not: in the words of the server, and of each object.
func TestBUG07_RefusedDeletionSaysWhy(t *testing.T) {
	t.Parallel()
	const why = "deletions are denied"
	for name, remove := range map[string]func(p place){
		"dropped":                  func(p place) { p.content("content", testbed.ConfigMap(p.ns, "stays", "1")) },
		"with its ManagedResource": func(p place) { p.deleteMR("mr") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", testbed.ConfigMap(p.ns, "stays", "1"), testbed.ConfigMap(p.ns, "one", "1"),
				testbed.ConfigMap(p.ns, "two", "1"))
			p.mr("mr", "content")
			p.awaitReady("mr")
			lift := p.guard(why)
			remove(p)
			p.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "v1/ConfigMap/"+p.ns+"/one", "v1/ConfigMap/"+p.ns+"/two", why),
				HaveField("Status.Resources", ContainElements(HaveField("Name", "one"), HaveField("Name", "two"))))
			p.awaitValue("one", "1")
			p.Expect(p.ofTarget("trellis_target_prune_failures_total")()).To(BeNumerically(">=", 2))

			lift()
			p.awaitAbsent(p.configMap("one"))
			p.awaitAbsent(p.configMap("two"))
			if name == "dropped" {
				p.awaitReady("mr")
			} else {
				p.awaitGone("mr")
			}
		})
	}
}
