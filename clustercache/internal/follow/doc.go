// Package follow lists a collection of an API server and follows its changes, in as little memory as that takes.
//
// A hub has tens of thousands of watches, and nearly all of them are idle nearly all of the time. A Follower is
// therefore made for being idle: it waits in a read of four bytes at most, and holds no buffer meanwhile. What comes
// is read into a buffer that all followers share, decoded into the one object that it is, and handed to a Sink. (A
// reflector of client-go has four goroutines and keeps three buffers, each as large as the largest object that ever
// came.)
//
// It asks for a streamed list, whose objects come one by one, and for pages from servers that do not stream lists.
// Metadata comes as Protocol Buffers where the server knows them.
//
// A stream that ends is opened again where it was, and so it is after a pause where there is no answer or the server is
// busy; if there is no answer for long, Follow ends with the error, and continues where it was when it is called again:
// a server that does not answer would not answer a list either. All is listed again when the server has forgotten the
// version, says no, or sends what cannot be read. Whatever a server sends is bounded, memory grows with what came and
// not with what was announced, and what is no list with a version is an error and not an empty list: a proxy may answer
// in place of the server.
//
// # Bounds
//
// Two bytes of JSON may become a map of three hundred bytes in memory, so a bound on bytes alone is not enough. Pages
// are read item by item, however many items they have. An item or event is bounded in bytes, and what is decoded of it
// in elements and nesting, before it is decoded; what is not asked for and the fields in managedFields do not count. A
// document of more than a few KiB takes a seat of a Budget while it arrives, for 30 seconds at most, and another one
// while it is decoded and handed on. A Budget is shared by all targets, and fair between the namespaces of the source.
// Names, UIDs and versions that no API server would accept are errors: they are kept, and a shortened one could be that
// of another object.
//
// A list ends with an error after a number of pages or events, after ten minutes, and at once if a page is empty
// although another one is to follow. A server that does not support pages may send all items in one.
package follow
