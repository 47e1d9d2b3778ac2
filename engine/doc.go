// Package engine is the parent of a library that takes manifests and makes a cluster match them. Its packages know
// objects and clients, but no queues, connections or informers, so that controllers, webhooks and trellisctl can all
// use them.
//
//	bundle     decodes the content of Secrets within bounds, and caches it by content
//	manifest   encodes manifests as JSON, sharing what is equal for all targets
//	merge      the merge rules: which live values stay, and what an update would store
//	apply      applies objects to a target, in stages, by server-side apply
//	ownership  reads managedFields: who owns which field, and whether it drifted
//	inventory  keys, equivalent kinds and stages of the objects that were applied
//	prune      deletes objects that are no longer wanted, and only those that may be deleted
//	health     checks whether an object is healthy, and whether it is being rolled out
//	warnings   reads the last Warning events of an object
//
// A library cannot know which other ManagedResources want an object, so its caller decides what is pruned: prune asks
// its Policy.
package engine
