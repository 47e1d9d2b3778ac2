// Package diff has the command that shows what an apply would change: diff.
//
//	ManagedResource, Secrets --bundle.Decode, apply.Prepare--> intents --apply.Preview--> live, after -> Compare -> fields
//	inventory -------------- what is not wanted any more --prune.KeptBecause--> deletions
//
// It is a rehearsal of the hub's own run with the hub's own packages: manifests are prepared as the hub prepares them, with the
// same labels and marks; the target's API server says with dry runs what would become of each object, defaults, webhooks and
// refusals included; fields of others that the hub would take back are named with their owners; fields that the hub keeps (replicas of
// an autoscaler, IPs of a Service, ...) are no differences.
//
// What it does not know is the hub's configuration: the value of the managed-by label and the cluster ID in origins are taken from
// objects that are there already, or else from flags.
//
// # Trade-offs
//
// An object whose namespace or kind would be created by the same apply cannot be rehearsed; it is shown as its manifest says it, with
// a note. Values of Secrets are never shown, only that they change and how long they are.
package diff
