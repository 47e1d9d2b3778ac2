// Package notes keeps the last Warning events of objects in targets for messages that stay in a status. It answers from
// memory and never waits: it reads when it is first asked for an object, at most once in a Pause after that, a few at a
// time, each with a deadline, and notifies the ManagedResource when there is something else to say.
package notes
