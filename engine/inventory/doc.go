// Package inventory knows which objects a ManagedResource owns in its target: how an object is identified
// (Key), how the list in status.resources is built, ordered and merged (Union, Sort), and in which order objects are
// applied and deleted (Stage).
//
// The list is written ahead: before the first write to a target it names everything that may exist afterwards, so that
// a crash at any call leaves no object that is not listed. Therefore Union never drops an entry, and keeps the content
// of an existing entry until its object was applied.
//
// The package is pure: it does no I/O and holds no state.
package inventory
