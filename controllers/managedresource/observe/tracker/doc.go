// Package tracker connects live objects with the ManagedResources that list them. It subscribes to the watches that an
// inventory needs in a target, condenses every live object to an Observation, remembers how each object was when it was
// last applied, and notifies a ManagedResource when one of its objects differs from that.
//
//	inventory -> watches (one per kind, version and target, counted) -> Observation -> compare with what was accepted -> notify
//
// Objects are found by inventory, never by their origin annotation, which every user of the target can edit. While a
// ManagedResource is being applied its events are not judged but noted; afterwards its objects are compared once
// (Judge, or Compare), so the echo of an own write costs no request. An event that is older than the last write is
// ignored. Absence means something only in a synced watch, and only for an object that was seen there or has a delete
// event; then the caller reads it live before it acts.
//
// A Job that is gone because it has succeeded is neither missing nor drift (done.go).
//
// Health is judged when an event comes (package health), from the whole object, and only what follows from it is kept:
// the Observation is what a transform that trims to the fields that are read would leave, and less. A ManagedResource
// is notified of an event that changes the conditions of an object, and of one of a pod that changes those of a
// workload that selects it. Nothing is sent again periodically; a caller that wants to be safe judges again. Kinds
// whose health is their existence are watched as metadata.
//
// Trade-offs: what is kept of an object is a few numbers, so what was changed is not known here; the caller reads the
// live object's managedFields when it corrects it, which is once per drift and not once per event. Each target has a
// lock of its own, held for the work of one event.
package tracker
