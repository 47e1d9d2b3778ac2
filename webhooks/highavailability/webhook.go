package highavailability

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// Webhook makes workloads highly available.
func Webhook() admission.Webhook {
	return admission.Webhook{
		Name: "high-availability-config",
		Path: "high-availability-config",
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			if w.HighAvailabilityConfig == nil {
				return nil
			}
			return &w.HighAvailabilityConfig.Webhook
		},
		Registration: admission.One(func(w *hubv1alpha1.TargetWebhooks) admission.Entry {
			written := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
			workloads := admission.Rule(appsv1.GroupName, "v1", "deployments", written...)
			workloads.Resources = append(workloads.Resources, "statefulsets")
			return admission.Entry{
				Rules: []admissionregistrationv1.RuleWithOperations{
					workloads, admission.Rule(autoscalingv2.GroupName, "v2", "horizontalpodautoscalers", written...),
				},
				MatchPolicy: admissionregistrationv1.Equivalent,
				NamespaceSelector: admission.Selector(admission.Namespaces(w),
					admission.Is(considerLabel, "true")),
				ObjectSelector: admission.Selector(admission.Managed(w), admission.Without(skipLabel)),
			}
		}),
		Handler: handler{
			deployments: admission.Mutate(admission.Quietly(
				func(ctx context.Context, r *admission.Request, d *appsv1.Deployment) error {
					return mutate(ctx, r, &workload{
						meta: &d.ObjectMeta, replicas: &d.Spec.Replicas, template: &d.Spec.Template,
						selector: matching(d.Spec.Template.Labels), byReplicaSet: true,
					})
				})),
			statefulSets: admission.Mutate(admission.Quietly(
				func(ctx context.Context, r *admission.Request, s *appsv1.StatefulSet) error {
					w := &workload{
						meta: &s.ObjectMeta, replicas: &s.Spec.Replicas, template: &s.Spec.Template, selector: s.Spec.Selector,
					}
					switch own := settingsOf(r); {
					case ptr.Deref(own.TemplateLabelSelectorForStatefulSets, false):
						w.selector = matching(s.Spec.Template.Labels)
					case w.selector == nil: // it is validated only afterwards
						w.selector = &metav1.LabelSelector{}
					}
					return mutate(ctx, r, w)
				})),
			autoscalers: admission.Mutate(admission.Quietly(raiseMinimum)),
		},
	}
}

// handler sorts requests by the kind of their objects.
type handler struct{ deployments, statefulSets, autoscalers admission.Handler }

// Handle leaves objects of other kinds as they are.
func (h handler) Handle(ctx context.Context, request *admission.Request) (admission.Response, error) {
	switch kind := (schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}); kind {
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}:
		return h.deployments.Handle(ctx, request)
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}:
		return h.statefulSets.Handle(ctx, request)
	case schema.GroupKind{Group: autoscalingv2.GroupName, Kind: "HorizontalPodAutoscaler"}:
		return h.autoscalers.Handle(ctx, request)
	default:
		return admission.Response{Message: "not a kind that is made highly available: " + untrusted.Name(kind.String())}, nil
	}
}

// workload is what a Deployment and a StatefulSet have in common.
type workload struct {
	meta     *metav1.ObjectMeta
	replicas **int32
	template *corev1.PodTemplateSpec
	// selector is that of the pods that are spread.
	selector *metav1.LabelSelector
	// byReplicaSet is true if its pods have the label of a ReplicaSet.
	byReplicaSet bool
}

func mutate(ctx context.Context, r *admission.Request, w *workload) error {
	asked, err := ask(ctx, r)
	if err != nil {
		return err
	}
	if ptr.Deref(*w.replicas, 0) != 0 {
		most, scaled, err := scaledTo(ctx, r)
		if err != nil {
			return err
		}
		if err := asked.scale(w, scaled); err != nil {
			return err
		}
		if err := spreadPods(ctx, r, w, asked, most); err != nil {
			return err
		}
	}
	spec := &w.template.Spec
	if asked.confined() {
		confine(spec, asked.zones)
	}
	if w.byReplicaSet {
		spreadByReplicaSet(spec)
	}
	own := settingsOf(r)
	tolerate(spec, corev1.TaintNodeNotReady, own.DefaultNotReadyTolerationSeconds)
	tolerate(spec, corev1.TaintNodeUnreachable, own.DefaultUnreachableTolerationSeconds)
	return nil
}

// spreadPods spreads the pods of a workload that has more than one, of which an autoscaler may make more.
func spreadPods(ctx context.Context, r *admission.Request, w *workload, asked demand, most int32) error {
	replicas := **w.replicas
	if replicas <= 1 {
		return nil
	}
	s := spread{most: max(replicas, most), uneven: ptr.Deref(settingsOf(r).LegacyMaxSkew, false)}
	if asked.spreadOverZones() {
		s.zones = len(asked.zones)
	}
	if asked.tolerates() || isTruthy(w.meta, hostSpreadAnnotation) {
		nodes, _, err := r.State.Nodes(ctx)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("listing nodes: %w", err))
		}
		s.strict = len(nodes) > 1
	}
	replaceSpread(&w.template.Spec, s.constraints(w.selector))
	return nil
}

// ask returns what the namespace of an object asks for.
func ask(ctx context.Context, r *admission.Request) (demand, error) {
	namespace, err := r.State.Namespace(ctx, r.Namespace)
	if err != nil {
		return demand{}, apierrors.NewInternalError(fmt.Errorf("reading Namespace %s: %w", untrusted.Name(r.Namespace), err))
	}
	return demandOf(namespace), nil
}

// scaledTo returns how many replicas the autoscaler of an object may give it; false if it has none.
func scaledTo(ctx context.Context, r *admission.Request) (most int32, scaled bool, err error) {
	autoscalers, err := r.State.HorizontalPodAutoscalers(ctx, r.Namespace)
	if err != nil {
		return 0, false, apierrors.NewInternalError(fmt.Errorf("listing HorizontalPodAutoscalers: %w", err))
	}
	reference := autoscalingv2.CrossVersionObjectReference{
		APIVersion: schema.GroupVersion{Group: r.Kind.Group, Version: r.Kind.Version}.String(), Kind: r.Kind.Kind,
		Name: r.Name,
	}
	i := slices.IndexFunc(autoscalers, func(a autoscalingv2.HorizontalPodAutoscaler) bool {
		return a.Spec.ScaleTargetRef == reference
	})
	if i < 0 {
		return 0, false, nil
	}
	return autoscalers[i].Spec.MaxReplicas, true, nil
}

// raiseMinimum has an autoscaler keep as many replicas as its object is to have.
func raiseMinimum(ctx context.Context, r *admission.Request, a *autoscalingv2.HorizontalPodAutoscaler) error {
	asked, err := ask(ctx, r)
	if err != nil || ptr.Deref(a.Spec.MinReplicas, 0) == 0 {
		return err
	}
	desired, err := asked.replicasFor(a)
	if err != nil || desired == nil {
		return err
	}
	*a.Spec.MinReplicas = max(*a.Spec.MinReplicas, *desired)
	a.Spec.MaxReplicas = max(a.Spec.MaxReplicas, *a.Spec.MinReplicas)
	return nil
}

// settingsOf are those of the target, which may say nothing.
func settingsOf(r *admission.Request) hubv1alpha1.HighAvailabilityConfigWebhook {
	return ptr.Deref(r.Settings.HighAvailabilityConfig, hubv1alpha1.HighAvailabilityConfigWebhook{})
}
