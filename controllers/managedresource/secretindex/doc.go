// Package secretindex knows the versions of the Secrets that ManagedResources refer to, and tells when one changes.
//
// A source cluster may hold a hundred thousand Secrets that are none of our business. So Secrets are watched by metadata,
// and of each event only a UID and a resourceVersion are kept, and only for Secrets that some ManagedResource names.
// Content is never held here: whoever needs it reads it when it is needed.
//
// References are collected before the watch begins, so after the start every referenced Secret is known. One that is
// referenced later is unknown until somebody reads it (Observe) or its next event comes.
package secretindex
