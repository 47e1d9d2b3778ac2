// Package networkpolicy writes the network policies of targets that follow from their Services: a pod with the label
// networking.resources.gardener.cloud/to-<service>-<protocol>-<port> may call that port of the Service's pods, and
// these may be called. Annotations of the Service, Ingresses and Istio's VirtualServices let in others.
//
// # How it works
//
// What the policies of a Service are is computed by a pure function (Policies) from the Service, its annotations, the
// namespaces that these select, and the Ingresses and VirtualServices of its namespace. All of them are watched, and of
// each object only what matters is kept, so a change that does not matter has nothing reconciled.
//
// A policy has two labels that name its Service, for most are in other namespaces and could have no owner reference.
// Policies with the labels are watched, and of each the fingerprint of its content is kept. One that differs from
// what is desired is written, one that is not desired is deleted, and a Service whose policies are as they should be
// costs no call, even when the hub has just started. A Service is looked up once more before its policies are deleted
// because it does not exist.
//
// Requests that are not about a Service are about a namespace, the pods of one, or a gateway. Their runs find out which
// Services they concern: those whose selectors match a namespace, and those that have policies in it.
//
// Nothing is done before all watches of a target are complete. Kinds that the target does not have, as Istio's, are
// taken for empty until it has them. A watch that is refused, or would show too much, stops all work in the target, and
// its TargetCluster gets an event.
//
// Another client in the target may undo each write. So the policies of a target are written at a bounded rate, and
// those of one Service are brought in line once in a while. What is not written yet is written after a pause, in which
// no worker waits. The pace of runs (Paced) is no bound for that: most of them write nothing, and one may write
// thousands.
//
// # Names
//
// Two policies of a Service with the same name that differ in their peers only become one that allows both. If they
// differ in more, the later one has a hash at the end of its name. A policy of another Service is never changed: its
// name can be the same, because names consist of names with hyphens. The Service gets an event then, and its run is
// tried again with backoff. The same holds for a policy without the labels, unless its description says that it has
// merely lost them. Before a policy is deleted, it is read once more: one that has lost the labels stays.
//
// # Trust
//
// Everything is what a target says, and works in that target only. Annotations, ports and policies are bounded. What
// cannot be read is reported by an event on the Service, in its own cluster; its policies stay as they are until it
// changes. A user who may write a Service can let pods of other namespaces that have its label send to it, and no other
// clients. Policies with the labels that a user writes are deleted. In a target with Services of users,
// namespaceSelectors should name the namespaces of the operator.
//
// # Trade-offs
//
// Pods of a gateway are not watched: they are listed when a Service is reconciled to which the gateway leads. When
// such pods appear in another namespace, nothing happens until something else changes. Watching all pods would be the
// larger part of what a target costs. They are watched with OnlyWithClientPods, which is meant for targets whose
// policies would cost more.
//
// An index of what watches show is computed again after a change, and used for as long as there is none. That is quick
// when a hub starts, and after that there are few changes.
//
// Policies stay when a target is no longer registered or the controller is switched off for it.
//
// # Rights
//
// In the source: events (events.k8s.io) create, patch. In the target, in all namespaces: services get, list, watch;
// namespaces list, watch; pods list (and watch with OnlyWithClientPods); networkpolicies (networking.k8s.io) get,
// list, watch, create, patch, delete; ingresses (networking.k8s.io) list, watch with an ingress controller;
// virtualservices and gateways (networking.istio.io) list, watch; events (events.k8s.io) create.
//
// Where the source itself is the target, that is the second identity of the chart (trellis-source), which may do
// everything unless sourceIdentity.rules says less. So the chart grants nothing more for this controller.
package networkpolicy
