// Package registration turns registration Secrets into what a connection is made with.
//
// A Registration is what is known of a target from its Secret: how to connect (package connection), or why that cannot
// be done. A Registry takes Secrets from an informer, whose handlers read nothing of them but their metadata. A
// namespace has a quota of registrations: the oldest are used, and the others are refused and cost a few hundred bytes
// until one of these is gone. Kubeconfigs are read (package kubeconfig) a few at a time, fair between namespaces, and
// never twice at the same time for one Secret.
//
// Trade-offs:
//   - At the start, the quota goes to the oldest registrations, whatever the order in which they come. Later, one that
//     is used stays so, since its target may be in use.
//   - The start waits for all registrations to be read, but not for longer than half a minute: what is not registered
//     may be taken for gone, so those that were not read by then are registered with a fault.
package registration
