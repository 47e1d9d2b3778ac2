// Package kinds knows what a simulated API server serves and what a write makes of an object.
//
// It is pure: no storage, no HTTP, no clock of its own. A Registry is the set of served resources with its documents
// for discovery; BuiltIn is that of kube-apiserver 1.36.3, shared by all servers, and With adds
// CustomResourceDefinitions, once for all servers that have the same. Resource.Next computes what an object becomes by
// a create, update, patch or apply, through the main resource or status; everything may be used by any number of
// goroutines.
//
// How Next works: the body becomes an object, strictly decoded, with its defaults, by the form of its kind. Patches are
// laid on the live object first. A field manager takes note of who owns which field, or merges an applied intent. What
// the write cannot change is put back, what the server allocates is filled in, the generation is counted, the result is
// checked. A write that changes nothing but times gives the live object back. How the strategies of kube-apiserver
// differ from kind to kind is in traits.
//
// The parts, each of which can be read alone: form reads objects, with defaults for built-in kinds, and checks their
// metadata; custom does so by a CustomResourceDefinition; ownership keeps managedFields; allocation has what the server
// fills in; discovery has the documents. None of them knows this package, which puts them together.
//
// What it says is held against a real kube-apiserver by the tests: the answers to a table of writes, warnings, causes
// and managed fields included, and discovery, of which discovery/discovery.json is a copy (go test -run ServesWhat
// -update).
//
// Trade-offs, and what is left out:
//   - A built-in kind is served in its preferred version alone. Events of core and of events.k8s.io are two resources.
//   - Types and schemas are those of the libraries in go.mod, a minor version ahead of 1.36: their new fields are
//     known.
//   - Of an object of a built-in kind the metadata alone is checked: any value of the right type is taken, and fields
//     that are immutable on a real server can be changed. There is no subresource scale, and no OpenAPI.
//   - Conversion between the versions of a definition is always "None". Expressions in schemas
//     (x-kubernetes-validations) are not evaluated; types, enumerations, bounds, patterns, required fields, list types
//     and defaults are.
//   - Of the admission plugins there is what they add to pods (default tolerations, priority), but no quota, no limit
//     range, no service account, no webhook. Addresses of Services follow from the name; that two get the same is
//     unlikely, but not excluded. Node ports, selectors of Jobs and finalizers of volumes are left out.
//   - Dry run, deletion and whether a name or namespace is there are the caller's; so is a deprecation's warning.
package kinds
