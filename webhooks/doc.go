// Package webhooks lists the webhooks of the hub, a line each. What one is made of is in webhooks/admission; each has a
// folder below, or is a file of one: webhooks/pods has those of pods. webhooks/server serves them for all targets, and
// controllers/webhookregistration registers them there.
//
// To add one: a package with a function that returns an admission.Webhook, a field and an entry in
// apis/hub/v1alpha1 (TargetWebhooks), a line here, its rights in charts/trellis/rbac/target-webhooks.yaml and, if it
// needs nothing but the object, a policy in webhooks/policies.
package webhooks
