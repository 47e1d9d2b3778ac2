// Package discovery has the documents in which a server lists what it serves: discovery, aggregated and of
// the older form.
//
// BuiltIn are those of kube-apiserver 1.36.3, of which discovery.json is a copy; With adds what
// CustomResourceDefinitions define. A document is made when it is first asked for and kept, so that a thousand servers
// with the same resources send the same bytes. Only discovery that fails in part is made each time.
package discovery
