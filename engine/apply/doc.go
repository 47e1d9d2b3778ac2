// Package apply makes one target look like the manifests: it turns manifests into intents (Prepare) and applies them
// with server-side apply under one field manager (Applier.Run).
//
// The manifest is authoritative. What others added to an object's payload is taken back, except where the control plane
// or an operator has to own it (package ownership). The exceptions, and what becomes of labels and annotations, are in
// package merge: what the hub owns and must not change is sent with its live value, because a field that an applier
// stops sending is deleted. Fields that count at creation only are sent then and let go of at once, so that no later
// apply can take them off. Labels, annotations and owner references that an apply leaves alone but that have to go are
// removed by a patch which is tested against the version of the answer. An object that is known to exist is addressed
// with its UID, so that an apply never brings a deleted object back by accident or writes into a stranger.
//
// In the normal case one object costs one request, and its answer, asked for as metadata only, holds all that is needed
// to see drift later: UID, resourceVersion and managedFields. Only kinds with preserved fields are read first.
//
// Objects are applied in the stages of package inventory, in parallel inside a stage. A failure stops only what needs
// the object that failed: a namespace its contents, a CustomResourceDefinition its instances. Every failure is
// reported.
//
// What cannot be applied is updated as a whole (update.go): manifests with several list items of one key, and kinds of
// servers that lack apply. What cannot be updated at all is deleted and created again, if its manifest or the live
// object asks for it or if it is an immutable ConfigMap or Secret (invalid.go). That needs certainty: the object bears
// our origin or has the UID of the inventory, nobody wrote since it was read, the server would take a new object, and
// the live object does not say keep-object, which promises that the hub never deletes it, whatever else is asked for.
//
// Preview rehearses the work on one object with dry runs (preview.go), for those who want to know before.
//
// Trade-offs: fields that the server's schema does not know are cut out of the intent and reported, since server-side
// apply refuses the whole object for them. The cut follows the paths in the server's answer, the only place where they
// stand.
package apply
