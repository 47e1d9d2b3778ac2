// Package hostile attacks a hub as a tenant can, who may create Secrets and ManagedResources in one namespace and
// nothing else, or as the operator of a registered API server can, which may answer anything.
//
// How it works: two hubs, a leader and a standby, run as they ship, each in a process of its own under a memory
// limit, with honest targets beside that are edited all the time. Each attack has hubs of its own, so that none
// profits from what another one left. The first run has no attack: it is the baseline.
//
// The attacks are data, a file for each kind. The numbers of the rows:
//
//	kubeconfigs.go  1 kubeconfigs with aliases, 2 keys of an absurd size
//	                4 discovery that is slow and fails, 9 servers that hang
//	forged.go       3 forged bindings to the cluster of another tenant
//	answers.go      5 answers that are small on the wire and large in memory, in all places, forms and encodings
//	texts.go        6 lists without an end, 10 fields that are costly to compare, 12 texts that are long or no UTF-8
//	references.go   7 references without number, 8 bundles that are decoded and wait
//	frames.go       11 frames of HTTP/2 without end, 13 response headers
//	addresses.go    15 addresses of the hub's own machine
//
// Row 14 is about the command line, and has tests there.
//
// The rest:
//
//	hostile.go  one attack after the other
//	measure.go  what is measured meanwhile, and what must hold
//	process.go  a hub as it is seen from outside: memory, /healthz, metrics, log
//	scene.go    the tenant with its namespace, and what it registers
//	server.go   an API server that is honest but for one thing
//	bodies.go   shapes of answers
//
// What must hold: no hub ends or takes more than its limit; a hostile target costs each hub 100 MiB over the baseline
// at most, and ten of them in a namespace 300 MiB; /healthz is always 200, the heartbeat continues, the page of metrics
// stays small and valid, nothing panics, and all edits of honest targets are corrected. Two goals are about time: the
// p99 of these corrections, and how soon a new honest target is connected. They are 1.2 times the baseline, and one
// and five seconds in any case, because the hubs share their processors with the servers of everybody.
//
// Memory is the most that was resident, as the kernel accounts it; where that cannot be reset between two attacks, it
// is sampled. A hub that takes more than the limit is ended, as the kernel does it with a container.
//
// Trade-offs: an attack lasts for seconds, so what grows slowly is not found here, but by a soak; and what an attack
// cost is shown by the difference of two peaks, which has the garbage in it that was not collected yet.
package hostile
