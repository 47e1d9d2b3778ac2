// Package references is for programs that create ConfigMaps and Secrets that a garbage collector deletes once nothing
// refers to them: the hub's own one (controllers/garbagecollector) or that of Gardener's resource manager.
//
//	secret := &corev1.Secret{...}
//	err := references.MakeUnique(secret) // its name now depends on its data
//	...
//	deployment := newDeployment(secret.Name)
//	err = references.InjectAnnotations(deployment)
//
// # How it works
//
// An object that may be collected has a label (Label) and, by MakeUnique, a name with a checksum of its data, so that
// other data make another object. An object in use is named by an annotation of the object that uses it, in the same
// namespace: the key has the kind, the value has the name. InjectAnnotations finds out what a workload, a
// ManagedResource or a Prometheus uses, and writes these annotations. A collector looks at the annotations only.
//
// # Trade-offs
//
// The key contains a hash of the name, since one object may use several of a kind. It is not verified: a key with an
// arbitrary hash protects as well.
//
// A Prometheus is accepted as unstructured content, so that this package needs none of the types of its operator.
package references
