package v1alpha1

// ConditionWebhooksRegistered reports whether the API server of the target calls the webhooks of the hub. A target
// without webhooks does not have this condition.
const ConditionWebhooksRegistered = "WebhooksRegistered"

// Reasons of WebhooksRegistered.
const (
	// ReasonWebhooksRegistered (WebhooksRegistered): the API server has called the hub, or policies in the target do
	// what webhooks would.
	ReasonWebhooksRegistered = "WebhooksRegistered"
	// ReasonWebhooksNotServed (WebhooksRegistered): the hub does not serve them yet.
	ReasonWebhooksNotServed = "WebhooksNotServed"
	// ReasonWebhooksUnreachable (WebhooksRegistered): the API server of the target cannot call the hub. Webhooks whose
	// failure policy is Fail are registered only after it could, once.
	ReasonWebhooksUnreachable = "WebhooksUnreachable"
	// ReasonWebhooksFailed (WebhooksRegistered): the configurations of webhooks cannot be written.
	ReasonWebhooksFailed = "WebhooksFailed"
	// ReasonWebhooksLeftBehind (WebhooksRegistered): the registration was deleted while nothing could be written to the
	// target, whose API server still calls the hub. The TargetCluster stays until a user deletes it, or registers
	// the target again.
	ReasonWebhooksLeftBehind = "WebhooksLeftBehind"
	// ReasonPoliciesNotServed (WebhooksRegistered): the mode of some webhooks is Policy, and the target does not serve
	// such policies, or the hub may not look after them. These webhooks are not registered; all others are.
	ReasonPoliciesNotServed = "PoliciesNotServed"
)

// Keys on configurations of webhooks in targets, and on what they are about.
const (
	// WebhooksLabel, "true", is on all configurations of webhooks of a hub, and on the policies in their place.
	// Deleting those with this label frees the target of its hub.
	WebhooksLabel = "webhooks.hub.gardener.cloud/managed"
	// WebhooksExcludeLabel, with any value, keeps objects from mutating webhooks of hubs, and from policies in their
	// place. The pods of the hub have it. Other pods that are needed to reach the hub should have it, too.
	WebhooksExcludeLabel = "webhooks.hub.gardener.cloud/exclude"
	// WebhooksTargetAnnotation names the target that the configuration or policy was made for.
	WebhooksTargetAnnotation = "webhooks.hub.gardener.cloud/target"
	// WebhooksHashAnnotation has a hash of the certificate authorities of a configuration, and of the key of its paths.
	WebhooksHashAnnotation = "webhooks.hub.gardener.cloud/hash"
	// WebhooksAttachedAnnotation is the UID of the cluster after its API server has proven that it can call the hub.
	WebhooksAttachedAnnotation = "webhooks.hub.gardener.cloud/attached"
)
