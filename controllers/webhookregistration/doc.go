// Package webhookregistration has the API servers of targets call the webhooks of the hub: it keeps the configurations
// of webhooks in targets as their settings say.
//
// # How it works
//
// A target has a MutatingWebhookConfiguration and a ValidatingWebhookConfiguration of the hub, under a name that no
// other hub and no other registration has. They are watched, and changes by others are reverted. API servers never call
// webhooks about configurations, so nothing can keep the hub from that.
//
// # Attaching
//
// A webhook that cannot be called, and has the failure policy Fail, stops a cluster. So a target is attached in steps:
//
//  1. The hub calls its own server by the target's path.
//  2. The configurations are written without the entries whose policy is Fail.
//  3. The hub has the target's API server call it: it creates a SelfSubjectAccessReview, which is not stored, and which
//     an entry for nothing else refuses with a message that the hub knows. That proves that the API server of the
//     target resolves, reaches and trusts the hub.
//  4. The other entries follow.
//
// Step 3 is repeated in each period, and the condition WebhooksRegistered has the result.
//
// # Policies
//
// Some webhooks need no call: webhooks/policies has admission policies that do the same. Their mode says whether a
// target gets them. A target serves them if its discovery has the kinds in admissionregistration.k8s.io/v1, and the hub
// may list them. Other targets get the webhook with the mode Auto, and nothing with the mode Policy, which the
// condition reports. If there is nothing to be called, there is no configuration, and the hub need not be reachable.
//
// When the mode changes, or a target begins to serve policies, what is new is written first. What it replaces is
// deleted in a later run, when the API server has had time to use what was written. Policies that webhooks are to
// replace stay until the API server has called the hub.
//
// # The hub's own requests
//
// Each entry with the failure policy Fail is there twice. The second one is for the user of the hub's own credential,
// with the policy Ignore and a short timeout. What the hub applies is mutated like everything else, and a hub that
// cannot be called can still repair the target. Objects with the label webhooks.hub.gardener.cloud/exclude are not
// mutated: the pods of the hub have it, which could otherwise not start without a hub.
//
// # Detaching
//
// When no webhook is switched on any longer, configurations and policies are deleted, and only then the condition:
// after a restart, it shows the hub that something has to be deleted. The server continues to answer meanwhile.
//
// If a registration is deleted, the connection is kept as long as the condition is there, for five minutes at most, and
// configurations and policies are deleted meanwhile (leaving.go). A TargetCluster that is deleted together with its
// registration takes the condition with it, so the leader remembers the targets, too (Attached). If configurations
// cannot be deleted, because the target cannot be reached or is paused, the condition and an event report it, and name
// the command that frees the target permanently (trellisctl webhooks remove). The TargetCluster stays until a user
// deletes it. The server allows what comes from such a target, so that nothing is stopped as long as there is a hub.
//
// # Trade-offs
//
// The configurations are written as a whole, by an update of the version that was read, not by server-side apply: they
// have no fields of other writers.
package webhookregistration
