package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TargetCluster shows a registered target and what the hub knows of it. The hub creates and deletes it; users may set
// the spec.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,path=targetclusters,singular=targetcluster,shortName=tc
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the hub can do its work in the target."
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it can or cannot."
// +kubebuilder:printcolumn:name=Status,type=string,JSONPath=`.metadata.labels.hub\.gardener\.cloud/status`,description="The worst of all conditions: healthy, progressing, unknown or unhealthy."
// +kubebuilder:printcolumn:name=Version,type=string,JSONPath=`.status.kubernetesVersion`,description="Kubernetes version of the target."
// +kubebuilder:printcolumn:name=Nodes,type=integer,JSONPath=`.status.nodeCounts.total`,description="Number of nodes in the target."
// +kubebuilder:printcolumn:name=MRs,type=integer,JSONPath=`.status.managedResources.total`,description="Number of ManagedResources for the target."
// +kubebuilder:printcolumn:name=MRs Ready,type=integer,JSONPath=`.status.managedResources.ready`,description="How many of them are ready."
// +kubebuilder:printcolumn:name=Drift,type=integer,JSONPath=`.status.driftLastHour`,description="Corrections of drift in the last hour."
// +kubebuilder:printcolumn:name=RTT ms,type=integer,priority=1,JSONPath=`.status.roundTripMilliseconds`,description="Round-trip time to the target's API server."
// +kubebuilder:printcolumn:name=Message,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What to know about the state."
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type TargetCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is set by users. All of it is optional.
	// +optional
	Spec TargetClusterSpec `json:"spec,omitempty"`
	// Status is what the hub knows of the target.
	// +optional
	Status TargetClusterStatus `json:"status,omitempty"`
}

// TargetClusterList is a list of TargetClusters.
//
// +kubebuilder:object:root=true
type TargetClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the TargetClusters.
	Items []TargetCluster `json:"items"`
}

// TargetClusterSpec is what users may set.
type TargetClusterSpec struct {
	// Paused is a kill switch: while it is true, the hub writes nothing to the target.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Client limits the requests to this target. Absent means the limits of the hub's configuration.
	// +optional
	Client *ClientLimits `json:"client,omitempty"`
	// Controllers say which controllers work in this target, field by field where they differ from what the hub's
	// configuration has for its class.
	// +optional
	Controllers *TargetControllers `json:"controllers,omitempty"`
	// Webhooks say which webhooks the hub serves for this target, field by field where they differ from what the hub's
	// configuration has for its class.
	// +optional
	Webhooks *TargetWebhooks `json:"webhooks,omitempty"`
}

// ClientLimits limits requests. A limit of zero means the one of the hub's configuration.
type ClientLimits struct {
	// QPS is the number of requests a second in the long run.
	// +kubebuilder:validation:Minimum=0
	// +optional
	QPS int32 `json:"qps,omitempty"`
	// Burst is how many requests may exceed QPS for a short time.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Burst int32 `json:"burst,omitempty"`
	// MaxInFlight is how many requests may be in flight at a time.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxInFlight int32 `json:"maxInFlight,omitempty"`
}

// TargetClusterStatus is what the hub knows of a target.
type TargetClusterStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are the latest observations, one for each type.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Constraints say what can do harm to the target although it works at present, one for each type. True is the good
	// status. Absent while they are not checked, see controllers.care in the spec.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Constraints []metav1.Condition `json:"constraints,omitempty"`
	// FailingChecks are the checks that fail for less than their thresholds. Their conditions have the status that they
	// had before, and a reason that ends in "Failing".
	// +listType=map
	// +listMapKey=type
	// +optional
	FailingChecks []FailingCheck `json:"failingChecks,omitempty"`
	// SecretName is the registration that is in use, a Secret in the same namespace.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// ClusterUID is the UID of the target's kube-system namespace, which identifies the cluster. A registration that
	// leads to another cluster is refused until that is confirmed. Empty until the target was connected once.
	// +optional
	ClusterUID types.UID `json:"clusterUID,omitempty"`
	// ClusterUIDSince is when the hub first wrote ClusterUID here, without an interruption by another UID or the end of
	// the registration. Of several registrations of a cluster, controllers in targets work for the one that has had it
	// for the longest. Absent if an earlier version of the hub wrote it: then it counts since the TargetCluster exists.
	// +optional
	ClusterUIDSince *metav1.MicroTime `json:"clusterUIDSince,omitempty"`
	// KubernetesVersion is the version of the target's API server.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// NodeCounts are absent until the nodes were listed once.
	// +optional
	NodeCounts *NodeCounts `json:"nodeCounts,omitempty"`
	// CloudType is the cloud of the nodes, from the provider ID of one of them. Empty if it is not known.
	// +optional
	CloudType string `json:"cloudType,omitempty"`
	// Region is the region of one of the nodes. Empty if it is not known.
	// +optional
	Region string `json:"region,omitempty"`
	// CredentialExpiry is when the client certificate or token expires. Absent if it does not.
	// +optional
	CredentialExpiry *metav1.Time `json:"credentialExpiry,omitempty"`
	// RoundTripMilliseconds is the time of a request to the target, rounded up to coarse steps so that it changes
	// rarely. Zero until the target was connected once.
	// +optional
	RoundTripMilliseconds int64 `json:"roundTripMilliseconds,omitempty"`
	// ManagedResources counts those whose target this is. Absent until the hub has counted.
	// +optional
	ManagedResources *ManagedResourceCounts `json:"managedResources,omitempty"`
	// Objects is the number of objects in their inventories.
	// +optional
	Objects int64 `json:"objects,omitempty"`
	// DriftLastHour is the number of objects that had to be corrected in the last hour.
	// +optional
	DriftLastHour int64 `json:"driftLastHour,omitempty"`
	// DryRun counts the writes that the hub would do without dryRun. Absent for classes without dryRun.
	// +optional
	DryRun *DryRunReport `json:"dryRun,omitempty"`
}

// FailingCheck is a check that fails, but not yet for long enough to change its condition.
type FailingCheck struct {
	// Type is that of the condition.
	Type string `json:"type"`
	// Since is when the check began to fail.
	Since metav1.Time `json:"since"`
}

// NodeCounts counts nodes.
type NodeCounts struct {
	// Total is the number of nodes.
	Total int32 `json:"total"`
	// Ready is the number of nodes that are ready and under no pressure.
	Ready int32 `json:"ready"`
}

// ManagedResourceCounts counts ManagedResources by their Ready condition.
type ManagedResourceCounts struct {
	// Total is the number of all.
	Total int32 `json:"total"`
	// Ready is the number of those whose condition is True.
	Ready int32 `json:"ready"`
	// NotReady is the number of those whose condition is False.
	NotReady int32 `json:"notReady"`
	// Unknown is the number of the others.
	Unknown int32 `json:"unknown"`
}

// DryRunReport counts the writes that the hub would do.
type DryRunReport struct {
	// Creates is the number of objects it would create.
	Creates int32 `json:"creates"`
	// Updates is the number of objects it would change.
	Updates int32 `json:"updates"`
	// Deletes is the number of objects it would delete.
	Deletes int32 `json:"deletes"`
}
