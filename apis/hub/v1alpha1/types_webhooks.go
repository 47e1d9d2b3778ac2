package v1alpha1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

// TargetWebhooks say which webhooks the hub serves for a target, and how. All are off by default. Fields that are not
// set have the value that the target's class has in the hub's configuration, or else their default.
type TargetWebhooks struct {
	// Registration is about all webhooks of the target.
	// +optional
	Registration *WebhookRegistration `json:"registration,omitempty"`
	// ProjectedTokenMount gives pods a token of their ServiceAccount that expires, if the ServiceAccount does not mount
	// one itself.
	// +optional
	ProjectedTokenMount *ProjectedTokenMountWebhook `json:"projectedTokenMount,omitempty"`
	// HighAvailabilityConfig sets replicas, affinity, topology spread and tolerations of workloads, as their namespace
	// and their labels say.
	// +optional
	HighAvailabilityConfig *HighAvailabilityConfigWebhook `json:"highAvailabilityConfig,omitempty"`
	// PodSchedulerName sets the scheduler of pods that do not name one.
	// +optional
	PodSchedulerName *PodSchedulerNameWebhook `json:"podSchedulerName,omitempty"`
	// SeccompProfile gives pods without a seccomp profile that of the container runtime.
	// +optional
	SeccompProfile *WebhookOrPolicy `json:"seccompProfile,omitempty"`
	// KubernetesServiceHost has pods talk to the API server by its own name.
	// +optional
	KubernetesServiceHost *KubernetesServiceHostWebhook `json:"kubernetesServiceHost,omitempty"`
	// PodKubeAPIServerLoadBalancing has pods of control planes talk to their API server through the internal gateway.
	// +optional
	PodKubeAPIServerLoadBalancing *PodKubeAPIServerLoadBalancingWebhook `json:"podKubeAPIServerLoadBalancing,omitempty"`
	// SystemComponentsConfig has system components run on, and tolerate the taints of, the nodes that are for them.
	// +optional
	SystemComponentsConfig *SystemComponentsConfigWebhook `json:"systemComponentsConfig,omitempty"`
	// PodTopologySpreadConstraints has the topology spread of pods count only pods of the same ReplicaSet.
	// +optional
	PodTopologySpreadConstraints *Webhook `json:"podTopologySpreadConstraints,omitempty"`
	// VPAInPlaceUpdates has vertical pod autoscalers resize pods without a restart, where that is possible.
	// +optional
	VPAInPlaceUpdates *WebhookOrPolicy `json:"vpaInPlaceUpdates,omitempty"`
	// EndpointSliceHints keeps traffic to endpoints of the caller's zone.
	// +optional
	EndpointSliceHints *WebhookOrPolicy `json:"endpointSliceHints,omitempty"`
	// TokenInvalidator makes the static tokens useless that the controller of the same name has marked.
	// +optional
	TokenInvalidator *Webhook `json:"tokenInvalidator,omitempty"`
	// CRDDeletionProtection refuses the deletion of certain CustomResourceDefinitions and custom resources as long as an
	// annotation does not confirm it.
	// +optional
	CRDDeletionProtection *WebhookOrPolicy `json:"crdDeletionProtection,omitempty"`
	// ExtensionValidation refuses extension resources that are not valid.
	// +optional
	ExtensionValidation *Webhook `json:"extensionValidation,omitempty"`
	// NodeAgentAuthorizer decides what node agents may do.
	// +optional
	NodeAgentAuthorizer *NodeAgentAuthorizerWebhook `json:"nodeAgentAuthorizer,omitempty"`
	// ControlPlanes changes what Gardener deploys for control planes of shoots, as the providers of their
	// infrastructure need it. +optional
	ControlPlanes *ControlPlanesWebhook `json:"controlPlanes,omitempty"`
}

// WebhookScope says which namespaces of a target webhooks are for.
// +kubebuilder:validation:Enum=Target;Runtime
type WebhookScope string

// Scopes of webhooks.
const (
	// WebhookScopeTarget is a cluster whose users the hub's objects are hidden from: kube-system and
	// kubernetes-dashboard, and there what is managed.
	WebhookScopeTarget WebhookScope = "Target"
	// WebhookScopeRuntime is a cluster that control planes run in: namespaces with the label gardener.cloud/role.
	WebhookScopeRuntime WebhookScope = "Runtime"
)

// WebhookMode says how a mutation or validation gets into the API server.
// +kubebuilder:validation:Enum=Auto;Policy;Webhook
type WebhookMode string

// Modes of webhooks.
const (
	// WebhookModeAuto is Policy where the target serves such policies, else Webhook.
	WebhookModeAuto WebhookMode = "Auto"
	// WebhookModePolicy is a policy that the API server of the target evaluates itself. If the target does not serve
	// such policies, nothing is done, and the condition WebhooksRegistered is False with the reason PoliciesNotServed.
	WebhookModePolicy WebhookMode = "Policy"
	// WebhookModeWebhook is a call of the hub.
	WebhookModeWebhook WebhookMode = "Webhook"
)

// WebhookRegistration is about all webhooks of a target.
type WebhookRegistration struct {
	// Scope says which namespaces the webhooks are for. Target: kube-system and kubernetes-dashboard, and in them
	// mostly what is managed. Runtime: namespaces with the label gardener.cloud/role, for a cluster that control planes
	// run in. Default: Target, and Runtime for the source cluster.
	// +optional
	Scope *WebhookScope `json:"scope,omitempty"`
	// FailurePolicy is that of the webhooks whose default is Fail. Ignore: while the hub cannot be reached, objects are
	// written as they are. Default: Fail.
	// +kubebuilder:validation:Enum=Fail;Ignore
	// +optional
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	// TimeoutSeconds is how long the API server waits for an answer at most; kubernetesServiceHost has 2 anyway. One
	// pod can take several calls, one after the other. Default: 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// CombinePods has one call do the work of the webhooks of pods that are for the same namespaces and have the same
	// failure policy: projectedTokenMount, seccompProfile, systemComponentsConfig and podTopologySpreadConstraints, if
	// nothing else is set. With the policy Fail, the whole call fails if one of them does. Default: false, a call for
	// each.
	// +optional
	CombinePods *bool `json:"combinePods,omitempty"`
}

// Webhook is what can be said about every webhook.
type Webhook struct {
	// Enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// FailurePolicy says what becomes of a request while the hub cannot be reached or fails itself: it is refused
	// (Fail), or continues as it is (Ignore). Default: Ignore for podSchedulerName and kubernetesServiceHost, else
	// registration.failurePolicy. The authorizer of node agents has none.
	// +kubebuilder:validation:Enum=Fail;Ignore
	// +optional
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
}

// WebhookOrPolicy is a webhook whose work a policy in the target can do as well.
type WebhookOrPolicy struct {
	Webhook `json:",inline"`

	// Mode is Auto, Policy or Webhook. Default: Auto, a policy where the target serves such policies.
	// +optional
	Mode *WebhookMode `json:"mode,omitempty"`
}

// ProjectedTokenMountWebhook is about tokens of pods.
type ProjectedTokenMountWebhook struct {
	Webhook `json:",inline"`

	// ExpirationSeconds is how long tokens are valid, unless the annotation
	// projected-token-mount.resources.gardener.cloud/expiration-seconds of a pod says otherwise. API servers refuse
	// less than 600. Default: 43200, which are 12 hours.
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=4294967296
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
}

// HighAvailabilityConfigWebhook is about workloads that are to be highly available.
type HighAvailabilityConfigWebhook struct {
	Webhook `json:",inline"`

	// DefaultNotReadyTolerationSeconds is how long pods stay on a node that is not ready. Default: not set; API
	// servers then use five minutes.
	// +kubebuilder:validation:Minimum=0
	// +optional
	DefaultNotReadyTolerationSeconds *int64 `json:"defaultNotReadyTolerationSeconds,omitempty"`
	// DefaultUnreachableTolerationSeconds is how long pods stay on a node that is unreachable. Default: not set; API
	// servers then use five minutes.
	// +kubebuilder:validation:Minimum=0
	// +optional
	DefaultUnreachableTolerationSeconds *int64 `json:"defaultUnreachableTolerationSeconds,omitempty"`
	// LegacyMaxSkew allows a skew of 2 between zones if there can be at least two replicas in each, as resource
	// managers did up to v1.104. Default: false.
	// +optional
	LegacyMaxSkew *bool `json:"legacyMaxSkew,omitempty"`
	// TemplateLabelSelectorForStatefulSets spreads the pods of StatefulSets by the labels of their template, as
	// resource managers did before v1.107, and not by the selector. Default: false.
	// +optional
	TemplateLabelSelectorForStatefulSets *bool `json:"templateLabelSelectorForStatefulSets,omitempty"`
}

// PodSchedulerNameWebhook is about the scheduler of pods.
type PodSchedulerNameWebhook struct {
	WebhookOrPolicy `json:",inline"`

	// SchedulerName is the scheduler of pods that do not name one, or default-scheduler. Default: default-scheduler,
	// which changes nothing.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SchedulerName *string `json:"schedulerName,omitempty"`
}

// KubernetesServiceHostWebhook is about how pods find the API server.
type KubernetesServiceHostWebhook struct {
	WebhookOrPolicy `json:",inline"`

	// Host is the name or address of the target's API server that pods get as KUBERNETES_SERVICE_HOST. It must be valid
	// for its certificate, and be resolved in pods of any DNS policy. Required.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Host *string `json:"host,omitempty"`
	// Port is the one that the API server is served at there. Pods that get the host get another one than 443 as
	// KUBERNETES_SERVICE_PORT. Default: 443.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`
}

// PodKubeAPIServerLoadBalancingWebhook is about pods that talk to the API servers of control planes beside them.
type PodKubeAPIServerLoadBalancingWebhook struct {
	Webhook `json:",inline"`

	// VirtualGarden adds pods of the namespace garden, which talk to the API server of the virtual garden. Default:
	// false.
	// +optional
	VirtualGarden *bool `json:"virtualGarden,omitempty"`
}

// SystemComponentsConfigWebhook is about where system components run.
type SystemComponentsConfigWebhook struct {
	Webhook `json:",inline"`

	// NodeSelector selects the nodes whose taints system components tolerate. Empty: all.
	// +kubebuilder:validation:MaxProperties=50
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// PodNodeSelector is what system components have in their node selector. Default: nothing more than their own.
	// +kubebuilder:validation:MaxProperties=50
	// +optional
	PodNodeSelector map[string]string `json:"podNodeSelector,omitempty"`
	// PodTolerations are tolerated by system components in any case. Default: none more than their own.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	PodTolerations []corev1.Toleration `json:"podTolerations,omitempty"`
}

// ControlPlanesWebhook is about control planes of shoots in a cluster whose scope is Runtime.
type ControlPlanesWebhook struct {
	Webhook `json:",inline"`

	// Providers are those that are wanted, of the ones that the hub was built with. The hub has example. Those of
	// control planes are for namespaces that are labelled with their name (shoot.gardener.cloud/provider and so on).
	// Required. +kubebuilder:validation:MaxItems=50 +kubebuilder:validation:items:MaxLength=63 +listType=set
	// +optional
	Providers []string `json:"providers,omitempty"`
}

// NodeAgentAuthorizerWebhook is about what node agents may do.
type NodeAgentAuthorizerWebhook struct {
	Webhook `json:",inline"`

	// MachineNamespace is the namespace of the source with the target's Machines. It cannot be another one than that of
	// the target's registration, which is the default.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	MachineNamespace *string `json:"machineNamespace,omitempty"`
	// WithoutMachines is for a target whose machines are not managed in the source: agents are named after Nodes, not
	// Machines. Default: false.
	// +optional
	WithoutMachines *bool `json:"withoutMachines,omitempty"`
	// AuthorizeWithSelectors says that the API server sends the selectors of requests, so that lists of pods can be
	// held to those of the agent's own node. Default: false.
	// +optional
	AuthorizeWithSelectors *bool `json:"authorizeWithSelectors,omitempty"`
}
