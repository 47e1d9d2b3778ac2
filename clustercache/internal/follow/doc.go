// Package follow lists a collection of an API server and follows its changes, in as little memory as that takes.
//
// A hub has tens of thousands of watches, and nearly all of them are idle nearly all of the time. A Follower is therefore
// made for being idle: it is one goroutine that blocks in a read of four bytes at most, and holds no buffer meanwhile.
// What comes is read into a buffer that all followers share, decoded into the one object that it is, and handed to a Sink.
// (A reflector of client-go has four goroutines and keeps three buffers, each as large as the largest object that ever
// came.)
//
// It asks for a streamed list, whose objects come one by one, and for pages from servers that do not stream lists. Metadata
// comes as Protocol Buffers where the server knows them. A stream that ends is opened again where it was; a follower whose
// version the server has forgotten lists again.
package follow
