// Command publish pushes the image and the chart of a build to a registry, and signs both if it has a key. "make
// publish" runs it after "make image".
//
//	go -C hack/image run ./publish -registry registry.example.com/trellis -key cosign.key
//
// # How it works
//
// The image is the OCI layout that "make image" made, for all of its architectures: REGISTRY/trellis:VERSION. The
// chart is pushed as Helm does it, REGISTRY/charts/trellis:VERSION, so that "helm install oci://..." finds it. Its
// values name the image that was just pushed, by its digest: an installation from there gets this image.
//
// A signature is what "cosign sign" makes of a key: a manifest beside the signed one, whose tag is the digest and
// .sig. Its only layer says which digest is meant, and an annotation has the ECDSA signature of that text. "cosign
// verify --key" reads it. Keys are those of "cosign generate-key-pair", with their password in COSIGN_PASSWORD, or
// plain ones in PEM. Nothing is written to a transparency log.
//
// Credentials are those of "docker login" or "podman login". Plain HTTP is spoken to loopback and private addresses
// only, if they do not have HTTPS.
//
// # Trade-offs
//
// Cosign itself would bring several hundred modules for what is a page of code here. Keyless signatures need its
// services, which a build without a network has not.
package main
