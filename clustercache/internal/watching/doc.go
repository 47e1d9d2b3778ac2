// Package watching keeps streams of objects going over a sequence of connections to a target.
//
// A Stream outlives connections: it holds what is kept of the objects, serves lookups and calls the handlers of its
// subscriptions. For each connection a Binding fills it: it finds the resource of the kind and has a follow.Follower
// list and watch it, whose sink it is. A binding counts from its promotion on. One that is not promoted yet collects
// its initial list and what follows beside the one that counts, so that a connection can be replaced without an
// interruption: promotion stops the former binding, compares the two states and reports the difference.
//
// What is kept is relied upon (synced) once a list is complete, and not any longer once a watch has not been open for
// ten seconds, its version is forgotten, or the connection was not of use in between. A watch that ends in order and
// is opened again at once changes nothing: that happens every few minutes. After more than that, that it was opened
// again proves nothing yet: an API server accepts a watch whose version it has forgotten, and says so in its first
// event, and it sends what was missed as events, one after the other. It sends both at once. So what is kept is relied
// upon again once the watch was quiet for a second, or brought a bookmark, which comes with what was said before. To
// wait for a bookmark in any case would cost a minute after each outage, and to ask for the version of the collection
// a call for each watch. One that is never quiet for a second waits for its bookmark, for a minute and a half at most:
// a server that sends none by then sends none at all.
//
// A Quota bounds what all watches of a target keep, by objects and by bytes, and a Pool what the targets of a namespace
// keep together beyond what each of them may have anyway. Bytes are those of all texts and of what is around them,
// counted by a walk over each value that is kept. A new list shares what has not changed with what it replaces.
//
// Reader answers reads of objects from watches that can: those that select everything and keep objects.
package watching
