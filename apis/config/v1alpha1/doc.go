// Package v1alpha1 is the hub's configuration file, config.hub.gardener.cloud/v1alpha1 HubConfiguration: its types, its
// defaults, its validation, and Load, which turns a file into a valid configuration.
//
// Names are those of the configuration of Gardener's resource manager where the meaning is the same, so that operators
// of one can read the other. A key of it that has another meaning here, or none, is an error of Load and not ignored.
//
// # How it works
//
// Load decodes the YAML against the types (package strictyaml). Then come defaults (defaults.go) and validation
// (validation.go). All faults of all three steps are returned together, each with the path of its field.
//
// # Trade-offs
//
// The zero value of a field always means its default, which is documented at the field. If zero is a meaningful value,
// the field is a pointer.
//
// There is no conversion and no registration in a scheme: the file is read by this program only.
//
// +kubebuilder:object:generate=true
package v1alpha1
