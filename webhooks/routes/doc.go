// Package routes has the URLs by which targets call webhooks of the hub, and finds out from a URL which target calls.
//
// # How it works
//
// The path of a call is
//
//	/<namespace of the registration>/<its name>/<UID of the cluster>.<code>/<webhook>[/ignore]
//
// with no.namespace as the namespace of the source cluster. All parts are DNS subdomains: API servers accept nothing
// else in the path of a Service. The code is an HMAC-SHA256 over the first three, with a key that only replicas of the
// hub have. It proves that the hub itself has made the path, for this registration and this cluster: no state is needed
// to verify it, so a target is recognised by a replica that has just started, and even after its registration is gone.
// A path that ends with /ignore is that of an entry whose failure policy is Ignore; the server
// has to answer differently there if something fails.
//
// A path without a code, /<namespace>/<name>/<UID>/<webhook>, is for callers that prove with a client certificate which
// cluster they are of. It stays the same when keys are exchanged, so it can be in a file that is never renewed.
//
// # Trade-offs
//
// The path is not a strong secret. An API server shows it in messages about calls that have failed, and who may read
// configurations of webhooks in the target can read it there. It proves less than a client certificate would. What an
// answer reveals is only what the target has anyway. Keys are exchanged with the certificate authority (package
// certificates).
package routes
