// Package pack has the commands that turn manifests into a ManagedResource with its Secrets, and back.
//
//	files -> bundle.Decode -> one document an object, sorted -> split -> [Brotli] -> Secrets + ManagedResource   pack
//	ManagedResource -> Secrets -> bundle.Decode -> documents, values of Secrets masked                      unpack
//
// Both use the decoder of the hub, so the hub can read what pack accepts, and unpack reports what the hub cannot read
// with the hub's messages. pack decodes its own result and compares it before it is used.
//
// Equal manifests give equal bytes, independent of their files and order: objects are sorted as in an inventory, and
// written with sorted keys. So a pipeline can compare, and immutable Secrets, whose names end in a hash of their
// content, get another name exactly when the content changes.
//
// Applied Secrets have the ManagedResource as their owner, so that they are deleted with it. Its UID is known only
// after it is applied, which is after them: the first time, they are applied once more. An existing Secret that was not
// packed for the ManagedResource is not overwritten, and one that another ManagedResource refers to gets no owner: it
// would be deleted although it is still in use.
//
// # Trade-offs
//
// Comments and anchors of the manifests are lost. Content that the hub would refuse for its size is refused here as
// well: a Secret holds 1 MiB, so content is split over several of them, and an inventory has to fit into the status of
// its ManagedResource.
//
// A Brotli stream is reproducible only with the same version of the library. A new version may change the bytes once,
// which is new content to the hub and is applied with the same result.
package pack
