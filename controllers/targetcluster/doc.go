// Package targetcluster keeps a TargetCluster for each registered target: it shows operators what the hub knows of the
// target, and records which cluster a registration stands for.
//
// # How it works
//
// Package clustercache knows the registrations and their connections. This package writes that down. A reconciliation
// reads everything that is known of one target (observation.go), derives the conditions from it by pure functions
// (conditions.go, watched.go), and patches the status if that made a difference. It is started by an event of the
// clustercache, by a change of the TargetCluster, of a node or of what a ManagedResource of the target says, and by a
// timer, for what changes without an event: thresholds, expiry, counts, leases. Targets without any fault need no
// reconciliation for that: a sweep compares what is known of them with what was known then (steady.go). Of
// ManagedResources there are events. A status that was derived and has to wait until it may be written is a draft, and
// needs no other observation then (draft.go, pacing.go).
//
// It is a controller of the source, because TargetClusters exist before a target is connected, while it is down, and
// after its registration is gone. Only the watch of nodes is built with package multicluster, which is about connected
// targets.
//
// Package nodes watches the nodes of connected targets by a controller of its own, package members finds the
// ManagedResources of a target, package care says what they and other checks mean for it. What only the controller of
// ManagedResources knows comes by package targetfacts.
//
// The guard of package identity protects the identity of targets. The clustercache asks it before it uses a connection,
// on every replica, whether the cluster at the other end is the one that the TargetCluster names.
//
// A Controller lives for one term of leadership. When the term ends, nothing is left of it: no watch in a target, no
// handler at an informer. The next term begins with a new one.
//
// # What Ready means
//
// Ready is True if the hub can do its work in the target. Its reason is the first root cause that is found, in this
// order: the registration is gone; the registration is refused, or its cluster is another one; no connection; another
// manager is at work; paused; more objects than the hub may keep in memory. Nodes that are not ready and a credential
// that ends soon do not stop the hub and have conditions of their own. Neither does a second registration of the same
// cluster, which is legitimate with classes, but worth knowing: Ready stays True, and its reason says so on both. One
// of another namespace counts if it leads to the same API server, for any server can claim to be any cluster, and is
// not named.
//
// # When a TargetCluster goes
//
// One that was never used for a registration belongs to its creator and stays: that is how a target is paused before
// its registration exists. All others go when their registration is gone, nothing is left of the connection, no
// ManagedResource has its inventory in the target any longer, and no webhooks are registered there
// (WebhooksRegistered). That the clustercache does not know a registration proves nothing, because it may have just
// been started; so the Secret is read from the API server before the memory of a target is deleted. Nothing in the
// target is touched.
//
// # Trade-offs
//
// Nodes are watched, and only a few words are kept of each. Listing them every 30 seconds, as care controllers usually
// do, would cost a thousand idle targets more than everything else together, and report changes half a minute late.
//
// A status is written only if it says something new. Messages of failures contain details that change from one attempt
// to the next, and the round trip is never twice the same; a change in such things alone waits until a minute after the
// last write. An operator may thus read an error that is a minute old. Figures wait for a sync period, and changes by
// ManagedResources, and checks that fail for less than their thresholds, for five seconds. A check that begins to fail
// waits for five seconds of its own, because most of what ManagedResources go through in a roll-out is over by then;
// since when it fails is in memory meanwhile. A thousand steady targets cost no write at all, and neither does a
// restart: a hub that has just started reports nothing for ten seconds about targets that it dials for the first time.
//
// A loss is reported once. While its connection is held, a lost target keeps the reason of the loss, whatever happens
// to attempts to restore the connection: otherwise the status of each of hundreds of targets, and an event, would be
// written again within seconds. The errors of these attempts are in the messages, which wait as details do. When the
// connection is no longer held, the reason is that of the last attempt.
//
// The status label is part of the metadata, so it is a second write, a moment after the status.
//
// A target whose TargetCluster is annotated as hibernated keeps the conditions it has, whatever happens. Nothing is
// sent to it either; only the annotation and the clustercache decide that.
package targetcluster
