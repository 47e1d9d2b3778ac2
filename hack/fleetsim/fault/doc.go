// Package fault makes a simulated API server misbehave, in the ways in which real ones do, switched at run time.
//
//	faults := fault.New(seed)
//	listener, err := faults.Listen()
//	server := &http.Server{Handler: faults.Handler(apiserver), ConnContext: fault.ConnContext, ...}
//	go server.ServeTLS(listener, "", "")
//
//	hang, err := faults.Set(fault.Fault{Kind: fault.Hang, Match: fault.Match{Verbs: []string{"list"}, Resources: []string{"configmaps"}}})
//	...
//	faults.Clear(hang.ID)
//
// # How it works
//
// A Switch holds the faults of one server. What it holds is an immutable list behind an atomic pointer with a channel
// that is closed when the list changes: readers pay one load, and those that wait are notified of every change.
//
// Faults of requests are a middleware (Handler) and a response writer around every answer, since a watch that is long under
// way must be able to fall silent. Faults of connections (BlackHole, Silent, Refuse) sit below TLS, in a Listener and the
// connections it accepts, so that handshakes, HTTP/2 settings and pings are struck as everything else is.
//
// A fault with a share strikes that part of all requests or connections. Who is struck is a function of the seed, of the
// fault and of the number of the request or connection: a request that is struck once stays struck for its whole life.
//
// # What heals when a fault is cleared
//
//   - Latency, Hang: what waits continues at once.
//   - BlackHole: what was sent meanwhile arrives, in both directions, as TCP retransmits what was lost. Real connections
//     take up to their retransmission timeout for it; here it is at once. New connections that piled up are served, those
//     among them whose clients have left end at their handshake.
//   - Silent: the server continues as a process that was frozen: it reads what was sent to it, and answers.
//   - SlowWatch: events on their way arrive at once. SilentWatch: those that vanished are lost for ever; later ones arrive.
//   - Drip: the rest of the answer is sent at full speed.
//   - Refuse: the same port listens again.
//   - Status, Reset, GoAway: the next request is not struck. What was answered or cut stays so.
//
// # Trade-offs
//
//   - A black hole and silence are pauses of reading and writing, not lost packets. The kernel still answers
//     SYNs, until its queue of connections that are not accepted is full; clients see an open connection
//     without an answer either way.
//   - A connection that its client closed in a black hole keeps its file descriptor until the hole is cleared, as in a
//     real server, which does not notice it. New connections wait in the kernel's queue and cost this process none.
//     Where a share of them has to be accepted and held, at most 16 are; the oldest goes first.
//   - Read deadlines do not fire while a connection is held. Deadlines of a server's own writes do: a watch of package
//     apiserver whose event could not be sent for 30 s ends when the black hole is cleared, where kube-apiserver might
//     continue.
//   - Drip slows down the body of an answer. Slow links, with slow handshakes and pings, are not simulated.
//   - A silent or slow watch counts on each write of the server being one or several whole events.
package fault
