// Package admission has what webhooks of the hub are made of: what a handler is asked, what it may look at and what it
// answers, how it is registered in targets, and how objects become patches.
//
// # How it works
//
// A Handler is a function of a request, the settings of the target that asks, and the State of that target. It reads
// nothing else and changes nothing, so a request that is only tried out (dryRun) is answered like any other. The server
// (webhooks/server) decides which target asks and gives a Request that can reach only this one.
//
// Mutate makes a Handler of a function that changes an object of a compiled type. The patch is the difference between
// the object as it was decoded and as it is afterwards. So it is minimal, and fields that the type does not know are
// neither seen nor removed.
//
// A Webhook is a Handler with its name, its path and the entries of the configurations that targets get for it
// (controllers/webhookregistration). Selectors and match conditions spare calls that would change nothing.
//
// Combined makes one Webhook of several of pods, so that a pod takes one call for all of them: it is decoded once, the
// functions of all change it, and there is one patch. The object selectors of each are evaluated here, since the API
// server evaluates those of the combined entry only. The path has the members, and the scope that their selectors
// depend on, as they were registered (HUB-22).
//
// # Errors
//
// A handler distinguishes what it refuses (Response.Denied) from what failed (an error). For the latter, the server
// looks at the failure policy: it answers so that the API server continues without the webhook, or refuses the request.
//
// # Trade-offs
//
// Objects are decoded into compiled types, and compared as values of these by reflection (values.go), without being
// encoded. Only if something has changed, the document is decoded once more, without a type: it says which fields are
// there that the type does not know, or that it always has. Elements of lists that move keep fields that the type does
// not know, if they have a name or the like by which they are found. A patch that addresses elements of lists by their
// index fits because the API server applies it to the object that it has sent.
package admission
