// Package v1alpha1 is the API hub.gardener.cloud/v1alpha1: the TargetCluster, and the keys of the annotations and
// labels that control Trellis or store its state.
//
// A target is registered by a kubeconfig Secret alone (see package clustercache). The hub creates a TargetCluster for
// each registration, in the same namespace and named after the cluster: it shows an operator the state of the target,
// and has the few settings of a target. Users need not create one.
//
// # Trade-offs
//
// There is no owner reference from the TargetCluster to the Secret. When a Secret is deleted and created again, as by a
// restore or a GitOps tool, the UID that guards the identity of the cluster must not be lost, nor spec.paused. The hub
// deletes the TargetCluster itself, once the Secret is gone and nothing needs the connection any longer.
//
// Conditions are metav1.Conditions, unlike those of a ManagedResource: `kubectl wait`, kstatus and all usual tools know
// them. They have no fourth status, Progressing, so a check that fails for less than its threshold leaves the status
// unchanged and is reported in the reason.
//
// Nothing in the status changes as long as nothing happens: there is no time of the last probe, and the round trip is
// stored in coarse steps. With a thousand targets that are probed every few seconds, anything else would be a constant
// load on the source cluster. Exact figures are in the metrics.
//
// +kubebuilder:object:generate=true
// +groupName=hub.gardener.cloud
package v1alpha1
