// Package clustercache turns registration Secrets into live connections to target clusters. It knows nothing of what
// the connections are used for.
//
// # What it does
//
// A registration is a kubeconfig Secret in the layout of Cluster API. For each one (package internal/registration), and
// for each static target, the cache keeps one connection (package internal/connection): one HTTP/2 transport of its
// own, one rate limit, one bound on calls in flight, clients for objects and for metadata, a REST mapper whose content
// is shared with similar targets (package mapperpool), and the streams that consumers subscribed to (packages
// internal/subscription and internal/watching). Consumers never connect, never wait for a connection and never learn of
// credentials. A getter answers at once, with a client or with ErrClusterNotConnected, and an EventSource reports when
// it is worth asking again.
//
// # How it works
//
// Each target is a state machine with one goroutine, the loop (target.go); states.go has its table of transitions. The
// loop compares what is with what the registration asks for and starts what is missing: a connection attempt, a change
// of the token, a new connection beside the old one, a probe, a watch. All of these run beside the loop with a deadline
// and report back, so that the loop never waits for a network.
//
// A connection is immutable but for its token (rotation.go). If only the token differs in a new kubeconfig, it is tried
// over the open connection and then exchanged. Anything else builds another connection, verifies it, lets its watches
// collect their initial lists, and then replaces the old one, which serves calls under way for as long as a call may
// last. If the new one does not work, the old one stays and Status says so in its Pending fields.
//
// A probe reads the UID of kube-system every few seconds (probe.go), so that a connection that begins to lead elsewhere
// is dropped and verified again. Failing calls, new sockets and answers 401 only raise suspicion: they cause a probe,
// and the probe decides. While probes find nothing wrong, the pause before the next suspicion counts doubles up to the
// usual interval. A call that the hub itself did not send (Options.Fenced) says nothing about the target.
//
// A connection that is lost is kept for a grace period (grace.go). If the same cluster answers again before long, its
// watches continue where they were, with one request each and no list. If many targets are lost together (package
// internal/availability), the hub suspects its own network, and all are kept until most are back.
//
// If the etcd of a target is restored from a backup, versions come again that were there before, for other content. The
// first probe after a loss or a suspicion, and one a minute, compares the past of the target with what is remembered of
// it (history.go): the highest version, and the Lease in kube-system that was renewed last, read as of its version. If
// it is another past, all watches list again, and consumers learn of it by EventRewound and Status.Rewinds.
//
// Any number of consumers subscribe to the objects of a kind. Those that ask for the same kind, selection and form
// share a stream and what it keeps. A stream outlives connections. What it keeps stays while a target is away, and the
// next complete list is compared with it, so that deletions in between are reported.
//
// # Limits
//
// Work that all targets would do at the same moment is spread: first dials happen at a rate, and dials,
// identifications, probes, lists, openings of watches and rotations have a bounded number of seats. Seats are fair
// between namespaces first and then between targets (packages semaphore and internal/seats), and the targets of one
// namespace have three quarters of them at most. A target that needs long waits in a slow queue. A target that answers
// probes but no calls is not called for a while (ErrBusy). One that is meant to be away is left alone (sleep.go).
//
// # Trade-offs
//
//   - HTTP/2 is that of net/http, which has a goroutine for each stream. A watch has two goroutines: that one, and one
//     that follows it (package internal/follow). docs/explanation/memory.md has figures, bench_test.go takes them.
//   - A target that was down for longer gets new watches with full lists. That costs the target a list for each kind,
//     and spares all questions about what happened meanwhile.
//   - Lists after a reconnect are consistent reads, never from an API server's possibly outdated memory. That is more
//     work for old servers, and the reason why absence can be relied upon.
//   - A restore of etcd is not noticed if versions cannot be compared, if the hub may not read Leases, or for what was
//     written in the seconds between the last comparison and the backup. A restore with a bump of the revision needs no
//     comparison: each watch lists again. A target that lies about its versions costs itself one list of each kind in
//     five minutes.
//   - A rotation that cannot establish a watch that works now is refused: a credential with fewer rights is more likely
//     a mistake than an intention. Its memory is twice that of the target until it ends.
package clustercache
