// Package extensionvalidation refuses resources of extensions.gardener.cloud that are not valid, when they are created
// or updated. Their CRDs say what types fields have; what is here no schema says: which fields cannot change, which
// values go together.
//
// # How it works
//
// A kind has rules for its spec, and rules for what must not change (kinds.go). The objects are decoded within bounds
// into the types of package extensions. All violations are reported, up to a bound, as an API server does for its own
// resources: status 422, with a cause for each field.
//
// # Trade-offs
//
// There is one URL for all kinds, and each has an entry in the configuration. Gardener has a URL for each kind.
//
// Violations name fields, and values only if they are short names, addresses and the like. Contents of files, user data
// and differences of whole specs are left out: they may be confidential, and messages end up in logs.
//
// Etcds of druid.gardener.cloud are not validated. Their rules are those of another project, which has a webhook for
// them.
package extensionvalidation
