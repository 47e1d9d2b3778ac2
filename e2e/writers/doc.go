// Package writers has end-to-end tests of the interaction between the hub and all others who write to the objects it
// keeps: the controllers of a real control plane, injectors of certificate authorities, autoscalers, and people with
// all the ways to write that an API server offers.
//
//	exceptions_test.go  what others own on purpose stays, and costs the hub nothing
//	injectors_test.go   the same for certificate authorities
//	scaling_test.go     the same for replicas and resources
//	edits_test.go       every other change is taken back, for all clients and kinds of requests
//	adoption_test.go    objects of others become the hub's without being changed
//	order_test.go       what waits for what, and what failures stop
//
// One source and one target, which has controllers, a scheduler and a node, are shared by all tests, and so is the hub.
// Each test has a namespace of its own in both.
//
// That the hub leaves something alone is not shown by waiting: a test disturbs a label of the same object and has it
// put right. The watch delivers in order, so what was written before has been judged then, and the audit log shows how
// often the hub wrote in all.
package writers
