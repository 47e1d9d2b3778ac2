// Package members finds the ManagedResources of a target, from memory.
//
// # Who belongs to a target
//
// Those that were applied are known by the UID of the cluster that has their objects; the others by where their class
// sends them. What a ManagedResource says of itself counts for targets of its own namespace; for the fixed target of a
// class its namespace must be selected, too, or be that of the target. ManagedResources of classes whose target is the
// source cluster belong to the target that owns their namespace: the one that their label cluster.x-k8s.io/cluster-name
// names, else the only registration there that serves the default class, else none. Those of dry runs that were never
// applied are left out, since the hub does nothing about them.
//
// It also returns which targets are still in use: by ManagedResources that have objects there and reach the cluster by
// no other registration. As long as one does, the memory of the target is kept (InUse), and the connection to one whose
// registration is gone serves those that clean up (StillNeeded).
//
// # How it works
//
// An index at the informer of ManagedResources answers for one target without reading those of others. Otherwise each
// of a thousand targets in one namespace would read the ManagedResources of all. The index knows nothing of
// registrations: its keys are made of the ManagedResource alone, and combined with the registrations at each lookup.
package members
