// Package chart is the hub's Helm chart, and hands its CRDs and rights to Go programs, so that the demo and the tests run
// with exactly those that an installation has.
//
// # How it works
//
// Each right is written down once, in rbac/, as the bare rules of a role: the chart's templates put names and labels
// around them, and so does HubIdentity; so it is with the policies of admission/ and DeletionGuard. The CRDs are generated
// from the types in apis/ by hack/generate.sh, as are README.md from values.yaml and the part of values.schema.json about the
// configuration from its types (hack/chart).
//
// The rights are those that the configured classes need. Which namespaces' Secrets that are is summed up twice: here in the
// templates, and in the hub by SecretNamespaces of apis/config/v1alpha1. Tests hold one against the other.
//
// # Trade-offs
//
// The CRDs are templates, not in the folder crds/ that Helm has for them: Helm 3 never changes what is there already, but Helm 4
// applies its own over it. That of ManagedResources must not be changed where it exists: in most source clusters Gardener
// brought its own, which its producers rely on, and the hub needs nothing that is not in it. So the template looks first. That
// of TargetClusters belongs to the hub and is upgraded with it. An annotation keeps Helm from deleting them, and with them all
// that is defined by them, on uninstallation.
//
// Deletions are guarded by policies that the API server evaluates itself, not by a webhook: there is no server that could be
// down, and nothing to serve. They see what the hub wrote into the status of a TargetCluster, which may be half a minute old.
//
// What Kubernetes would refuse only later, when the installation seems to have succeeded, is refused at the
// installation: a PriorityClass that does not exist, and several replicas without a leader election.
//
// The names of the objects do not follow from that of the release: a source cluster has one hub, made of as many
// replicas as one likes. A second one, with other classes, gets names of its own by fullnameOverride.
package chart
