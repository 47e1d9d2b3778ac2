// Package webhookregistration has the API servers of targets call the webhooks of the hub: it keeps the configurations
// of webhooks in targets as their settings say.
//
// # How it works
//
// A target has a MutatingWebhookConfiguration and a ValidatingWebhookConfiguration of the hub, under a name that no other
// hub and no other registration has. They are watched, and what others change in them is undone. API servers never call
// webhooks about configurations, so nothing can keep the hub from that.
//
// # Attaching
//
// A webhook that cannot be called, and has the failure policy Fail, stops a cluster. So a target is attached in steps:
//
//  1. The hub calls its own server by the target's path.
//  2. The configurations are written without the entries whose policy is Fail.
//  3. The hub has the target's API server call it: it creates a SelfSubjectAccessReview, which is stored nowhere, and
//     which an entry for nothing else refuses with a word that the hub knows. So it is the API server of the target that
//     proves that it resolves, reaches and trusts the hub.
//  4. The other entries follow.
//
// Step 3 is repeated in each period, and the condition WebhooksRegistered says what came of it.
//
// # The hub's own requests
//
// Each entry with the policy Fail is there twice: for the user of the hub's own credential it is another one, with the
// policy Ignore and a short timeout. What the hub applies is mutated like everything else, and a hub that cannot be
// called can still repair the target. What has the label webhooks.hub.gardener.cloud/exclude is not mutated at all: the
// pods of the hub have it, which would otherwise not start without a hub.
//
// # Detaching
//
// When no webhook is switched on any more, the configurations are deleted, and only then the condition, by which a hub
// knows after a restart, too, that there is something to be deleted. The server goes on answering meanwhile.
//
// If a registration is deleted, the connection is kept as long as the condition is there (StillNeeded), for five
// minutes at most, and the configurations are deleted meanwhile (leaving.go). If that fails, because the target
// cannot be reached or is paused, the condition and an event say so, and name the command that frees the target for
// good (trellisctl webhooks remove). The TargetCluster stays until somebody deletes it. The server allows what comes
// from such a target, so that nothing is stopped as long as there is a hub.
//
// # Trade-offs
//
// The configurations are written as a whole, by an update of the version that was read, not by server-side apply: nothing
// in them belongs to anybody else.
package webhookregistration
