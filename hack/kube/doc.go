// Command kube builds what a control plane consists of, from Go modules alone: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl and kwok, and beside them the stages by which kwok simulates nodes
// and their pods. "make kube" runs it; package hack/controlplane uses what it builds.
//
//	go run . -o ../../bin/kube
//
// # How it works
//
// The versions are pinned in modules of their own, so that the requirements of servers reach neither the module of the hub nor
// each other: go.mod for etcd and Kubernetes, kwok/go.mod for kwok. kubectl has kubectl/go.mod, with the version of the
// servers, because it needs a third of what they need. The commands are "tool" dependencies there. The
// version of Kubernetes also names the directory, bin/kube/<version>, and is stamped into its binaries.
//
// Beside each file lies the recipe it was made by: a digest of the module file and the arguments of the linker. What is there
// with the right recipe is not built again, so that a second run does nothing, an interrupted run continues where it
// was, and a changed version builds what it concerns. Files appear by renaming, complete or not at all. A lock lets a
// second run wait for the first one.
//
// # Trade-offs
//
//   - Building takes minutes where downloading would take seconds. In return the module checksum database vouches
//     for every byte, any platform Go knows will do, and nothing but the module cache is needed.
//   - The binaries are built without cgo and symbol tables: they are not debugged here, and need no C library.
package main
