// Package manifest encodes manifests for the targets they go to.
//
// A manifest that is applied to 500 targets is sent with 500 different origins, which stand in an annotation, and
// hardly anything else differs. A Text therefore keeps how each field of a manifest is written in JSON. An object that
// was made of the manifest by replacing some of its fields is encoded by encoding these, and copying the rest.
//
// Trade-offs: only fields at the top are told apart. The whole spec of a Deployment is encoded for each target, since
// its template is given labels; such objects are few. And what is the same is told by where it is in memory, not by
// what is in it, so an object must share what it has in common with its manifest: copy before you write, and copy no
// more than you write.
package manifest
