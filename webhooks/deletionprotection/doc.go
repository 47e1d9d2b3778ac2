// Package deletionprotection refuses to delete CustomResourceDefinitions and custom resources of Gardener until an
// annotation confirms it. With a CRD, all objects of its kind go, and with an object like an Infrastructure the
// machines of a shoot: one command that meant something else does too much.
//
// # How it works
//
// What is deleted by its name must carry the annotation itself. What is deleted as one of a collection reaches a
// webhook item by item, without a name: then all objects of the collection must carry it, so that either all of them go
// or none. They are read from the target, without a cache. If the item itself is not confirmed, nothing needs to be
// read.
//
// CRDs are sent here only if they have the label gardener.cloud/deletion-protected=true. A user who may remove
// the label may delete them.
//
// # Trade-offs
//
// Each item of a collection takes a list, as in Gardener, unless it is refused at once. Lists are of metadata, in
// pages, and end at ten thousand objects: what is larger is refused.
//
// A failure refuses the deletion, whatever the failure policy. It can be repeated, and what is deleted cannot be had
// back.
//
// The package webhooks/policies has the same as a policy in the target, but for the rule that all of a collection go or
// none.
//
// # Rights
//
// In targets: list of the resources that are protected.
package deletionprotection
