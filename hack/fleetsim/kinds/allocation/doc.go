// Package allocation fills in what a server gives an object and no client asks for: addresses and node ports of Services,
// selectors of Jobs, finalizers of namespaces, volumes and claims, what admission adds to Pods.
//
// Fill is called after the field managers, who own nothing of it. What is allocated follows from the name, so that it is the
// same each time and needs no memory. The price: two Services may get the same address or node port, which is unlikely.
package allocation
