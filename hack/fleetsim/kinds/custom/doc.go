// Package custom makes a CustomResourceDefinition ready to be served.
//
// New reads a definition. Of each served version there are then what discovery says of it, its OpenAPI schema, where its
// replicas are, and a Form, which prunes, fills and checks objects by the structural schema, with the libraries that
// kube-apiserver has for that. A definition is read only: servers share it, as reading a large one takes long.
//
// Trade-offs: versions differ in name only, conversion is "None". Expressions (x-kubernetes-validations) are not evaluated.
// Defaults are filled in by a walk of its own, since the library's belongs to a module that this one cannot do with.
package custom
