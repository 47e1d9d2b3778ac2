// Package health answers two questions about a live object: is it healthy, and is it still rolling out?
//
// Check decides the condition ResourcesHealthy (spec 3.2), Progress the condition ResourcesProgressing (spec 3.3). Both
// are pure functions of the object's content; nothing is read from a cluster and nothing is remembered. Only a
// Deployment's roll-out needs more than the object: it is over when exactly the wanted number of pods is left, which
// PodsRolledOut decides from the pods its caller knows of.
//
// One table, in kinds.go, says for each kind what its checks are and which fields they read. From the same table,
// NeedsFullObject tells which kinds must be watched with spec and status, and Trim removes from such objects everything
// that no check reads, so that hundreds of clusters fit into memory. A kind that is not in the table is healthy if it
// exists and never rolls out.
//
//	watch -> Trim -> store -> Check     -> ResourcesHealthy
//	                       -> Progress  -> ResourcesProgressing
//	watch -> PodOf -> store -> PodsRolledOut --^
//
// # Trade-offs
//
// The checks work on unstructured content instead of Go types. They read at most a dozen fields, and a converted typed
// object would cost more memory and time than it gives safety: a field that is absent or of the wrong type counts as its
// zero value, as it would in the typed object.
//
// The versions are exact: apps/v1 is known, apps/v1beta2 is not. Whoever applies an old version gets the presence check, as
// with Gardener's resource manager.
package health
