// Package multicluster is what controllers that work in targets are built with. Its vocabulary is that of
// controller-runtime and of multicluster-runtime: a Builder says what is watched, a Reconciler gets a request for one
// object of one target.
//
//	var nodes = &multicluster.Objects{Kind: corev1.SchemeGroupVersion.WithKind("Node"), MetadataOnly: true}
//
//	controller, err := multicluster.New("nodes", environment).
//		For(nodes).
//		Every(time.Minute).
//		Complete(reconciler)
//	...
//	err = controller.Start(ctx)
//
// Objects of targets are watched by For and Watches, objects of the source by WatchesSource, time by Every. A
// reconciler looks up what is watched by Target.Objects, calls the target by Target.Client, and is notified by OnSync
// when a watch has become complete or has failed. Example is a whole controller. What is left to do is a line in
// package controllers.
//
// # How it works
//
// A Controller follows the events of the cluster cache. A target that is connected and for which the controller is
// enabled is engaged: the controller subscribes to the objects, whose handlers put requests into the queue. A target
// that is gone, that is another cluster than before, or for which the controller is no longer enabled is disengaged
// without a trace: subscriptions are closed, what waits is dropped, and the reconciler forgets it (Forgetter). A target
// that is down stays engaged; its requests are parked when a worker comes to them, and return when it is connected, so
// it costs no worker and no retries. When a target went back in time, everything is reconciled once more.
//
// It works for one registration of a cluster at a time, by the UID of the cluster. EnabledFor decides for which one of
// several. This package has the next one wait until the last run for the former has ended.
//
// The queue is fair between namespaces, then targets (package fairqueue), and bounds how many requests of one target
// are worked on at a time. A run has a deadline. Its Target is bound to the connection that there was when it began:
// its client refuses to write once the registration, the connection or the cluster behind it has changed, and the
// request is then reconciled again.
//
// A Controller lives for one term of leadership and leaves nothing behind. While all its workers are occupied by runs
// that continue after their deadline, it is stuck (StuckSince), which the heartbeat shows.
//
// # Trade-offs
//
// A reconciler is handed its target, and cannot reach another one. What it needs of several targets does not belong
// into it. All subscriptions of a controller are made when a target is engaged; there is none for a single run.
//
// A request is about a connected target. What is about registrations and their TargetClusters is not: these exist
// before a target is connected, while it is down, and after it is gone, and the state of a target that is down is just
// what has to be written. So the controller of TargetClusters is a controller of the source like any other, and only
// its watch of nodes is built with this package. A kit for both would have targets that cannot be called. The same
// holds for ManagedResources, which are deleted, released and judged without a target, have a queue for each class, and
// change their target while they are worked on. What they share with this package is the queue and the subscriptions.
package multicluster
