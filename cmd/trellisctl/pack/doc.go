// Package pack has the commands that turn manifests into a ManagedResource with its Secrets, and back.
//
//	files -> bundle.Decode -> one document an object, sorted -> split -> [Brotli] -> Secrets + ManagedResource   pack
//	ManagedResource -> Secrets -> bundle.Decode -> documents, values of Secrets masked                      unpack
//
// Both read with the decoder of the hub, so what pack accepts the hub can read, and what the hub cannot read unpack names in the
// hub's words. pack decodes its own result once more and compares, before it gives it away.
//
// Equal manifests give equal bytes, whatever files they come from and in whatever order: objects are sorted as in an inventory,
// and written with sorted keys. So a pipeline can compare, and immutable Secrets, whose names end in a hash of their content,
// get another name exactly when the content changes.
//
// Applied Secrets have the ManagedResource as their owner, so that they go with it. It gets its UID only when it is
// applied, after them: the first time, they are applied once more. A Secret that exists and was not packed for the
// ManagedResource is refused, and one that another ManagedResource refers to gets no owner: it would be lost to that
// one.
//
// # Trade-offs
//
// Comments and anchors of the manifests are lost. What the hub would refuse for its size is refused here: a Secret holds 1 MiB,
// so content is split over several of them, and an inventory has to fit into the status of its ManagedResource.
//
// A Brotli stream is the same for the same version of the library only. A new one may change the bytes once, which the hub takes for
// new content and applies with the same result.
package pack
