// Package discovery has the documents by which a server tells what it serves: discovery, aggregated and of the older form,
// and OpenAPI v3.
//
// BuiltIn are those of kube-apiserver 1.36.3, of which discovery.json is a copy; With adds what CustomResourceDefinitions
// define. A document is made when it is first asked for and kept, so that a thousand servers with the same resources send
// the same bytes. Only discovery that fails in part is made each time.
//
// OpenAPI has a schema for every kind, made of its Go type or of its definition, and a path for every resource. That is what
// clients look at: which verbs there are, how patches merge, whether fields are validated. Descriptions, parameters and
// answers are left out, and so is OpenAPI v2.
package discovery
