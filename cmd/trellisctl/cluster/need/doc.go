// Package need finds the ManagedResources that need a target, which prevent its removal.
//
//	in the namespace of the target  those that the hub has bound to it, or that pick it by its name or a class
//	in other namespaces             those bound to it, unless their namespace registers the cluster itself
//	unnamed                         the rest of what the hub counts, such as in namespaces that the user may not list
//
// Trade-offs: other namespaces are only listed if the hub counts more than there are in the namespace of the target.
// The count of the hub is up to half a minute old, so the removal of a target waits for the next one.
package need
