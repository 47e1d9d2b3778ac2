// Package garbagecollector deletes ConfigMaps and Secrets of targets that nothing refers to any longer.
//
// A client that gives an immutable ConfigMap or Secret a new name for each content does not know when the old one is no
// longer needed. Such objects have a label that says that they may be collected, and what uses them has annotations
// with their names (package apis/references).
//
// # How it works
//
// In each period a target has one pass. A pass lists the ConfigMaps and Secrets with the label, drops those that are
// younger than ten minutes, then lists all objects that can refer to them (Deployments, StatefulSets, DaemonSets, Jobs,
// CronJobs, Pods, ManagedResources and Prometheuses) and drops what one of them names in its namespace. Nothing is
// watched: all lists are read live, in pages, and as metadata only. What is left is taken namespace by namespace, in
// batches: each object is read again, everything that can refer to it is listed again in its namespace, and only then
// it is deleted, if it is still just what was read.
//
// # Never a wrong delete
//
// A pass that could not see everything deletes nothing: every list has to be complete, with all of its pages. Only a
// ManagedResource and a Prometheus may be kinds that the target does not know, and it is asked again for its kinds
// before that is believed. A target that served ManagedResources once and does not any longer has no passes, until the
// controller is started again or the target is registered again.
//
// An object is deleted with its UID and its resource version as preconditions, and only while its target is registered
// and connected as when the pass began.
//
// # Trade-offs
//
// Between the last list of references and the deletion, a few milliseconds, a reference can still appear. The API of
// Kubernetes has nothing that would rule it out. It hurts only what is referred to after ten minutes in which it was
// not.
//
// The check before the deletion covers all kinds that can refer to something, so it costs eight lists of a namespace
// for each batch. It is done for namespaces that have garbage only, which are few.
//
// A pass looks at a bounded number of objects; the next one continues where it ended. Thus the memory for a target
// with a million of them is bounded as well.
//
// An object that changed between its last look and its deletion is left to the next pass, and that is no error.
//
// # Rights
//
// In the source: none. In the target: secrets and configmaps get, list and delete; pods, deployments.apps,
// statefulsets.apps, daemonsets.apps, jobs.batch, cronjobs.batch, managedresources.resources.gardener.cloud and
// prometheuses.monitoring.coreos.com list; all in all namespaces.
package garbagecollector
