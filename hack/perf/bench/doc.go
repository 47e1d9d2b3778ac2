// Package bench measures the hub on real control planes: "make bench", with flags in ARGS.
//
// It starts a source cluster and targets (etcd and kube-apiserver each) and the hub as it ships, in a process of its own,
// and measures what an operator would notice:
//
//	drift    how long an edit or delete in a target is there: from the answer to the client that did it to the moment
//	         that a watch on the target shows the object as it was; by kind, beside a client that does nothing else
//	apply    how many objects a second arrive in one target, beside bare server-side applies and bare creates of the same
//	         objects with the same number of requests in flight, and what each costs the hub
//	secret   how long a change takes from the answer of the source cluster to the object in the target
//	health   how long it takes from the answer to the client that wrote that a Deployment is unavailable, or available
//	         again, to the condition on its ManagedResource
//	rest     what the hub costs, and asks for, while nothing happens: processor time, memory beside the goal for so many targets
//	         and objects, requests
//	unprobed the same with a hub that does not probe; only if asked for
//	restart  how long the hub takes, after an orderly end, until it watches all again with nothing changed, what that costs, and
//	         what it asks for
//	memory   what one watched object takes of the heap, by the hub's own packages in this process, beside informers of
//	         client-go. It comes last, for it fills a target
//
// How it measures: latencies are taken by watches outside the hub; processor time is what the operating system accounts
// to the hub's process. The machine is shared with the servers and with the benchmark itself, so a rate counts only as
// a ratio to the bare one of the same run; rounds of all three alternate. Runs are repeated, and the median stands
// beside the worst. Nothing is asserted: a benchmark that fails when the machine is busy is of no use.
//
// What the hub asks of a target is in the audit log of the last one, which no other part uses. Writes to the others are
// counted by their API servers, for all clients together.
//
// It prints a table; everything it measured goes into the report.
package bench
