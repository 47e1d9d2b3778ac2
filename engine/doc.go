// Package engine is the parent of a library: manifests in, a cluster that looks like them out. Its packages know
// objects and clients, but no queues, no connections and no informers, so that controllers, webhooks and trellisctl use
// them alike.
//
//	bundle     what Secrets hold: decoding within bounds, kept once for equal content
//	manifest   what an object must have to be applied
//	merge      the object that an update would store, and what the target has beyond it
//	apply      making a target look like the objects, in stages, by server-side apply
//	ownership  what managedFields tell about who changed what
//	inventory  what was applied, as a list of references
//	prune      deleting what is not wanted any more, and only what may be deleted
//	health     whether an object works, and whether it is being rolled out
//	warnings   what the last Warning events of an object say
//
// A library cannot know who else wants an object, so whoever calls it decides what is pruned: prune asks its Policy.
package engine
