// Package clustercache turns registration Secrets into live connections to target clusters. It knows nothing of what
// the connections are used for.
//
// # What it does
//
// A registration is a kubeconfig Secret in the layout of Cluster API (package kubeconfig reads and judges it). The
// registry (registry.go) takes Secrets from the informer, whose handlers read nothing of them but their metadata. A
// namespace has a quota of registrations; those without a place are known, refused and cost a few hundred bytes.
// Kubeconfigs of the others are read a few at a time, fair between namespaces. For each one, and for each static
// target, the cache keeps one connection: one HTTP/2 transport of its own, one rate limit, one bound on calls in
// flight, clients for objects and for metadata, a REST mapper whose content is shared with similar targets (package
// mapperpool), and the streams that consumers subscribed to. Consumers never connect, never wait for a connection and
// never learn of credentials: a getter answers at once, with a client or with ErrClusterNotConnected, and an
// EventSource reports when it is worth asking again.
//
// # How it works
//
// Each target is a state machine with one goroutine, the loop (target.go). The loop compares what is with what the
// registration asks for and starts what is missing: a connection attempt, a change of the token, a new connection
// beside the old one, a probe, a watch. All of these run beside the loop with a deadline and report back, so that the
// loop never waits for a network. Dials, the rest of connecting, and probes have seats of their own (pool.go): a
// target that hangs keeps one of the many for dials for the timeout of a probe, and never gets one of the few for the
// second step, identification. One that hangs there keeps it for two seconds.
//
// A connection is a generation (connection.go, rotation.go). Everything it starts lives in its context and ends with
// it, down to the sockets, which its transport (package internal/transport) closes itself. Nothing in it changes but
// the token: if only that differs in a new kubeconfig, it is tried over the open connection and then exchanged inside
// the transport, and watches go on. Anything else builds the next generation, verifies it, lets its watches collect
// their initial lists, and then exchanges the two; the old one serves calls under way for as long as a call may last.
// If the new one does not work, the old one stays and Status says so in its Pending fields.
//
// A probe reads the UID of kube-system every few seconds. It is what identifies the cluster, so that a connection that
// begins to lead elsewhere is dropped and verified again. Failing calls, new sockets and answers 401 only raise
// suspicion: they make the loop probe at once, and the probe decides. A socket that the probe itself opens raises
// none, and while probes find nothing wrong the pause before the next suspicion counts doubles up to the usual
// interval: a proxy without keep-alive has each call open one. What the hub itself did not send (Options.Fenced) says
// nothing about the target.
//
// # When a target goes back in time
//
// If etcd is restored from a backup, versions come again that were there before, for other content, and a watch that
// goes on where it was shows what never was, or nothing. So the past of each target is remembered (history.go): the
// highest version of it, and a mark, which is the Lease in kube-system that was renewed last, as it was then. The
// first probe after a connection was lost or suspected, and one a minute, lists those Leases by a consistent read,
// which no API server answers with what is older than an earlier answer. A lower version means that the target went
// back. If it is not lower, as many changes may have come since: then the mark is asked for once more, as of its
// version. In the past that is remembered it was written just then; in another one, another change has that version,
// and if it is one of the same Lease, it was renewed at another time. That tells all three apart, a version that is
// lower, equal or higher, and needs no write, and two small requests a minute. What does not tell is no evidence:
// versions that cannot be compared or are compacted, or no right to read Leases. A restore as etcd recommends it
// (with a bump of the revision) is of that sort, and does not need it: it has each watch list anew.
//
// The watches of a target that went back list anew over the connection that there is, and consumers learn of it by
// EventRewound and Status.Rewinds, for what they noted of versions is void. A target that lies about its versions
// costs itself that much work, once in five minutes. What happened to etcd in the seconds between the last mark and
// the backup is not told apart.
//
// # When a connection is lost
//
// A connection that is lost is held for a while (grace.go): its sockets are closed, calls fail at once, and its
// watches wait at the gate of the transport. If the same cluster answers again before long, they go on where they
// were, with one request each and no list. Status says Disconnected all the time, and Held, so that nobody draws
// conclusions from what may be over in a moment. If many targets are lost together (package internal/availability),
// the hub suspects its own network: all are held until most are back.
//
// Work that all targets would do at the same moment is spread: registrations are dialled for the first time at a rate,
// and identifications, lists, watches that are opened again, and rotations have a bounded number of seats (package
// internal/seats). A seat is held for a short time at most, and targets that need longer wait in a slow queue, so that
// targets that hang do not block the seats of others.
//
// All seats, and the rate, are fair between namespaces first and then between targets (package semaphore), and the
// targets of one namespace have three quarters of them at most: a namespace that registers hundreds of targets that
// hang does not delay other namespaces.
//
// A target that is meant to be away (sleep.go) is left alone: whoever runs the cache says so by Options.Asleep, and
// when it may have changed by Recheck. The cache does not know where that is written.
//
// Who has work for a target may ask beforehand whether it answers (answers.go): a probe is sent then, unless it has
// answered something just now.
//
// A target may answer probes and nothing else. After a few calls in a row without an answer, calls are not made for a
// while and fail at once with ErrBusy, but for one from time to time that finds out whether it is over: a call that
// waits holds a worker that all targets share. A Retry-After of an answer 429 holds for all calls to the target.
//
// # Watches
//
// Any number of consumers subscribe to the objects of a kind (subscription.go). Those that ask for the same kind,
// selection and form share a stream (package internal/watching) and what it keeps; each has a handler and an end of its
// own, and the stream ends with the last of them. One that comes later hears of everything that is kept before it hears
// of changes.
//
// A stream outlives generations. In each of them a binding runs a Follower (package internal/follow) whose sink is the
// stream itself: no informer, no index, no queue, no resync. Objects are transformed as they come and before they are
// stored. What was kept stays while a target is away, and the next complete list is compared with it, so that deletions
// that nobody saw are reported. Lookup's synced is false meanwhile.
//
// A watch may be open and say nothing, because something on the way lost the stream. API servers send a bookmark about
// every minute, so one that was silent for minutes is opened again where it was, after a probe that succeeded; if it
// goes on like that though it is known to send bookmarks, everything is listed again. There is no timer for each
// watch.
//
// # Trade-offs
//
//   - HTTP/2 is that of net/http, which has a goroutine for each stream and bounds what waits to be read by stream. A
//     watch has two goroutines: that one, and one that follows it (package internal/follow, which holds no buffer
//     while a watch is idle; a Reflector of client-go has five goroutines, and buffers as large as the largest
//     object). docs/explanation/memory.md has figures, bench_test.go takes them. net/http does not bound how many
//     frames that serve no stream a server may send: they cost it and the hub processor time, and no memory.
//   - A target that was down for longer gets new watches with full lists. That costs the target a list for each kind,
//     and spares us all questions about what happened meanwhile. After a shorter outage its API server says what
//     happened, or that it does not know any more, and then there is a list, too.
//   - Reconnecting lists read consistently, never from an API server's possibly outdated memory. That is more work for
//     old servers, and the reason why absence can be relied upon.
//   - A rotation that cannot establish a watch that works now is refused, even though everything else would work: a
//     credential with fewer rights is more likely a mistake than an intention.
//   - The memory of a rotation is twice that of the target until it ends. Sixteen rotate together.
//   - Calls are confined to the host of the kubeconfig, and redirects are not followed.
package clustercache
