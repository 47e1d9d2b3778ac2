// Package secretindex tracks the versions of the Secrets that ManagedResources refer to, and calls a handler when one
// changes.
//
// A source cluster may hold a hundred thousand Secrets that are none of our business. So Secrets are watched by
// metadata, and of each event only a UID and a resourceVersion are kept, and only for Secrets that some ManagedResource
// names. Content is never held here: a run reads it when it needs it.
//
// Users decide how many references there are. So an event of a ManagedResource takes time that is linear in its own
// references, however many others refer to the same Secrets, and one that refers to too many (package references)
// counts as one without any.
//
// References are collected before the watch begins, so after the start every referenced Secret is known. One that is
// referenced later is unknown until a run reads it (Begin, Found) or its next event comes. Nothing is lost in between:
// a read counts only if it began when the reference was known, and the handler is called for a ManagedResource that
// refers to an unknown Secret. The watch may be behind such a read; its events from before are ignored.
package secretindex
