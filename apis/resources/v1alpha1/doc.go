// Package v1alpha1 is the API resources.gardener.cloud/v1alpha1: the ManagedResource, the keys of the annotations,
// labels and finalizers that belong to it, and the rules for its conditions.
//
// The API is a contract with programs that this project does not control. Gardener's extensions, gardenlet and charts
// write ManagedResources, and care controllers read their conditions, all compiled against Gardener's own types. So the
// JSON form is exactly theirs, and the generated CRD accepts exactly what theirs accepts, without enums, CEL rules or
// size limits. Additional state of Trellis is in annotations (see package apis/hub/v1alpha1), never in new fields: the
// CRD in a source cluster is usually not ours to change.
//
// The files:
//
//   - types_managedresource.go and types_condition.go: the objects,
//   - keys.go: annotation, label and finalizer keys with who reads them and how their values are compared,
//   - conditions.go: how a condition changes over time, as pure functions that are given the time.
//
// # Trade-offs
//
// The types are not imported from github.com/gardener/gardener: that module would bring several hundred dependencies
// and tie this project's Kubernetes version to Gardener's. So a field that Gardener adds has to be added here, too.
// Until then it is kept in the cluster, because Trellis changes ManagedResources by patch only.
//
// Condition is Gardener's type and not metav1.Condition, because its status has a fourth value, Progressing, and
// because consumers read lastUpdateTime and codes.
//
// +kubebuilder:object:generate=true
// +groupName=resources.gardener.cloud
package v1alpha1
