// Package kubeconfig reads registration Secrets: it finds the kubeconfig in a Secret of the Cluster API layout, refuses
// what a hub must not do on behalf of others, and yields what is needed to connect.
//
// A user who may write a Secret must not thereby run code in the hub (exec plug-ins, auth providers), read its files
// (token files, certificate paths), borrow its rights (impersonation), or lead its connections astray (skipped
// verification, unknown proxies, plain http). clientcmd offers all of that and reads files while it resolves a
// kubeconfig; this package therefore uses clientcmd only to decode, and copies the few harmless fields of the current
// context itself. Nothing is ever read from disk.
//
// Nor must a kubeconfig keep the hub busy. A kubeconfig has 64 KiB at most, and is judged before anything in it is
// expanded or computed with: it is parsed into nodes, which do not resolve aliases, and anchors, aliases, merge keys,
// tags, further documents, and too many or too deeply nested elements are faults. Only what remains is handed to
// clientcmd, as plain JSON. Keys and certificates are judged by the lengths in their DER. So the cost of a kubeconfig
// is bounded by its length.
//
// Only the current context counts: unused users and clusters are neither used nor judged, except for these bounds.
//
// Faults name the field and never quote its content, nor the message of a parser that may quote it.
package kubeconfig
