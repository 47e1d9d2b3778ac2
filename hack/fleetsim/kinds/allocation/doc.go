// Package allocation fills in what a server gives an object and no client asks for: addresses of Services, the
// finalizer of namespaces, what admission adds to Pods, the stored versions of CustomResourceDefinitions.
//
// Fill is called after the field managers, who own nothing of it. What is allocated follows from the name, so that
// it is the same each time and needs no memory. The price: two Services may get the same address, which is
// unlikely. Node ports, selectors of Jobs, and finalizers of volumes are left out: clients that write bundles to a
// simulated server do not need them.
package allocation
