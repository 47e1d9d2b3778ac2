// Package certificates has what calls of targets are secured with: the certificate authority that they trust, the
// certificate of the server, and the key by which the server recognises the paths of calls (package routes).
//
// # How it works
//
// All of that is in one Secret of the hub's namespace. Every replica reads it again and again (Store.Follow), so that
// all of them serve what is new within seconds, without a restart. The first replica makes the Secret. Later only the
// leader changes it (Store.Rotate).
//
// An authority, with its certificate for the server and its key, is a generation. It is valid for 30 days, and after 20
// the next one is made. The order of what follows matters, because a target that does not trust the server cannot call
// it:
//
//	publishing  the bundle has both authorities, and goes to all targets; the server has the former certificate
//	overlap     all targets have that bundle: the server has the new certificate, and new paths have the new key
//	            for at least a day, and until all targets have the new paths: then only the new generation is left
//
// Paths of both generations are accepted meanwhile. A target that cannot be reached keeps the former certificate in
// use, until a day before it expires, and the former key, until then. It is registered again when it can be reached.
//
// With a Secret of another program, such as cert-manager, the certificate and the bundle are those of that Secret, and
// only the key is the hub's own. It is not renewed then. To renew it, delete the hub's Secret: calls fail until all
// targets are registered again.
//
// The authorities of client certificates are in another Secret, which another program writes
// (Options.Clients). It is read as often.
//
// # Trade-offs
//
// The leader knows whether all targets have a bundle only after it has looked at each of them. A new leader waits for
// that, which delays a step. That is harmless: there are ten days for all steps.
package certificates
