// Package apply makes one target look like the manifests: it turns manifests into intents (Prepare) and applies them
// with server-side apply under one field manager (Applier.Run).
//
// The manifest is authoritative. What others added to an object's payload is taken back, except where the control plane
// or an operator has to own it (package ownership). The exceptions, and the rules for labels and annotations, are in
// package merge: what the hub owns and must not change is sent with its live value, because a field that an applier
// stops sending is deleted. Fields that count at creation only are sent then, and their ownership is given up at once,
// so that no later apply removes them. Labels, annotations and owner references that an apply leaves alone but that
// have to go are removed by a patch which is conditional on the resourceVersion of the response. An object that is
// known to exist is addressed with its UID, so that an apply never recreates a deleted object by accident or writes
// into another object of the same name.
//
// In the normal case one object costs one request. The response, requested as metadata only, has all that is needed to
// detect drift later: UID, resourceVersion and managedFields. Only kinds with preserved fields are read first.
//
// Objects are applied in the stages of package inventory, in parallel inside a stage. A failure stops only objects that
// depend on the one that failed: the contents of a namespace, the instances of a CustomResourceDefinition. Every
// failure is reported.
//
// What cannot be applied is updated as a whole (update.go): manifests with several list items of one key, and kinds of
// servers that lack apply. What cannot be updated at all is deleted and created again, if its manifest or the live
// object asks for it or if it is an immutable ConfigMap or Secret (invalid.go). For that, the object must have our
// origin annotation or the UID of the inventory, must be unchanged since it was read, and must not have the annotation
// keep-object, which promises that the hub never deletes it; and a dry run must show that the server would accept a new
// object.
//
// Preview shows with dry runs what an apply would do to one object (preview.go).
//
// Trade-offs: fields that the server's schema does not know are removed from the intent and reported, since server-side
// apply refuses the whole object for them. Their paths are taken from the server's message, the only place that has
// them.
package apply
