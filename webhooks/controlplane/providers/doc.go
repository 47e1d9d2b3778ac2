// Package providers lists the providers of infrastructure that the hub was built with. One that is to be served by the
// hub is added to the list, with a line of its own; which of them are wanted in a cluster, the settings of that say
// (webhooks.controlPlanes.providers).
//
// # Trade-offs
//
// Providers are compiled in. The hub has the rights of its registrations in every target, so what runs in it is chosen
// when it is built, and not loaded. A provider that is not to be trusted that far serves its webhooks itself
// (controlplane.Webhook.Configuration).
package providers
