package deletionprotection

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

const (
	// ConfirmationAnnotation, with a value that means true, confirms that an object is to be deleted.
	ConfirmationAnnotation = "confirmation.gardener.cloud/deletion"
	// ProtectedLabel, with the value "true", is on CRDs that are protected.
	ProtectedLabel = "gardener.cloud/deletion-protected"

	crdGroup    = "apiextensions.k8s.io"
	crdResource = "customresourcedefinitions"
	etcdGroup   = "druid.gardener.cloud"
	etcds       = "etcds"
)

// protected are the resources of extensions.gardener.cloud/v1alpha1 whose objects are protected.
var protected = []string{
	"backupbuckets", "backupentries", "containerruntimes", "controlplanes", "dnsrecords", "extensions",
	"infrastructures",
	"networks", "operatingsystemconfigs", "selfhostedshootexposures", "workers",
}

// Resources are those of extensions.gardener.cloud/v1alpha1 whose objects are protected.
func Resources() []string { return append([]string(nil), protected...) }

// Webhook is the webhook, with what it reads from targets.
func Webhook(lister Lister) admission.Webhook {
	return admission.Webhook{
		Name: "crd-deletion-protection", Path: "validate-crd-deletion", Validating: true,
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			if w.CRDDeletionProtection == nil {
				return nil
			}
			return &w.CRDDeletionProtection.Webhook
		},
		Registration: func(*hubv1alpha1.TargetWebhooks) []admission.Entry { return entries() },
		Handler:      &handler{lister: lister},
	}
}

func entries() []admission.Entry {
	rule := func(group string, versions []string, resources ...string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: versions,
				Resources: resources},
		}
	}
	return []admission.Entry{
		{
			Name: "crd-deletion-protection", MatchPolicy: admissionregistrationv1.Exact,
			Rules: []admissionregistrationv1.RuleWithOperations{rule(crdGroup, []string{"v1beta1", "v1"},
				crdResource)},
			ObjectSelector: metav1.LabelSelector{MatchLabels: map[string]string{ProtectedLabel: "true"}},
		},
		{
			Name: "cr-deletion-protection", MatchPolicy: admissionregistrationv1.Exact,
			Rules: []admissionregistrationv1.RuleWithOperations{
				rule(etcdGroup, []string{"v1alpha1"}, etcds),
				rule(extensions.Group, []string{extensions.Version}, protected...),
			},
		},
	}
}
