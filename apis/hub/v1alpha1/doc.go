// Package v1alpha1 is the API hub.gardener.cloud/v1alpha1: the TargetCluster, and the keys of the annotations and labels by
// which Trellis is steered and remembers things.
//
// A target is registered by a kubeconfig Secret alone (see package clustercache). The hub keeps a TargetCluster for each
// registration, of the same namespace and named after the cluster: that is where an operator looks, and where the few
// things are that he may set. Nobody has to write one.
//
// # Trade-offs
//
// There is no owner reference from the TargetCluster to the Secret. A Secret that is deleted and created again, as a
// restore or a GitOps tool does it, must not lose the UID that guards the identity of the cluster, nor spec.paused. The
// hub deletes the TargetCluster itself, once the Secret is gone and nothing needs the connection any more.
//
// Conditions are metav1.Conditions, unlike those of a ManagedResource: `kubectl wait`, kstatus and all usual tools know
// them. They have no fourth status, Progressing, so a check that fails for less than its threshold leaves the status as it
// was and tells about it in the reason.
//
// Nothing in the status changes as long as nothing happens: there is no time of the last probe, and the round trip is
// stored in coarse steps. With a thousand targets that are probed every few seconds, anything else would be a constant
// load on the source cluster. Exact figures are in the metrics.
//
// +kubebuilder:object:generate=true
// +groupName=hub.gardener.cloud
package v1alpha1
