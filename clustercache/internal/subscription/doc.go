// Package subscription shares the streams of one target between any number of subscriptions.
//
// Subscriptions that ask for the same kind, selection and form share a stream (package watching). It is opened with the
// first of them and ends with the last, or with the target. A Set outlives connections: Bind has the streams run over a
// connection, and a Replacement has them collect their initial lists over the next one before it takes over.
//
// The methods of a Set may be called from any goroutine, but for Bind, Rewind and Promote: these belong to the one that
// decides on connections.
//
// Trade-off: a watcher with a Transform that has no name (form) does not share its stream, since functions cannot
// be compared.
package subscription
