// Package account manages service accounts of hubs in targets: their creation, rights, tokens, users and removal.
//
// An account is bound to a ClusterRole and gets tokens that expire. Several registrations may share an account,
// including those of other hubs, so it has an annotation for each that uses it: Remove removes that of its own user,
// and deletes the account with the last one.
//
// Trade-offs: an annotation stays if a registration is deleted without Remove, or changes to another account. Then the
// account stays as well and may have to be deleted by hand, but it is never deleted while it is in use. A token cannot
// be revoked. It is valid until it expires, which is why its duration is bounded.
package account
