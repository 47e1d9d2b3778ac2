// Package apiserver is one simulated Kubernetes API server as an http.Handler. A thousand of them fit into one process.
//
//	snapshot, err := apiserver.Prepare(objects, "gardener-resource-manager", now)
//	s, err := apiserver.New(apiserver.Options{Name: "shoot-1"})
//	err = s.Load(snapshot, 1)
//	http.Serve(listener, s)
//	s.Stop()
//
// # What it answers
//
// To clients it is a kube-apiserver: discovery, get, list by page and of the past, watches with bookmarks and streamed
// lists, every kind of write with dry runs and preconditions, finalizers, deletion of collections, the subresources
// status, token and finalize, reviews of oneself and of tokens, metadata alone, and errors in the words of the real
// one. Package kinds decides what is served and what a write makes of an object; package storage keeps the objects;
// this package is what lies between them and HTTP. The table of package conformance compares it with a real server,
// request by request.
//
// Answers are JSON or YAML. Protobuf is read, for typed clients write nothing else, but written for the metadata of one
// object alone, which clients of metadata prefer in answers and watches: who accepts nothing else for a whole object or
// a list gets a 406. A Table is not made; clients that ask for one accept JSON too.
//
// # How it works
//
// A write is computed from the object as it is now, without a lock, and stored only if the object is still that one;
// otherwise it is computed again, as kube-apiserver does. The journal records writes under the store's lock, so
// that it has them in the order of their versions.
//
// What follows from a write a moment later is done by controllers, in a goroutine that exists only while there is
// something to do: CustomResourceDefinitions are established or deleted with their instances, namespaces are emptied,
// and deletions in the foreground or that orphan come to their end. Options.NoControllers leaves out all but the first,
// as a control plane without a controller manager does.
//
// A watch has the goroutine of its request and nothing else. Its memory at rest is that of the connection: 27 KB with
// HTTP/2 over TLS, its client's end in the same process included (TestAnIdleWatchIsCheap). One that does not read for
// 30 seconds, or falls behind further than events are kept, is ended.
//
// # What it costs
//
// CPU time of one request to a server with 300 objects of 2.5 KB, without the network (BenchmarkRequests and
// BenchmarkWatchFanOut): get 6 µs, list of all 220 µs, apply 0.5 ms whether or not it changes anything, merge patch 0.6
// ms; an event for one more watch 5 µs. Filling a server takes 0.15 ms (BenchmarkLoad).
//
// The events that a server keeps for watches hold 0.75 MB at most, however much is written: some 160 merge patches of
// an object of 4 KB, after which a watch that has not kept up ends. Small objects have the whole window.
//
// # Trade-offs
//
//   - Nothing is collected by owner references: dependents stay. There is no kubelet either, so a pod that was assigned
//     to a node and is deleted stays until it is deleted with a grace period of zero. A namespace's deletion does that.
//   - Everybody who is authenticated may do everything.
//   - A list of the future fails at once, where a real server waits three seconds.
//   - Compact ends watches that run, with a 410. A real server's continue, served from its cache; the simulated one
//     shall show what happens when they do not.
package apiserver
