// Package manifest encodes manifests for the targets they go to.
//
// A manifest that is applied to 500 targets is sent with 500 different origin annotations, and hardly anything else
// differs. A Text therefore caches the JSON of each top-level field of a manifest. An object that was made from the
// manifest by replacing some fields is encoded by encoding these and copying the rest.
//
// Trade-offs: only top-level fields are cached. The whole spec of a Deployment is encoded for each target, since labels
// are added to its pod template; such objects are few. Whether a field is unchanged is decided by its address in
// memory, not by its content, so an object must share unchanged fields with its manifest: copy before you write, and
// copy only what you write.
package manifest
