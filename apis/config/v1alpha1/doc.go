// Package v1alpha1 is the hub's configuration file, config.hub.gardener.cloud/v1alpha1 HubConfiguration: its types, its
// defaults, its rules, and Load, which turns a file into a configuration that can be relied on.
//
// Names are those of the configuration of Gardener's resource manager where the meaning is the same, so that whoever
// operates one can read the other. Where a name of it means something else here, or nothing, Load reports an error
// instead of ignoring it.
//
// # How it works
//
// Load reads the YAML into a tree and decodes the tree against the types by reflection (decode.go). It does that itself,
// because what makes a configuration file pleasant is what the usual decoders lack: they stop at the first fault, name a
// misspelt key without saying where it stands or what was meant, and accept keys in any case. Then come defaults
// (defaults.go) and validation (validation.go). All faults of all three steps are returned together, each with the path of
// its field.
//
// # Trade-offs
//
// The zero value of a field always means its default, which is documented at the field. Where zero would be a meaningful
// value of its own, the field is a pointer.
//
// Anchors, aliases and merge keys of YAML are refused: a path would no longer say where a fault is, and they allow
// documents that grow without bound.
//
// There is no conversion and no registration in a scheme: the file is read by this program only.
//
// +kubebuilder:object:generate=true
package v1alpha1
