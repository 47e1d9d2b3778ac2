// Package inventory knows which objects a ManagedResource owns in its target: how an object is identified
// (Key), how the list in status.resources is built, ordered and merged (Union, Sort), and in which order objects are
// applied and deleted (Stage).
//
// The list is written ahead: before the first write to a target it names everything that may exist afterwards, so that
// a crash at any call leaves no object that nobody knows of. Therefore Union never loses an entry, and keeps what an
// existing entry knows until its object was applied.
//
// The package is pure: it does no I/O and holds no state.
package inventory
