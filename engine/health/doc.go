// Package health answers two questions about a live object: is it healthy, and is it still rolling out?
//
// Check decides the condition ResourcesHealthy, Progress the condition ResourcesProgressing. Both are pure functions of
// the object's content; nothing is read from a cluster and nothing is remembered. Only workloads need more than the
// object: a Deployment is rolled out when exactly the wanted number of pods is left, which PodsRolledOut decides, and
// Explain finds the cause of an unhealthy workload in the status of its pods.
//
//	watch -> Check, Progress, PodOf -> their results are kept, the object is not
//
// There are three sorts of kinds:
//
//   - Those with criteria of their own (kinds.go lists them), in every version.
//   - Other kinds that kube-apiserver serves itself: they are healthy if they exist, as for Gardener's resource
//     manager. Only these can be watched as metadata (NeedsFullObject).
//   - All others, which are custom resources and what aggregated API servers serve: the convention known as kstatus
//     (generic.go). Objects that do not follow it are healthy if they exist.
//
// Our interpretation of the convention: Stalled=True is unhealthy and final. Ready=False and Ready=Unknown are
// unhealthy; Ready=Unknown and Reconciling=True are progressing. If the status is about an earlier generation, the
// object is unhealthy and progressing, like a Deployment. The same holds for a condition with an observedGeneration of
// its own. An object that is being deleted is progressing.
//
// # Trade-offs
//
// The checks work on unstructured content instead of Go types. They read at most a dozen fields, and a converted typed
// object would cost more memory and time than it gives safety: a field that is absent or of the wrong type counts as
// its zero value, as it would in the typed object.
//
// The object is not kept in memory for the checks: they run when an event comes, and only their result is kept, which
// is a few bounded texts.
//
// The convention is implemented here instead of using a library. The package kstatus of cli-utils, which gave it its
// name, answers one question instead of two, so that it cannot say that something is broken and progressing. It treats
// Ready=False as progress, lets the order of conditions decide between Reconciling and Stalled, ignores
// observedGeneration of conditions, has its own criteria for built-in kinds, one of which needs a clock, and has
// kubectl in its module graph.
//
// Without the status subresource, each write of the status of a custom resource increments its generation, so a
// controller that records the observed generation never catches up. Such objects need the annotation skip-health-check.
package health
