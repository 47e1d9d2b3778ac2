// Package fleetsim is a fleet of simulated Kubernetes API servers in one process: a hub or any other client takes each
// for a cluster of its own, with its address, its certificates, its identity, its credentials and its journal.
//
//	fleet, err := fleetsim.Start(ctx, fleetsim.Options{Targets: 100, Seed: 1})
//	defer fleet.Stop()
//	for _, target := range fleet.Targets() {
//		source.Create(ctx, target.Registration("shoot--fleet--" + target.Name()))
//	}
//
// # How it works
//
// A Target is a chain: a listener on a port of 127.0.0.1 of its own and a middleware, both of which package fault can
// make misbehave, around an apiserver.Server, which package journal watches. TLS, HTTP/2 and their limits are those of
// kube-apiserver. A thousand targets share what is the same: the objects they were filled with (Options.Snapshot), and
// the registry of kinds.
//
// Everything of a target can be changed while clients are connected: faults (Target.Faults), tokens and certificates
// (Target.RotateToken and its siblings), the clock (Target.Skew), whether it runs at all (Target.Stop, Hibernate,
// Start), and which cluster is behind the address (Target.Replace).
//
// Names and identities of targets follow from the seed, and with them who is struck by a fault that has a share. Ports,
// keys and certificates are new each time.
//
// # What it costs
//
// A target takes one goroutine, one open file and 16 to 40 KiB beyond the 46 MiB of the bare process; a connection two
// goroutines, one file and 36 KiB; a watch one goroutine and 18 to 25 KiB. A thousand targets with 304 shared objects
// and one connection with 12 watches and a probe every 5 s each were seen to take 441 MiB and 0.058 cores at rest, and
// 491 MiB and 0.063 cores on a busier machine.
//
// # Trade-offs
//
//   - Targets differ by their ports, not by their addresses or host names, so that no machine needs to be prepared.
//   - Authentication is real, authorization is not simulated: a client with a credential may do everything.
//   - Tokens are signed with a secret of the target, not with a key pair, since only the target itself checks them;
//     clients can read their expiry as they can that of any JSON web token. A token of a service account stays valid
//     until it expires, whatever becomes of the account.
//   - Only TLS 1.3 is spoken (see fault.Handshake).
package fleetsim
