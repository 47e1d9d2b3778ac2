// Package kubeconfig reads registration Secrets: it finds the kubeconfig in a Secret of the Cluster API layout, refuses
// what a hub must not do on behalf of others, and yields what is needed to connect.
//
// Whoever may write a Secret must not thereby run code in the hub (exec plug-ins, auth providers), read its files (token
// files, certificate paths), borrow its rights (impersonation), or lead its connections astray (skipped verification,
// unknown proxies, plain http). clientcmd offers all of that and reads files while it resolves a kubeconfig; this package
// therefore uses clientcmd only to decode, and copies the few harmless fields of the current context itself. Nothing is
// ever read from disk.
//
// Only the current context counts: what stands in unused users and clusters is neither used nor judged.
//
// Faults name the field and never quote its content, nor the message of a parser that may quote it.
package kubeconfig
