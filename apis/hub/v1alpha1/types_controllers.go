package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TargetControllers say which controllers work in a target, and how. All are off by default. Fields that are not set
// have the value that the target's class has in the hub's configuration, or else their default.
type TargetControllers struct {
	// GarbageCollector deletes ConfigMaps and Secrets of the target with the label
	// resources.gardener.cloud/garbage-collectable-reference that nothing refers to any longer.
	// +optional
	GarbageCollector *GarbageCollectorController `json:"garbageCollector,omitempty"`
	// CSRApprover decides on certificate signing requests of kubelets and node agents.
	// +optional
	CSRApprover *CSRApproverController `json:"csrApprover,omitempty"`
	// TokenRequestor requests tokens of service accounts of the target for Secrets of the source.
	// +optional
	TokenRequestor *TokenRequestorController `json:"tokenRequestor,omitempty"`
	// NodeCriticalComponents takes the taint node.gardener.cloud/critical-components-not-ready off nodes on which all
	// critical components are ready.
	// +optional
	NodeCriticalComponents *NodeCriticalComponentsController `json:"nodeCriticalComponents,omitempty"`
	// NodeAgentReconciliationDelay spreads over time when node agents do what is new.
	// +optional
	NodeAgentReconciliationDelay *NodeAgentReconciliationDelayController `json:"nodeAgentReconciliationDelay,omitempty"`
	// NetworkPolicy writes network policies of the target that follow from its Services.
	// +optional
	NetworkPolicy *NetworkPolicyController `json:"networkPolicy,omitempty"`
	// TokenInvalidator marks the static tokens of ServiceAccounts that do not mount one, for the webhook that makes them
	// useless.
	// +optional
	TokenInvalidator *TokenInvalidatorController `json:"tokenInvalidator,omitempty"`
	// NodeHighAvailability has the topology spread of workloads set again when the target gets its second node, or has
	// one left.
	// +optional
	NodeHighAvailability *NodeHighAvailabilityController `json:"nodeHighAvailability,omitempty"`
	// IstioClusterConfiguration writes EnvoyFilters that limit the buffers of connections, from DestinationRules.
	// +optional
	IstioClusterConfiguration *IstioClusterConfigurationController `json:"istioClusterConfiguration,omitempty"`
	// StalePods deletes pods that were evicted, did not fit, or are stuck in termination.
	// +optional
	StalePods *StalePodsController `json:"stalePods,omitempty"`
	// Care reports what threatens the target: webhooks, certificates and stored versions.
	// +optional
	Care *CareController `json:"care,omitempty"`
}

// GarbageCollectorController is about the garbage collector.
type GarbageCollectorController struct {
	// Enabled switches it on. While it is, objects that the garbage collector is in charge of stay when a ManagedResource
	// no longer contains them. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// SyncPeriod is the time between two passes, at least 15s. Default: 1h.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must be a duration such as 1h or 15m"
	// +optional
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// CSRApproverController is about the approver of certificate signing requests.
type CSRApproverController struct {
	// Enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is how many requests of the target are worked on at a time. Default: 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// MachineNamespace is the namespace of the source with the target's Machines. It cannot be another one than that of
	// the target's registration, which is the default.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	MachineNamespace *string `json:"machineNamespace,omitempty"`
	// WithoutMachines is for a target whose machines are not managed in the source. Then the controller reads no Machines.
	// Default: false.
	// +optional
	WithoutMachines *bool `json:"withoutMachines,omitempty"`
	// Gardenadm approves client certificates for gardenadm, too, which only a garden or a self-hosted cluster has use
	// for. Default: false.
	// +optional
	Gardenadm *bool `json:"gardenadm,omitempty"`
	// Strict denies kubelets usages that no server certificate needs, and e-mail addresses and URIs, and node agents
	// organizations, which become groups of their users. Default: false.
	// +optional
	Strict *bool `json:"strict,omitempty"`
	// MigrationUser allows the ServiceAccount kube-system/gardener-node-agent, which node agents used to be, to ask for
	// the certificates of machines. Default: false.
	// +optional
	MigrationUser *bool `json:"migrationUser,omitempty"`
}

// TokenRequestorController is about the requestor of tokens.
type TokenRequestorController struct {
	// Enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is how many Secrets of the target are worked on at a time. Default: 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Class is the value that the label resources.gardener.cloud/class of a Secret must have. Empty: any, or no such
	// label. Default: shoot.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Class *string `json:"class,omitempty"`
	// Audiences are those of the tokens. The API server of the target has to accept them. Empty: those that it has
	// itself. Default: gardener if the class is shoot, else empty.
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Audiences []string `json:"audiences,omitempty"`
	// TargetNamespace is the namespace of all ServiceAccounts in the target, whatever the annotations of Secrets say.
	// Default: that of the annotation.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	TargetNamespace *string `json:"targetNamespace,omitempty"`
	// AllowedServiceAccounts are the only ones that Secrets may name: namespace, or namespace/name. Empty: all. Users
	// who may create Secrets in the target's home namespace can get the rights of each of them.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=317
	// +listType=set
	// +optional
	AllowedServiceAccounts []string `json:"allowedServiceAccounts,omitempty"`
	// DeniedServiceAccounts may not be named even if they are allowed: namespace, or namespace/name.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=317
	// +listType=set
	// +optional
	DeniedServiceAccounts []string `json:"deniedServiceAccounts,omitempty"`
}

// NodeCriticalComponentsController is about the critical components of nodes.
type NodeCriticalComponentsController struct {
	// Enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is how many nodes of the target are looked at at a time. Default: 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Backoff is the time until a node with the taint is looked at again, between 1s and 1h. Default: 10s.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must be a duration such as 10s or 1m"
	// +optional
	Backoff *metav1.Duration `json:"backoff,omitempty"`
}

// NodeAgentReconciliationDelayController is about the delays of node agents.
type NodeAgentReconciliationDelayController struct {
	// Enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// MinDelay is the delay of the first node. Default: 0s.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must be a duration such as 30s or 5m"
	// +optional
	MinDelay *metav1.Duration `json:"minDelay,omitempty"`
	// MaxDelay is what the delays of all nodes stay below, at least MinDelay and at most 30m. Default: 5m.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must be a duration such as 30s or 5m"
	// +optional
	MaxDelay *metav1.Duration `json:"maxDelay,omitempty"`
}

// NetworkPolicyController is about network policies that follow from Services.
type NetworkPolicyController struct {
	// Enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is how many Services of the target are worked on at a time. Default: 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// NamespaceSelectors select the namespaces whose Services get policies: those that one of them matches. Empty: all,
	// also those of users.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`
	// IngressControllerSelector selects the pods of the ingress controller, which may call what Ingresses name. Default:
	// Ingresses are not looked at.
	// +optional
	IngressControllerSelector *IngressControllerSelector `json:"ingressControllerSelector,omitempty"`
	// OnlyWithClientPods leaves out policies as long as their namespace has no pod with the label that they are for.
	// The first such pod may run before its policy is there. Default: false.
	// +optional
	OnlyWithClientPods *bool `json:"onlyWithClientPods,omitempty"`
}

// IngressControllerSelector selects the pods of an ingress controller.
type IngressControllerSelector struct {
	// Namespace is where they run.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// PodSelector selects them. Empty: all of the namespace.
	PodSelector metav1.LabelSelector `json:"podSelector"`
}

// TokenInvalidatorController is about static tokens of ServiceAccounts.
type TokenInvalidatorController struct {
	// Enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is how many Secrets of the target are worked on at a time. Default: 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
}

// NodeHighAvailabilityController is about the topology spread of workloads.
type NodeHighAvailabilityController struct {
	// Enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// IstioClusterConfigurationController is about EnvoyFilters that follow from DestinationRules.
type IstioClusterConfigurationController struct {
	// Enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// ConcurrentSyncs is how many namespaces of the target are worked on at a time. Default: 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
}

// StalePodsController is about pods that are of no use any longer.
type StalePodsController struct {
	// Enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// SyncPeriod is the time between two passes over a target, at least 15s. Default: 1m.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('15s')",message="must be at least 15s"
	// +optional
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// Namespaces of the target are those whose pods are looked at. Default: kube-system.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// HomeNamespace has the pods of the target's home namespace in the source looked at as well, those of a control
	// plane that runs there. Only a class can say so, in a TargetCluster it has no effect. Default: false.
	// +optional
	HomeNamespace *bool `json:"homeNamespace,omitempty"`
}

// CareController is about what threatens a target.
type CareController struct {
	// Enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// SyncPeriod is the time between two looks at a target, at least 15s. Default: 1m.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('15s')",message="must be at least 15s"
	// +optional
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// WebhookRemediatorEnabled has webhooks of the target changed that can stop it. Default: false, they are reported.
	// +optional
	WebhookRemediatorEnabled *bool `json:"webhookRemediatorEnabled,omitempty"`
}
