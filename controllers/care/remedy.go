package care

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// maxPatch is the most that is written into a configuration: a selector is written whole.
	maxPatch = 64 << 10
	// maxWarning bounds the annotation.
	maxWarning = 4 << 10
)

const warning = "ATTENTION: the hub that manages this cluster has changed this configuration of webhooks, which " +
	"could have stopped the cluster. Please correct it where it comes from, or confirm by the label " +
	hubv1alpha1.ExcludeWebhookLabel + `="true" that it does no harm; then remove this annotation. Changes:`

// remedy is what is changed of a webhook. Webhooks are identified by their names, and what is not mentioned stays.
type remedy struct {
	Name              string                                     `json:"name"`
	FailurePolicy     *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	TimeoutSeconds    *int32                                     `json:"timeoutSeconds,omitempty"`
	NamespaceSelector *expressions                               `json:"namespaceSelector,omitempty"`
}

type expressions struct {
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions"`
}

// remedyFor returns what makes a webhook harmless, and what that changes in words.
func remedyFor(h hook, p problem) (r remedy, changes []string) {
	r.Name = h.name
	change := func(format string, values ...any) {
		changes = append(changes, fmt.Sprintf("webhook %s: ", untrusted.Name(h.name))+fmt.Sprintf(format, values...))
	}
	if p.timeout > 0 {
		r.TimeoutSeconds = &p.timeout
		change("timeoutSeconds was set to %d", p.timeout)
	}
	if p.fails && p.clusterScoped {
		ignore := admissionregistrationv1.Ignore
		r.FailurePolicy = &ignore
		change("failurePolicy was set to %s", ignore)
	}
	if p.fails && len(p.namespaces) > 0 {
		r.NamespaceSelector = &expressions{}
		if h.namespaceSelector != nil {
			r.NamespaceSelector.MatchExpressions = slices.Clone(h.namespaceSelector.MatchExpressions)
		}
		r.NamespaceSelector.MatchExpressions = append(r.NamespaceSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{
				Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: p.namespaces,
			})
		change("namespaceSelector was extended with %s notin (%s)", corev1.LabelMetadataName,
			strings.Join(p.namespaces, ","))
	}
	return r, changes
}

// patchOf is a strategic merge patch that changes a configuration if it is still as it was read. It is nil if it would
// be too large.
func patchOf(of metav1.ObjectMeta, remedies []remedy, changes []string) []byte {
	text := untrusted.Lines(warning+"\n- "+strings.Join(changes, "\n- "), maxWarning)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": of.UID, "resourceVersion": of.ResourceVersion,
			"annotations": map[string]string{hubv1alpha1.WarningAnnotation: text},
		},
		"webhooks": remedies,
	})
	if err != nil || len(patch) > maxPatch {
		return nil
	}
	return patch
}
