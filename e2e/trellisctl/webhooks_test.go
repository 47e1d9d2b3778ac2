package trellisctl

import (
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// A cluster whose hub does not come back is freed of its webhooks and policies, and keeps those of others.
func TestWebhooksOfAHubThatIsGone(t *testing.T) {
	p := newPlace(t)
	p.Expect(p.succeeds("--kubeconfig", admin, "webhooks", "remove").err).To(ContainSubstring("No hub has webhooks"))
	hook := admissionregistrationv1.ValidatingWebhook{
		Name: "gone.example.org", AdmissionReviewVersions: []string{"v1"},
		SideEffects:       ptr.To(admissionregistrationv1.SideEffectClassNone),
		ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.name}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
			},
		}},
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: p.name + name, Labels: map[string]string{hubv1alpha1.WebhooksLabel: "true"},
			Annotations: map[string]string{hubv1alpha1.WebhooksTargetAnnotation: p.name + "/shoot"},
		}
	}
	others := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: p.name + "-others"},
	}
	for _, c := range []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: meta(""), Webhooks: []admissionregistrationv1.ValidatingWebhook{hook},
		},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta("")},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: meta("-policy"), Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName:        p.name + "-policy",
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit},
			},
		},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: meta("-policy"),
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: p.name + "-policy"},
		},
		others,
	} {
		p.Expect(target.Client.Create(p.ctx, c)).To(Succeed())
	}
	try := func() error {
		return target.Client.Create(p.ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.name, GenerateName: "test-"},
		})
	}
	p.Eventually(try).Should(MatchError(ContainSubstring("failed calling webhook")))
	p.fails(cli.ExitUsage, "--yes", "--kubeconfig", admin, "webhooks", "remove")
	r := p.succeeds("--kubeconfig", admin, "webhooks", "remove", "--yes")
	p.Expect(r.out).To(And(
		ContainSubstring("validatingwebhookconfiguration/"+p.name+" deleted"),
		ContainSubstring("mutatingwebhookconfiguration/"+p.name+" deleted"),
		ContainSubstring("mutatingadmissionpolicybinding/"+p.name+"-policy deleted"),
		ContainSubstring("validatingadmissionpolicybinding/"+p.name+"-policy deleted"),
		Not(ContainSubstring("others"))))
	p.Expect(r.err).To(ContainSubstring(p.name + "/shoot"))
	p.Eventually(try).Should(Succeed())
	p.Expect(target.Client.Delete(p.ctx, others)).To(Succeed(), "it belongs to another client")
}
