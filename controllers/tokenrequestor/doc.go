// Package tokenrequestor keeps tokens of ServiceAccounts of targets in Secrets of the source.
//
// A component that runs beside the source and works in a target asks for access by a Secret in the home namespace of
// the target: a label (PurposeLabel) makes it an access Secret, annotations name the ServiceAccount and what the token
// is to be like. The controller creates the ServiceAccount, requests a token, writes it into the Secret, and renews it
// at 80 to 84 % of its lifetime. The token stands alone (KeyToken), in the current context of a kubeconfig
// (KeyKubeconfig), or in a Secret of the target. The keys, and all that follows, are those of Gardener's resource
// manager.
//
// # How it works
//
// A watch of the source has the metadata of all access Secrets, and nothing of their data; a Secret is read when it is
// reconciled. Nothing in a target is watched. Each time, in this order: whatever is missing is a reason to renew, and
// so is a time of renewal that has come; else the target is asked by a TokenReview whether the token is still one of
// the ServiceAccount that the Secret names. That costs a call whenever the Secret changes and one in 24 hours, and
// finds ServiceAccounts that were created again, keys that were rotated, and tokens of another cluster.
//
// The source Secret is written by a merge patch that has the UID and the version that was read, and only the keys that
// change: a client that edits it at the same time loses nothing, and the token is requested once more.
//
// # Trust
//
// A Secret gets a token of the target that is registered in its own namespace, and of no other: nothing that is written
// on it or in it leads elsewhere, and the server in its kubeconfig is never called. If several targets are registered
// there, its label cluster.x-k8s.io/cluster-name picks one; without it, nothing happens while there is more than one
// that it could be for. A result is not written once the registration, the cluster or the connection is another one
// than at the beginning.
//
// A user who may create Secrets in a home namespace can thus become any ServiceAccount of the target, and with that
// usually its administrator. Policy limits which may be named. The ServiceAccount that the hub itself uses may be named
// by no Secret but the one by which the target is registered.
//
// What a target answers is bounded like all that comes from targets. A token is text of 16 KiB at most; a lifetime is
// taken to be between a minute and a day. A target that does not accept its own tokens has them renewed with a growing
// pause.
//
// # The access of the hub itself
//
// The Secret by which a target is registered may be an access Secret, too, if the hub uses a token. The kubeconfig that
// the hub reads (key value, or kubeconfig) gets the new token, and the cluster cache continues with it in the
// connection that it has. With inject-ca-bundle it only ever gets the certificates that the connection was made with.
// If the token has expired, nothing can be requested any longer, and the owner of the registration has to replace it.
//
// # Faults
//
// An annotation or a kubeconfig that cannot be used leads to an event that names it, and to nothing else until the
// Secret changes. Errors of the target are events, too, and are tried again with backoff. Metrics say how many tokens
// of a target are overdue, whatever the reason, and when the first of them expires.
//
// # Trade-offs
//
// Nothing is deleted: neither ServiceAccounts nor Secrets of the target when an access Secret goes, for others may use
// them. A finalizer that old versions of Gardener left is removed when its Secret is reconciled.
//
// At the beginning of a term, tokens that are not due are reviewed within Options.Spread, at times that follow from
// their names. Until then a token that was spoilt while no hub watched stays so, unless its Secret changes.
//
// A token whose time has come is renewed without a review of the old one: the answer would change nothing.
//
// # Rights
//
// In the source, in home namespaces: secrets get, list, watch, patch; events (events.k8s.io) create, patch.
//
// In targets: serviceaccounts get, create, update; serviceaccounts/token create; tokenreviews (authentication.k8s.io)
// create; where access Secrets name Secrets of the target: secrets get, create, update. A client that may create tokens
// of all ServiceAccounts has all their rights: this role is one of an administrator, however short it is.
package tokenrequestor
