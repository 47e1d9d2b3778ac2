// Package player plays what no simulated target has: the controllers of workloads, the scheduler and the kubelets. It
// writes statuses and Pods as they would be once everything is rolled out, for a ManagedResource with a Deployment that
// is not rolled out is never ready.
//
// StatefulSets get no Pods of their own: their status is what they are judged by. There are no nodes, so a DaemonSet wants no
// Pods.
package player
