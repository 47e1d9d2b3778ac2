// Package h2 is the client's side of HTTP/2, made for connections with dozens of streams that are open for long and say little: the
// watches of a target.
//
// A Conn has one goroutine, which reads frames and hands them to their streams. A stream has none, and no buffer while there is nothing
// to read. That is why the package exists: net/http has a goroutine for each stream, and keeps what it asked for, its answer, and
// the last piece of it that was read for as long as the stream is open. For 30,000 watches that is half a gigabyte, and as many stacks
// for each garbage collection to go through. BenchmarkStreams measures it, beside net/http. Frames and header compression are those of
// golang.org/x/net/http2; what is here is what becomes of them.
//
// A Pool is a net/http.RoundTripper over such connections, and an http.Transport below it opens them: that knows proxies, TLS, and servers
// that do not speak HTTP/2, whose requests stay with it. A request that finds no connection with room for a stream has another one opened,
// as in net/http.
//
// What is written goes through a queue, which a goroutine empties that ends with it: nobody waits for a socket to be
// written to while holding a lock, or beyond the deadline of a request. The window of the connection is given back when
// data comes, that of a stream when it is read: a stream that is not read does not delay others, and never has more
// than streamWindow. All together have keptLimit at most; an answer that would exceed it is reset, unless it is small.
//
// Servers are not trusted. What can wait to be written because a server asked for it is bounded, and so are headers,
// informational answers, and frames that serve no stream. Exceeding a bound closes the connection, or ends the stream
// if only that is concerned.
//
// Not supported, since API servers and their clients have no use for it: trailers, pushes, priorities, upgrades, answers that are to be read
// while the request is still being sent, and bodies of requests that take long to be read.
package h2
