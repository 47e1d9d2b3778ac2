// Package server serves the webhooks of the hub to the API servers of all targets, over HTTPS.
//
// # How it works
//
// A request is admitted in steps, and the first that fails ends it. The path has to be one that the hub made (package
// routes): it identifies the target that asks. A client certificate and the name of the host, if there are any, have to
// agree with it. The address of the caller is never looked at. Then the limits follow: requests in flight and rate of
// the target, the bytes that it sends in a second, requests in flight of all targets, and memory for the body. Only
// then is the body read, within bounds of its size, its nesting and the number of its values.
//
// The handler of the webhook gets the settings of the target and a State that can reach no other (package admission).
// It has the time that the API server waits, less a tenth.
//
// # What is answered
//
// API servers look at the failure policy of a webhook only if there is no usable answer. So what failed in the hub is
// answered by HTTP status 500 where the policy is Ignore, which the path contains, and the object is admitted as it is.
// Where it is Fail, the object is refused with a reason for people: the status of the API that the error wraps, or 403;
// 500 after a panic. If the state of the target is not known, there is no usable answer with either policy (503), since
// a guess could be wrong. The same holds for too many requests of one target (429), and of all (503).
//
// A call that should not come, because the webhook is switched off for the target, or the target is no longer
// registered, is allowed unchanged: the configuration that it comes from is left over, and must not stop a cluster that
// the hub no longer looks after. If the target is not registered, the answer has a warning.
//
// # The end
//
// When the context ends, Ready fails at once, but calls are served as before until callers have noticed. Each answer
// asks the caller to close its connection, so that by then hardly any is left. The rest are closed, each after its last
// answer.
//
// # Trade-offs
//
// All targets share the process. The limits of one target are well below those of all, so that it takes many hostile
// targets to use up what all share. Then the failure policies decide.
package server
