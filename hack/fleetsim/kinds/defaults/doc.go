// Package defaults fills in what kube-apiserver fills in where a client leaves a field of a built-in kind empty.
//
// It is a table of functions by Go type. Set walks an object and calls the function of every type it meets, outer ones
// first, as kube-apiserver does. What a walk of a type can find is looked up once. The table has the kinds that a bundle for
// a cluster has; other kinds are left as they are.
//
// Two things are done here as well that kube-apiserver does when it converts between versions: stringData of a Secret moves
// into its data, and the older name of a pod's service account follows the newer one.
package defaults
