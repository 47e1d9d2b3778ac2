// Package policies has admission policies that an API server evaluates itself, in the place of webhooks of the hub that
// need no state: the seccomp profile, the scheduler and the API server's host of pods, hints of EndpointSlices, the
// mode of vertical pod autoscalers, and the protection against deletion. A policy needs no network, and no hub that
// runs.
//
// # How it works
//
// Of makes the policies of a webhook from the webhook itself: rules, selectors, conditions and the failure policy are
// those of its entries, so that both are for the same objects. What it does to them is written in CEL here, as JSON
// patches or as a validation. Each policy comes with its binding. Values of the settings become literals of the
// expressions, so there are no parameters that would have to be there. WayOf says which of both a target gets;
// controllers/webhookregistration writes the policies there.
//
// Tests send the same objects through the handlers and through the policies of a real API server, and compare.
//
// # Trade-offs
//
// JSON patches rather than apply configurations: those refuse objects with two variables of one name in a container,
// which API servers accept and handlers leave alone.
//
// API servers bound what an expression may cost. A pod with some thousand containers or variables exceeds it, and is
// then treated by the failure policy, as if a webhook had failed.
//
// Deletion protection is the same but for collections: each object counts for itself, so that some may be deleted while
// others are refused.
//
// The API is admissionregistration.k8s.io/v1, which has mutating policies since Kubernetes 1.36, and validating ones
// since 1.30. Functions of CEL that are used exist since 1.34; those of the validating policies are older.
package policies
