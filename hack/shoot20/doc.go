// Package shoot20 is the fixture of the same name: what a cluster of Gardener holds, as tests and benchmarks use it.
//
// 20 ManagedResources with 15 objects each are 300 objects a target: the system components of a shoot, in the kinds that they
// consist of and in the sizes that these have. Names follow Gardener; the contents are made up, for the bytes of other
// projects are not ours to copy. Three of the objects are CustomResourceDefinitions of 100 to 300 KB. The mean of 2.5 KB, in
// JSON, is that of the other 297 objects: with the three, which make up half of all bytes, it is 4.5 KB.
//
// How it works: a table says which component has which objects (components.go). Each object is made by its kind (objects.go),
// with texts of a random generator that is seeded by the fixture's seed and the object's name (text.go), so that the same seed
// gives the same bytes, whatever else changes. The schemas of the definitions are those of Pods and the like, read from the Go
// types with their descriptions, as real ones come about (schema.go).
//
// Targets differ in a small share of the objects only, as shoots do: a cluster's domain in configurations and environment
// variables, its own keys in Secrets. The rest is the same in all of them.
//
// Objects are valid for a real kube-apiserver, and leave it in peace: webhooks select nothing, and the APIService is
// served by the kube-apiserver itself. There are no pods, so the workloads never become ready.
package shoot20
