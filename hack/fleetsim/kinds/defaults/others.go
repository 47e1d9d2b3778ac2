package defaults

import (
	"maps"
	"math"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// webhookPort is the default of all references to Services of webhooks.
const webhookPort = 443

var _ = []struct{}{
	// Workloads.
	on(func(d *appsv1.Deployment) {
		missing(&d.Spec.Replicas, 1)
		missing(&d.Spec.RevisionHistoryLimit, 10)
		missing(&d.Spec.ProgressDeadlineSeconds, 600)
		unset(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
		if d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
			missing(&d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
			missing(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
			missing(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		}
	}),
	on(func(d *appsv1.DaemonSet) {
		// What the kind had a field for before v1.
		if _, ok := d.Annotations[appsv1.DeprecatedTemplateGeneration]; !ok {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedTemplateGeneration, "0")
		}
		missing(&d.Spec.RevisionHistoryLimit, 10)
		unset(&d.Spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
		if d.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
			missing(&d.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
			missing(&d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
			missing(&d.Spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
		}
	}),
	on(func(s *appsv1.StatefulSet) {
		missing(&s.Spec.Replicas, 1)
		missing(&s.Spec.RevisionHistoryLimit, 10)
		unset(&s.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
		if s.Spec.UpdateStrategy.Type == "" {
			s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
			missing(&s.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
		}
		if rolling := s.Spec.UpdateStrategy.RollingUpdate; rolling != nil && s.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
			missing(&rolling.Partition, 0)
		}
		missing(&s.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
		unset(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
		unset(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
		for i := range s.Spec.VolumeClaimTemplates {
			// As long as they were typed without, and as kube-apiserver stores them.
			s.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		}
	}),
	on(func(s *appsv1.ReplicaSet) { missing(&s.Spec.Replicas, 1) }),
	on(func(j *batchv1.Job) {
		if j.Spec.Parallelism == nil {
			missing(&j.Spec.Completions, 1)
		}
		missing(&j.Spec.Parallelism, 1)
		if j.Spec.BackoffLimitPerIndex != nil {
			missing(&j.Spec.BackoffLimit, math.MaxInt32)
		}
		missing(&j.Spec.BackoffLimit, 6)
		if len(j.Labels) == 0 {
			j.Labels = maps.Clone(j.Spec.Template.Labels)
		}
		missing(&j.Spec.CompletionMode, batchv1.NonIndexedCompletion)
		missing(&j.Spec.Suspend, false)
		if j.Spec.PodFailurePolicy != nil {
			missing(&j.Spec.PodReplacementPolicy, batchv1.Failed)
		}
		missing(&j.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
		missing(&j.Spec.ManualSelector, false)
	}),
	on(func(c *batchv1.CronJob) {
		unset(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
		missing(&c.Spec.Suspend, false)
		missing(&c.Spec.SuccessfulJobsHistoryLimit, 3)
		missing(&c.Spec.FailedJobsHistoryLimit, 1)
	}),
	on(func(p *batchv1.PodFailurePolicyOnPodConditionsPattern) { unset(&p.Status, corev1.ConditionTrue) }),
	on(func(h *autoscalingv2.HorizontalPodAutoscaler) {
		missing(&h.Spec.MinReplicas, 1)
		if len(h.Spec.Metrics) == 0 {
			utilization := int32(80)
			h.Spec.Metrics = []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name:   corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
				},
			}}
		}
		if behavior := h.Spec.Behavior; behavior != nil {
			missing(&behavior.ScaleUp, autoscalingv2.HPAScalingRules{})
			missing(&behavior.ScaleUp.StabilizationWindowSeconds, 0)
			scaling(behavior.ScaleUp,
				autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
				autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
			missing(&behavior.ScaleDown, autoscalingv2.HPAScalingRules{})
			scaling(behavior.ScaleDown, autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
		}
	}),

	// Networking.
	on(func(p *networkingv1.NetworkPolicyPort) { missing(&p.Protocol, corev1.ProtocolTCP) }),
	on(func(p *networkingv1.NetworkPolicy) {
		if len(p.Spec.PolicyTypes) == 0 {
			p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			if len(p.Spec.Egress) > 0 {
				p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
			}
		}
	}),
	on(func(c *networkingv1.IngressClass) {
		if c.Spec.Parameters != nil {
			missing(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
		}
	}),
	on(func(p *discoveryv1.EndpointPort) {
		missing(&p.Name, "")
		missing(&p.Protocol, corev1.ProtocolTCP)
	}),

	// Access.
	on(func(r *rbacv1.RoleRef) { unset(&r.APIGroup, rbacv1.GroupName) }),
	on(func(s *rbacv1.Subject) {
		if s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind {
			unset(&s.APIGroup, rbacv1.GroupName)
		}
	}),

	// Extensions.
	on(func(w *admissionregistrationv1.ValidatingWebhook) {
		missing(&w.FailurePolicy, admissionregistrationv1.Fail)
		missing(&w.MatchPolicy, admissionregistrationv1.Equivalent)
		missing(&w.NamespaceSelector, metav1.LabelSelector{})
		missing(&w.ObjectSelector, metav1.LabelSelector{})
		missing(&w.TimeoutSeconds, 10)
	}),
	on(func(w *admissionregistrationv1.MutatingWebhook) {
		missing(&w.FailurePolicy, admissionregistrationv1.Fail)
		missing(&w.MatchPolicy, admissionregistrationv1.Equivalent)
		missing(&w.NamespaceSelector, metav1.LabelSelector{})
		missing(&w.ObjectSelector, metav1.LabelSelector{})
		missing(&w.TimeoutSeconds, 10)
		missing(&w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
	}),
	on(func(r *admissionregistrationv1.Rule) { missing(&r.Scope, admissionregistrationv1.AllScopes) }),
	on(func(r *admissionregistrationv1.ServiceReference) { missing(&r.Port, webhookPort) }),
	on(func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
		missing(&s.FailurePolicy, admissionregistrationv1.Fail)
	}),
	on(func(s *admissionregistrationv1.MutatingAdmissionPolicySpec) {
		missing(&s.FailurePolicy, admissionregistrationv1.Fail)
	}),
	on(func(m *admissionregistrationv1.MatchResources) {
		missing(&m.MatchPolicy, admissionregistrationv1.Equivalent)
		missing(&m.NamespaceSelector, metav1.LabelSelector{})
		missing(&m.ObjectSelector, metav1.LabelSelector{})
	}),
	on(func(c *apiextensionsv1.CustomResourceDefinition) {
		unset(&c.Spec.Names.Singular, strings.ToLower(c.Spec.Names.Kind))
		if c.Spec.Names.Kind != "" {
			unset(&c.Spec.Names.ListKind, c.Spec.Names.Kind+"List")
		}
		missing(&c.Spec.Conversion, apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter})
		if len(c.Status.StoredVersions) == 0 {
			for _, version := range c.Spec.Versions {
				if version.Storage {
					c.Status.StoredVersions = []string{version.Name}
				}
			}
		}
	}),
	on(func(r *apiextensionsv1.ServiceReference) { missing(&r.Port, webhookPort) }),

	// The rest.
	on(func(p *schedulingv1.PriorityClass) { missing(&p.PreemptionPolicy, corev1.PreemptLowerPriority) }),
	on(func(c *storagev1.StorageClass) {
		missing(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		missing(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	}),
	on(func(d *storagev1.CSIDriver) {
		missing(&d.Spec.AttachRequired, true)
		missing(&d.Spec.PodInfoOnMount, false)
		missing(&d.Spec.StorageCapacity, false)
		missing(&d.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		missing(&d.Spec.RequiresRepublish, false)
		missing(&d.Spec.SELinuxMount, false)
		if len(d.Spec.VolumeLifecycleModes) == 0 {
			d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
		}
	}),
}

// scaling completes one direction of the behavior of an autoscaler.
func scaling(rules *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) {
	missing(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if rules.Policies == nil {
		rules.Policies = policies
	}
}
