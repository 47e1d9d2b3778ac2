// Command image assembles the container image of the hub without a container engine, for amd64 and arm64, and proves that what is
// in it starts. "make image" calls it in the root of the repository.
//
//	image -out DIRECTORY -licences FILE [-repository NAME]
//
// # How it works
//
// The image has one layer: the static binary, the certificate authorities of Mozilla, a user, and the licences of what is
// compiled in. Both architectures are in one index, which is written as an OCI layout (DIRECTORY/oci) and as a tarball of that. The
// tarball has the manifest.json of "docker save" in it, too: containerd, podman, skopeo and a Docker with containerd's image
// store read the index; any other Docker loads both images, with the architecture at the end of their tags.
//
// Then the tarball is read again, in both ways, and every digest is computed again. The layer of this machine's
// architecture is unpacked, and its binary runs with that folder as its root, if this process may do that, as the
// image's user; of the others the ELF header must be that of a static executable for their architecture. An image that
// is too large fails, and so does one that anything else is wrong with.
//
// # Trade-offs
//
// Every time stamp is that of the commit, no file comes from this machine, and variables of the environment for
// processors and experiments are ignored, so that the digest of the image is the same wherever the same Go builds the
// same commit. The certificate authorities are those of golang.org/x/crypto/x509roots, a Go module that is pinned in
// go.mod; roots that Mozilla trusts only with conditions are left out, because a file cannot say these.
//
// It is a module of its own, so that the hub is not compiled with what only its image needs.
package main
