// Package csrapprover approves and denies CertificateSigningRequests of targets: for server certificates of kubelets,
// and for client certificates of node agents. Nothing in a target says which machines are meant to be its nodes; the
// Machines in the source do.
//
// # How it works
//
// The requests of two signers are watched in each target, and of each only whether it has been decided is kept. One
// that has not is read, and judged by the Node, read from the target, and by the Machines in the home namespace of the
// target, read from the source. Nothing of this is cached. The decision is a condition, written through the subresource
// for it in the version that was read: if another client was faster, the request is read again. The log has each
// decision, and a metric counts them.
//
// A kubelet gets a certificate for exactly the names and addresses that its Node has, if exactly one Machine has the
// label node with the name of the Node. A node agent gets one for a Machine that exists: the first one by a bootstrap
// token and only until there is the Node, later ones with the certificate that it has. All other client certificates
// are left to others, also those for gardenadm unless Settings say otherwise.
//
// A denial is final, so it is made with care. What Node and Machines are like is looked at twice. While one of them is
// merely missing, nothing is denied in the first ten seconds of a request. An API that fails, the Machine API among
// them, is an error and decides nothing. Neither does a request that cannot be read or is larger than requests are; it
// is reported by one event on the TargetCluster, and tried again with backoff.
//
// # Trust
//
// Requests, their users and Nodes are what a target says. All of it is bounded, and what becomes the name of a Machine
// or a value of a selector in the source is checked first. The namespace in the source is that of the registration, and
// nothing chooses another one: node names repeat in targets, and a Machine of another target would confirm a node
// that is not its own. A target without settings, or with settings that cannot be used, gets neither approvals nor
// denials.
//
// # Trade-offs
//
// Node and Machines are read for each request rather than watched. Requests are rare, and a watch of either would be
// the larger part of what a target costs.
//
// Two watches, one a signer, keep the requests of other signers out of the process. The field selector is of no use
// with several values.
//
// How long a request has waited follows from its creation time and the hub's clock. If the clocks of target and hub
// differ, the grace is shorter or longer by as much. It needs no memory, and continues in the next term.
//
// That a fault was reported is forgotten after some hundred others and at the end of a term.
//
// # Rights
//
// In the source, in home namespaces: machines (machine.sapcloud.io) list; targetclusters (hub.gardener.cloud) get;
// events (events.k8s.io) create, patch.
//
// In targets: certificatesigningrequests (certificates.k8s.io) get, list, watch; certificatesigningrequests/approval
// update; signers (certificates.k8s.io) approve, with the resource names kubernetes.io/kubelet-serving and
// kubernetes.io/kube-apiserver-client; nodes get.
package csrapprover
