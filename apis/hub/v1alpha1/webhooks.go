package v1alpha1

import (
	"fmt"
	"maps"
	"math"
	"net"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const (
	// What API servers demand of the expiry of tokens in pods.
	minTokenExpirationSeconds, maxTokenExpirationSeconds = 600, 1 << 32
	defaultTokenExpirationSeconds                        = 12 * 60 * 60

	maxPodTolerations, maxNodeLabels, maxProviders = 100, 50, 50

	// What API servers allow at most.
	defaultWebhookTimeoutSeconds, maxWebhookTimeoutSeconds = 10, 30
)

// webhooks are all webhooks that can be set: how to reach what each one has in common with the others, its defaults and
// its faults. A new one needs a field and an entry here. Defaults and faults are asked for only if it is enabled.
var webhooks = []struct {
	name string
	// of returns what is common; nil if nothing is said about it.
	of func(w *TargetWebhooks) *Webhook
	// ignore says that the failure policy is Ignore by default.
	ignore   bool
	off      func(w *TargetWebhooks)
	defaults func(w *TargetWebhooks)
	faults   func(w *TargetWebhooks, home string, path *field.Path) field.ErrorList
}{
	{
		name: "projectedTokenMount",
		of: func(w *TargetWebhooks) *Webhook {
			return common(w.ProjectedTokenMount, func(p *ProjectedTokenMountWebhook) *Webhook { return &p.Webhook })
		},
		off: func(w *TargetWebhooks) { w.ProjectedTokenMount = nil },
		defaults: func(w *TargetWebhooks) {
			setDefault(&w.ProjectedTokenMount.ExpirationSeconds, defaultTokenExpirationSeconds)
		},
		faults: func(w *TargetWebhooks, _ string, path *field.Path) field.ErrorList {
			return rangeFaults(w.ProjectedTokenMount.ExpirationSeconds, minTokenExpirationSeconds, maxTokenExpirationSeconds,
				path.Child("expirationSeconds"))
		},
	},
	{
		name: "highAvailabilityConfig",
		of: func(w *TargetWebhooks) *Webhook {
			return common(w.HighAvailabilityConfig, func(h *HighAvailabilityConfigWebhook) *Webhook { return &h.Webhook })
		},
		off: func(w *TargetWebhooks) { w.HighAvailabilityConfig = nil },
		faults: func(w *TargetWebhooks, _ string, path *field.Path) field.ErrorList {
			h := w.HighAvailabilityConfig
			return append(
				notNegativeFaults(h.DefaultNotReadyTolerationSeconds, path.Child("defaultNotReadyTolerationSeconds")),
				notNegativeFaults(h.DefaultUnreachableTolerationSeconds, path.Child("defaultUnreachableTolerationSeconds"))...)
		},
	},
	{
		name: "podSchedulerName",
		of: func(w *TargetWebhooks) *Webhook {
			return common(w.PodSchedulerName, func(p *PodSchedulerNameWebhook) *Webhook { return &p.Webhook })
		},
		ignore: true,
		off:    func(w *TargetWebhooks) { w.PodSchedulerName = nil },
		defaults: func(w *TargetWebhooks) {
			setDefault(&w.PodSchedulerName.Mode, WebhookModeAuto)
			setDefault(&w.PodSchedulerName.SchedulerName, corev1.DefaultSchedulerName)
		},
		faults: func(w *TargetWebhooks, _ string, path *field.Path) field.ErrorList {
			name := *w.PodSchedulerName.SchedulerName
			faults := modeFaults(w.PodSchedulerName.Mode, path)
			for _, problem := range validation.IsDNS1123Subdomain(name) {
				faults = append(faults, field.Invalid(path.Child("schedulerName"), name, problem))
			}
			return faults
		},
	},
	{
		name:     "seccompProfile",
		of:       func(w *TargetWebhooks) *Webhook { return common(w.SeccompProfile, (*WebhookOrPolicy).common) },
		off:      func(w *TargetWebhooks) { w.SeccompProfile = nil },
		defaults: func(w *TargetWebhooks) { setDefault(&w.SeccompProfile.Mode, WebhookModeAuto) },
		faults: func(w *TargetWebhooks, _ string, path *field.Path) field.ErrorList {
			return modeFaults(w.SeccompProfile.Mode, path)
		},
	},
	{
		name: "kubernetesServiceHost",
		of: func(w *TargetWebhooks) *Webhook {
			return common(w.KubernetesServiceHost, func(k *KubernetesServiceHostWebhook) *Webhook { return &k.Webhook })
		},
		ignore: true,
		off:    func(w *TargetWebhooks) { w.KubernetesServiceHost = nil },
		defaults: func(w *TargetWebhooks) {
			setDefault(&w.KubernetesServiceHost.Mode, WebhookModeAuto)
			setDefault(&w.KubernetesServiceHost.Port, 443)
		},
		faults: func(w *TargetWebhooks, _ string, path *field.Path) field.ErrorList {
			return w.KubernetesServiceHost.faults(path)
		},
	},
	{
		name: "podKubeAPIServerLoadBalancing",
		of: func(w *TargetWebhooks) *Webhook {
			return common(w.PodKubeAPIServerLoadBalancing,
				func(p *PodKubeAPIServerLoadBalancingWebhook) *Webhook { return &p.Webhook })
		},
		off: func(w *TargetWebhooks) { w.PodKubeAPIServerLoadBalancing = nil },
	},
	{
		name: "systemComponentsConfig",
		of: func(w *TargetWebhooks) *Webhook {
			return common(w.SystemComponentsConfig, func(s *SystemComponentsConfigWebhook) *Webhook { return &s.Webhook })
		},
		off: func(w *TargetWebhooks) { w.SystemComponentsConfig = nil },
		faults: func(w *TargetWebhooks, _ string, path *field.Path) field.ErrorList {
			return w.SystemComponentsConfig.faults(path)
		},
	},
	{
		name: "podTopologySpreadConstraints",
		of:   func(w *TargetWebhooks) *Webhook { return w.PodTopologySpreadConstraints },
		off:  func(w *TargetWebhooks) { w.PodTopologySpreadConstraints = nil },
	},
	{
		name:     "vpaInPlaceUpdates",
		of:       func(w *TargetWebhooks) *Webhook { return common(w.VPAInPlaceUpdates, (*WebhookOrPolicy).common) },
		off:      func(w *TargetWebhooks) { w.VPAInPlaceUpdates = nil },
		defaults: func(w *TargetWebhooks) { setDefault(&w.VPAInPlaceUpdates.Mode, WebhookModeAuto) },
		faults: func(w *TargetWebhooks, _ string, path *field.Path) field.ErrorList {
			return modeFaults(w.VPAInPlaceUpdates.Mode, path)
		},
	},
	{
		name:     "endpointSliceHints",
		of:       func(w *TargetWebhooks) *Webhook { return common(w.EndpointSliceHints, (*WebhookOrPolicy).common) },
		off:      func(w *TargetWebhooks) { w.EndpointSliceHints = nil },
		defaults: func(w *TargetWebhooks) { setDefault(&w.EndpointSliceHints.Mode, WebhookModeAuto) },
		faults: func(w *TargetWebhooks, _ string, path *field.Path) field.ErrorList {
			return modeFaults(w.EndpointSliceHints.Mode, path)
		},
	},
	{
		name: "tokenInvalidator",
		of:   func(w *TargetWebhooks) *Webhook { return w.TokenInvalidator },
		off:  func(w *TargetWebhooks) { w.TokenInvalidator = nil },
	},
	{
		name:     "crdDeletionProtection",
		of:       func(w *TargetWebhooks) *Webhook { return common(w.CRDDeletionProtection, (*WebhookOrPolicy).common) },
		off:      func(w *TargetWebhooks) { w.CRDDeletionProtection = nil },
		defaults: func(w *TargetWebhooks) { setDefault(&w.CRDDeletionProtection.Mode, WebhookModeAuto) },
		faults: func(w *TargetWebhooks, _ string, path *field.Path) field.ErrorList {
			return modeFaults(w.CRDDeletionProtection.Mode, path)
		},
	},
	{
		name: "extensionValidation",
		of:   func(w *TargetWebhooks) *Webhook { return w.ExtensionValidation },
		off:  func(w *TargetWebhooks) { w.ExtensionValidation = nil },
	},
	{
		name: "nodeAgentAuthorizer",
		of: func(w *TargetWebhooks) *Webhook {
			return common(w.NodeAgentAuthorizer, func(n *NodeAgentAuthorizerWebhook) *Webhook { return &n.Webhook })
		},
		off: func(w *TargetWebhooks) { w.NodeAgentAuthorizer = nil },
		faults: func(w *TargetWebhooks, home string, path *field.Path) field.ErrorList {
			named, path := ptr.Deref(w.NodeAgentAuthorizer.MachineNamespace, ""), path.Child("machineNamespace")
			switch {
			case named != "" && ptr.Deref(w.NodeAgentAuthorizer.WithoutMachines, false):
				return field.ErrorList{field.Invalid(path, named, "must be empty with withoutMachines")}
			case home != "" && named != "" && named != home:
				return field.ErrorList{field.Invalid(path, named,
					fmt.Sprintf("must be that of the target's registration (%s), or empty", home))}
			}
			return nil
		},
	},
	{
		name: "controlPlanes",
		of: func(w *TargetWebhooks) *Webhook {
			return common(w.ControlPlanes, func(c *ControlPlanesWebhook) *Webhook { return &c.Webhook })
		},
		off: func(w *TargetWebhooks) { w.ControlPlanes = nil },
		faults: func(w *TargetWebhooks, _ string, path *field.Path) field.ErrorList {
			providers := w.ControlPlanes.Providers
			path = path.Child("providers")
			switch {
			case len(providers) == 0:
				return field.ErrorList{field.Required(path, "whose control planes are to be changed")}
			case len(providers) > maxProviders:
				return field.ErrorList{field.TooMany(path, len(providers), maxProviders)}
			}
			return nil
		},
	},
}

// common is what a webhook has in common with the others; nil if nothing is said about it.
func common[T any](own *T, of func(*T) *Webhook) *Webhook {
	if own == nil {
		return nil
	}
	return of(own)
}

func (w *WebhookOrPolicy) common() *Webhook { return &w.Webhook }

// IsEnabled reports whether a webhook is switched on. A nil one is not.
func (w *Webhook) IsEnabled() bool { return w != nil && ptr.Deref(w.Enabled, false) }

func (k *KubernetesServiceHostWebhook) faults(path *field.Path) field.ErrorList {
	faults := append(modeFaults(k.Mode, path), rangeFaults(k.Port, 1, math.MaxUint16, path.Child("port"))...)
	switch host := ptr.Deref(k.Host, ""); {
	case host == "":
		faults = append(faults, field.Required(path.Child("host"), "the name of the target's API server"))
	case net.ParseIP(host) == nil && len(validation.IsDNS1123Subdomain(host)) > 0:
		faults = append(faults, field.Invalid(path.Child("host"), host, "must be a DNS name or an IP address"))
	}
	return faults
}

func (s *SystemComponentsConfigWebhook) faults(path *field.Path) (faults field.ErrorList) {
	for name, labels := range map[string]map[string]string{
		"nodeSelector": s.NodeSelector, "podNodeSelector": s.PodNodeSelector,
	} {
		path := path.Child(name)
		if len(labels) > maxNodeLabels {
			faults = append(faults, field.TooMany(path, len(labels), maxNodeLabels))
		}
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			for _, problem := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key])...) {
				faults = append(faults, field.Invalid(path.Key(key), labels[key], problem))
			}
		}
	}
	tolerations := path.Child("podTolerations")
	if len(s.PodTolerations) > maxPodTolerations {
		faults = append(faults, field.TooMany(tolerations, len(s.PodTolerations), maxPodTolerations))
	}
	for i, toleration := range s.PodTolerations {
		faults = append(faults, tolerationFaults(toleration, tolerations.Index(i))...)
	}
	return faults
}

// tolerationFaults are those for which API servers would refuse every pod that gets the toleration.
func tolerationFaults(t corev1.Toleration, path *field.Path) (faults field.ErrorList) {
	if t.Key != "" {
		for _, problem := range validation.IsQualifiedName(t.Key) {
			faults = append(faults, field.Invalid(path.Child("key"), t.Key, problem))
		}
	} else if t.Operator != corev1.TolerationOpExists {
		faults = append(faults, field.Invalid(path.Child("operator"), t.Operator, "must be Exists without a key"))
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		for _, problem := range validation.IsValidLabelValue(t.Value) {
			faults = append(faults, field.Invalid(path.Child("value"), t.Value, problem))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			faults = append(faults, field.Invalid(path.Child("value"), t.Value, "must be empty with the operator Exists"))
		}
	default:
		faults = append(faults, field.NotSupported(path.Child("operator"), t.Operator,
			[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	switch t.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		faults = append(faults, field.NotSupported(path.Child("effect"), t.Effect, []corev1.TaintEffect{
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
		}))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		faults = append(faults, field.Invalid(path.Child("effect"), t.Effect, "must be NoExecute with tolerationSeconds"))
	}
	return faults
}

func modeFaults(mode *WebhookMode, path *field.Path) field.ErrorList {
	return oneOfFaults(mode, path.Child("mode"), WebhookModeAuto, WebhookModePolicy, WebhookModeWebhook)
}

func failurePolicyFaults(policy *admissionregistrationv1.FailurePolicyType, path *field.Path) field.ErrorList {
	return oneOfFaults(policy, path.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore)
}

func oneOfFaults[T ~string](value *T, path *field.Path, known ...T) field.ErrorList {
	if value != nil && !slices.Contains(known, *value) {
		return field.ErrorList{field.NotSupported(path, *value, known)}
	}
	return nil
}

func rangeFaults[T int32 | int64](value *T, least, most T, path *field.Path) field.ErrorList {
	if value != nil && (*value < least || *value > most) {
		return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("must be between %d and %d", least, most))}
	}
	return nil
}

func notNegativeFaults(value *int64, path *field.Path) field.ErrorList {
	if value != nil && *value < 0 {
		return field.ErrorList{field.Invalid(path, *value, "must not be negative")}
	}
	return nil
}

// SetDefaults sets the fields of webhooks that are switched on to their defaults. The scope is that of a target whose
// settings do not say one.
func (w *TargetWebhooks) SetDefaults(scope WebhookScope) {
	if len(w.Enabled()) == 0 {
		return
	}
	if w.Registration == nil {
		w.Registration = &WebhookRegistration{}
	}
	setDefault(&w.Registration.Scope, scope)
	setDefault(&w.Registration.FailurePolicy, admissionregistrationv1.Fail)
	setDefault(&w.Registration.TimeoutSeconds, defaultWebhookTimeoutSeconds)
	setDefault(&w.Registration.CombinePods, false)
	for _, webhook := range webhooks {
		own := webhook.of(w)
		if !own.IsEnabled() {
			continue
		}
		policy := *w.Registration.FailurePolicy
		if webhook.ignore {
			policy = admissionregistrationv1.Ignore
		}
		setDefault(&own.FailurePolicy, policy)
		if webhook.defaults != nil {
			webhook.defaults(w)
		}
	}
}

// Faults returns what is wrong with the webhooks that are switched on, after SetDefaults, for a target of a home
// namespace. An empty one means the source cluster, or that it is not known which target it will be.
func (w *TargetWebhooks) Faults(home string, path *field.Path) (all field.ErrorList) {
	all = w.registrationFaults(path.Child("registration"))
	for i := range webhooks {
		all = append(all, w.faultsOf(i, home, path)...)
	}
	return all
}

func (w *TargetWebhooks) registrationFaults(path *field.Path) field.ErrorList {
	if w.Registration == nil {
		return nil
	}
	return slices.Concat(
		oneOfFaults(w.Registration.Scope, path.Child("scope"), WebhookScopeTarget, WebhookScopeRuntime),
		failurePolicyFaults(w.Registration.FailurePolicy, path),
		rangeFaults(w.Registration.TimeoutSeconds, 1, maxWebhookTimeoutSeconds, path.Child("timeoutSeconds")))
}

// faultsOf are those of one webhook.
func (w *TargetWebhooks) faultsOf(i int, home string, path *field.Path) field.ErrorList {
	webhook := &webhooks[i]
	own := webhook.of(w)
	if !own.IsEnabled() {
		return nil
	}
	path = path.Child(webhook.name)
	faults := failurePolicyFaults(own.FailurePolicy, path)
	if webhook.faults != nil {
		faults = append(faults, webhook.faults(w, home, path)...)
	}
	return faults
}

// Enabled returns the names of the webhooks that are switched on.
func (w *TargetWebhooks) Enabled() (names []string) {
	for _, webhook := range webhooks {
		if webhook.of(w).IsEnabled() {
			names = append(names, webhook.name)
		}
	}
	return names
}

// WithoutFaulty returns the webhooks without those that are off or faulty, after SetDefaults. If what is said about all
// of them is faulty, none is left.
func (w *TargetWebhooks) WithoutFaulty(home string) TargetWebhooks {
	if len(w.registrationFaults(nil)) > 0 {
		return TargetWebhooks{}
	}
	good := *w
	for i, webhook := range webhooks {
		if !webhook.of(w).IsEnabled() || len(w.faultsOf(i, home, nil)) > 0 {
			webhook.off(&good)
		}
	}
	if len(good.Enabled()) == 0 {
		good.Registration = nil
	}
	return good
}

// Merge returns the webhooks with each single field that own has instead. The fields of both are shared with the
// result, and not to be changed.
func (w *TargetWebhooks) Merge(own *TargetWebhooks) TargetWebhooks {
	return merge(w, own)
}
