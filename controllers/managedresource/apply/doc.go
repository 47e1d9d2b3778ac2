// Package apply makes one target look like the manifests: it turns manifests into intents (Prepare) and applies them with
// server-side apply under one field manager (Applier.Run).
//
// The manifest is authoritative. What others added to an object's payload is taken back, except where the control plane
// or an operator has to own it (package ownership); what the hub itself owns and must not change is sent with its live
// value, because a field that an applier stops sending is deleted (preserve.go). An object that is known to exist is
// addressed with its UID, so that an apply never brings a deleted object back by accident or writes into a stranger.
//
// In the normal case one object costs one request, and its answer, asked for as metadata only, holds all that is needed to
// see drift later: UID, resourceVersion and managedFields. Only kinds with preserved fields are read first.
//
// Objects are applied in the stages of package inventory, in parallel inside a stage. A failure stops only what needs the
// object that failed: a namespace its contents, a CustomResourceDefinition its instances. Every failure is reported.
//
// Trade-offs: fields that the server's schema does not know are cut out of the intent and reported, since server-side apply
// refuses the whole object for them. The cut follows the paths in the server's answer, the only place where they stand.
package apply
