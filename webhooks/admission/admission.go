package admission

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// defaultTimeoutSeconds is how long API servers wait for an answer.
const defaultTimeoutSeconds = 10

// Request is one AdmissionReview of one target.
type Request struct {
	// Target is the cluster that asks.
	Target clustercache.ClusterKey
	// Settings are those of its webhooks: class merged with TargetCluster, with defaults. They are shared, and not to
	// be changed.
	Settings hubv1alpha1.TargetWebhooks
	// State reads what handlers need of the target.
	State State
	// Ignored says that the failure policy of the entry that was called is Ignore.
	Ignored bool
	// AdmissionRequest is the one that was received, converted to v1.
	*admissionv1.AdmissionRequest
}

// State reads from one target. Each call has a deadline of at most a second. Errors wrap ErrUnknown if the target could
// not be asked. What is returned is shared, and not to be changed.
type State interface {
	// ServiceAccount, Namespace, ConfigMap and Service return errors for which apierrors.IsNotFound is true if the
	// target says that there is none.
	ServiceAccount(ctx context.Context, name types.NamespacedName) (*corev1.ServiceAccount, error)
	Namespace(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error)
	ConfigMap(ctx context.Context, name types.NamespacedName) (*corev1.ConfigMap, error)
	Service(ctx context.Context, name types.NamespacedName) (*corev1.Service, error)
	// Nodes returns names, labels and taints. If stale, they are the last known ones, because the target could not be
	// asked.
	Nodes(ctx context.Context) (nodes []corev1.Node, stale bool, err error)
	// HorizontalPodAutoscalers are those of a namespace.
	HorizontalPodAutoscalers(ctx context.Context, namespace string) ([]autoscalingv2.HorizontalPodAutoscaler, error)
}

// Response is what a handler makes of a request. The zero value allows the object as it is.
type Response struct {
	// Patch is one of RFC 6902. Empty: nothing changes.
	Patch []byte
	// Warnings are shown to the client that sent the object.
	Warnings []string
	// Message goes with an object that is allowed, for those who look at answers.
	Message string
	// Denied refuses the object. Nil: it is allowed.
	Denied *metav1.Status
	// Ignored are errors that were left out of account, because the failure policy is Ignore.
	Ignored []error
}

// Handler is a webhook: it answers from the request and the state of its target alone, and changes nothing. An error is
// an internal one: the server maps it by the failure policy of the webhook.
type Handler interface {
	Handle(ctx context.Context, request *Request) (Response, error)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, request *Request) (Response, error)

// Handle calls the function.
func (f HandlerFunc) Handle(ctx context.Context, request *Request) (Response, error) {
	return f(ctx, request)
}

// Webhook is a handler with what it takes to register it.
type Webhook struct {
	// Name is that of the webhook in metrics and logs: projected-token-mount.
	Name string
	// Path is the last part of the URL: mount-projected-service-account-token.
	Path string
	// Validating webhooks refuse objects, and others change them.
	Validating bool
	// Settings are those that it has in common with the others; nil if nothing is said about it.
	Settings func(*hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook
	// Registration are the entries of the configuration in a target, for settings with defaults by which the webhook is
	// enabled. Entries completes them.
	Registration func(*hubv1alpha1.TargetWebhooks) []Entry
	// Combines says that one call may do the work of this webhook and of others that have it. Each has one entry, about
	// pods that are created, with the timeout of the settings. Its Handler is one that Mutate has made, of pods, and
	// the function returns an error only before it changes anything.
	Combines bool
	Handler  Handler
}

// Enabled reports whether a target's settings have it switched on.
func (w Webhook) Enabled(settings *hubv1alpha1.TargetWebhooks) bool {
	return w.Settings(settings).IsEnabled()
}

// FailurePolicy is that of a target's settings, which must have defaults.
func (w Webhook) FailurePolicy(settings *hubv1alpha1.TargetWebhooks) admissionregistrationv1.FailurePolicyType {
	if own := w.Settings(settings); own != nil && own.FailurePolicy != nil {
		return *own.FailurePolicy
	}
	return admissionregistrationv1.Fail
}

// Entries are those of the configuration in a target, for settings with defaults by which the webhook is enabled. What
// Registration leaves zero is the name of the webhook, and what the settings say; their timeout is also the longest.
func (w Webhook) Entries(settings *hubv1alpha1.TargetWebhooks) []Entry {
	entries := w.Registration(settings)
	timeout := int32(defaultTimeoutSeconds)
	if r := settings.Registration; r != nil && r.TimeoutSeconds != nil {
		timeout = *r.TimeoutSeconds
	}
	for i := range entries {
		entry := &entries[i]
		if entry.Name == "" {
			entry.Name = w.Name
		}
		if entry.FailurePolicy == "" {
			entry.FailurePolicy = w.FailurePolicy(settings)
		}
		if entry.TimeoutSeconds == 0 || entry.TimeoutSeconds > timeout {
			entry.TimeoutSeconds = timeout
		}
	}
	return entries
}

// One is a registration of one entry.
func One(entry func(*hubv1alpha1.TargetWebhooks) Entry) func(*hubv1alpha1.TargetWebhooks) []Entry {
	return func(settings *hubv1alpha1.TargetWebhooks) []Entry { return []Entry{entry(settings)} }
}

// Entry is what a webhook has in a configuration of webhooks, without what all have in common: sideEffects is None,
// admissionReviewVersions are v1 and v1beta1, the reinvocationPolicy is Never.
type Entry struct {
	// Name is unique among all entries. With a domain of the hub it is that of the entry.
	Name string
	// Rules say which requests are sent.
	Rules []admissionregistrationv1.RuleWithOperations
	// FailurePolicy is that of the settings.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// MatchPolicy says whether objects of other versions are converted and sent, too.
	MatchPolicy admissionregistrationv1.MatchPolicyType
	// TimeoutSeconds is how long the API server waits for an answer.
	TimeoutSeconds int32
	// NamespaceSelector and ObjectSelector both have to match. Empty ones match everything.
	NamespaceSelector, ObjectSelector metav1.LabelSelector
	// MatchConditions all have to be true. They are false only where the handler would change nothing.
	MatchConditions []admissionregistrationv1.MatchCondition
}
