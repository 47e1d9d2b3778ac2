// Package server serves the webhooks of the hub to the API servers of all targets, over HTTPS.
//
// # How it works
//
// A request is admitted in steps, and the first that it does not pass ends it. The path has to be one that the hub made
// (package routes): that is how it is known which target asks. A client certificate, and a name of a host, have to agree
// with it, if there are any. The address of the caller is never looked at. Then there have to be a place among the
// requests of the target, and in its rate, and a place among those of all targets, and room in memory for the body. Only
// then is the body read, within bounds of its size, its nesting and the number of its values.
//
// The handler of the webhook gets the settings of the target and a State that can reach no other (package admission). It
// has the time that the API server waits, less a tenth.
//
// # What is answered
//
// API servers look at the failure policy of a webhook only if there is no usable answer. So what failed in the hub is
// answered by HTTP status 500 where the policy is Ignore, which the path tells, and the object goes on as it is. Where
// it is Fail, the object is refused with a reason for people: the status of the API that the error wraps, or 403; 500
// after a panic. State that is not known is no answer either way (503), for nobody should guess. So are too many
// requests of one target (429), and of all (503).
//
// A call that should not come, because the webhook is switched off for the target, or the target is not registered any
// more, is allowed unchanged: the configuration that it comes from is left over, and must not stop a cluster that the
// hub does not care for any more. For the latter, the answer has a warning.
//
// # The end
//
// When the context ends, Ready fails at once, but calls are served as before until everybody has noticed. Then the
// connections are closed, each after its last answer.
//
// # Trade-offs
//
// All targets share the process. Limits of single targets are well below those of all, so that it takes many hostile
// ones to use up what all share, and then the failure policies decide.
package server
