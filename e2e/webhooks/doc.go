// Package webhooks has the end-to-end tests of webhooks under load: pods are created in two targets whose API servers
// call the hub, and refuse a pod if they cannot. Meanwhile replicas of the hub are replaced, and what calls are secured
// with is renewed. Not one pod may be refused.
//
// The replicas are processes. The API servers reach them by one address, as by a Service: a proxy in the test passes
// each new connection on to a replica that is ready, and knows nothing of what is sent.
package webhooks
