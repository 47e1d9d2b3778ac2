// Package ownership reads and rewrites metadata.managedFields, the record that an API server keeps of who set which
// field of an object. Everything that the engine knows about drift comes from it.
//
// An object that the hub applied carries one Apply entry of the hub's field manager. The entry shrinks when anybody
// removes or changes a field that the hub set, and an entry of somebody else owns whatever he added. So two numbers
// tell whether an object is still as the hub left it (Observe): a digest over our own entry with the labels,
// annotations and owner references it names, and one over the payload that others own beside it. Both come from
// metadata alone, which is why watching for drift needs no object content.
//
// Payload that others own is taken back in two steps (TakeBack): a patch moves their paths into our entry, and the next
// apply, whose intent lacks these fields, makes the server remove them. A forced apply alone would leave them in place,
// because server-side apply removes only what the applier itself owned before.
//
// Some foreign payload has to stay (Exempt): fields that the control plane fills, or that an operator may own on
// purpose.
//
// Targets choose the content of managedFields, so all work on them is linear in their size: entries that exceed the
// bounds (MaxEntries, MaxBytes, MaxDepth) are not read and are an error of that object, sets are walked in parallel,
// and only paths that are shown to people are written out.
//
// Trade-offs: paths of entries that were written in another version of the same group are treated as if they were
// written in ours. Kinds whose versions move fields around are rare, and a path that does not exist is ignored by the
// server.
package ownership
