// Package diff has the command that shows what an apply would change: diff.
//
//	ManagedResource, Secrets --bundle.Decode, apply.Prepare--> intents --apply.Preview--> live, after -> Compare -> fields
//	inventory ---------------------- no longer wanted --prune.KeptBecause--> deletions
//
// It is a dry run of the hub's own reconciliation with the hub's own packages: manifests are prepared as in the hub,
// with the same labels and marks. Dry runs of the target's API server show the resulting objects, including defaults,
// webhooks and errors. Fields of others that the hub would take back are named with their owners. Fields that the hub
// keeps (replicas of an autoscaler, IPs of a Service, ...) are not differences.
//
// It does not know the hub's configuration: the value of the managed-by label and the cluster ID in origins are taken
// from existing objects, or else from flags.
//
// # Trade-offs
//
// There is no dry run for an object whose namespace or kind would be created by the same apply; its manifest is shown,
// with a note. Values of Secrets are never shown, only that they change and how long they are.
package diff
