// Package health answers two questions about a live object: is it healthy, and is it still rolling out?
//
// Check decides the condition ResourcesHealthy, Progress the condition ResourcesProgressing. Both are pure functions of
// the object's content; nothing is read from a cluster and nothing is remembered. Only workloads need more than the
// object: a Deployment is rolled out when exactly the wanted number of pods is left, which PodsRolledOut decides, and
// why a workload is not well, its pods know best, which Explain puts into words.
//
//	watch -> Check, Progress, PodOf -> what they say is kept, the object is not
//
// There are three sorts of kinds:
//
//   - Those with criteria of their own (kinds.go lists them), in every version.
//   - Those that kube-apiserver serves itself, beside these: they are well if they exist, as with Gardener's resource
//     manager. Only these can be watched as metadata (NeedsFullObject).
//   - All others, which are custom resources and what aggregated API servers serve: the convention known as kstatus
//     (generic.go). Objects that do not follow it are well if they exist.
//
// The convention, in our reading: Stalled=True is unhealthy, and nothing more will happen; Ready=False and
// Ready=Unknown are unhealthy, the latter is progress as well, as is Reconciling=True. A status that is about an
// earlier generation than the present one says nothing about this one: the object is unhealthy until it does, and
// progressing, as a Deployment is. The same is true of a condition with an observedGeneration of its own. An object
// that is being deleted is progressing.
//
// # Trade-offs
//
// The checks work on unstructured content instead of Go types. They read at most a dozen fields, and a converted typed
// object would cost more memory and time than it gives safety: a field that is absent or of the wrong type counts as
// its zero value, as it would in the typed object.
//
// Nothing of the object is kept for the checks, neither trimmed nor whole: they run when an event comes, and their
// result, a few bounded texts, is all there is to compare and to report.
//
// The convention is these few lines and no library. The one that gave it the name (package kstatus of cli-utils)
// answers one question where we have two, and so cannot say that something is broken but being worked at; it takes
// Ready=False for progress, lets the order of conditions decide between Reconciling and Stalled, does not know
// observedGeneration of conditions, brings its own criteria for built-in kinds, one of which needs a clock, and comes
// with kubectl in its module graph.
//
// A custom resource definition without the status subresource counts a generation for each write of a status, so a
// controller that notes the generation it has seen never catches up. Such objects need the annotation
// skip-health-check.
package health
