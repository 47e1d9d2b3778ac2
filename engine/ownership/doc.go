// Package ownership reads and rewrites metadata.managedFields, the record that an API server keeps of who set which
// field of an object. Everything that the engine knows about drift comes from it.
//
// An object that the hub applied has one Apply entry of the hub's field manager. The entry shrinks when another manager
// removes or changes a field that the hub set, and fields that another manager adds are in its own entry. So two
// digests show whether an object is still as the hub left it (Observe): one of our entry with the labels, annotations
// and owner references that it names, and one of the payload that only others own. Both need metadata only, so drift is
// detected without the content of objects.
//
// Payload that others own is taken back in two steps (Rewrite): a patch moves their paths into our entry, and the next
// apply, which lacks these fields, makes the server remove them. A forced apply alone would leave them in place,
// because server-side apply removes only what the applier itself owned before.
//
// Some foreign payload has to stay (Exempt): fields that the control plane fills, or that an operator may intentionally
// own.
//
// Targets control the content of managedFields, so all work on them is linear in their size: entries that exceed the
// bounds (MaxEntries, MaxBytes, MaxDepth) are not read and are an error of that object, pairs of sets are walked
// together, and only paths that are shown to users are rendered.
//
// Trade-offs: paths of entries in another version of the same group are treated like paths of our version. Kinds whose
// versions have different paths for a field are rare, and the server ignores a path that does not exist.
package ownership
