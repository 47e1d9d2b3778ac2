// Package nodes watches the nodes of targets, and keeps a few words of each: whether something is wrong with it, and
// where it runs. A node has to be ready and under no pressure.
//
// It is a controller in targets (package multicluster) whose reconciler only says that something is new. What is known
// of the nodes is summed up on request, from what the watch keeps, so nothing is kept twice.
package nodes
