// Package care reports what can do harm to a target although it works at present, as constraints of its TargetCluster:
// webhooks that can stop it, certificate authorities that expire within a year, and CustomResourceDefinitions with a
// conversion webhook whose objects may be stored in several versions. Where it is switched on, webhooks are changed.
//
// # How it works
//
// In each period a target is looked at once. Nothing is watched: configurations of webhooks are listed live and in
// pages. CustomResourceDefinitions are listed by their metadata, and those are read whole, one at a time, of which no
// version is known yet to be harmless. A hash of each harmless version is all that is kept of them.
//
// A webhook is judged by a table of resources without which a cluster does not live (judge.go): by its rules, its
// selectors and the labels that kube-system has in the target. Conditions in CEL (matchConditions) are not evaluated; a
// webhook with some counts as one without.
//
// Certificate authorities are those of the registration, and those that the target has in kube-system. ConfigMaps that
// do not exist or may not be read are left out.
//
// # Who writes what
//
// The status of a TargetCluster has two writers. The constraints are written here and only here, all other fields by
// package targetcluster; both patch nothing else than theirs, and only the version that they have read. A status is
// written only if a constraint says something else than before, so a fleet at rest costs no write.
//
// A target without a TargetCluster is the source, which is configured by its class only, and one whose TargetCluster is
// about to be made. What is found out about the source is logged when it changes, and it counts in the metrics. The
// other one is looked at again after a period.
//
// For targets in which the controller does not work there is a sweep in memory: constraints go where the controller is
// switched off, the target paused included, and become Unknown when a target has been away for five minutes. A
// hibernated target keeps them.
//
// # Remedies
//
// A webhook that is called too long gets a shorter timeout. One that fails requests in kube-system and the like does
// not apply to these namespaces any longer. Only if it fails requests for what is in no namespace, which cannot be
// excluded, its failure policy becomes Ignore. An annotation on the configuration and an event say what was changed.
// Configurations that another client changes back are changed less and less often.
//
// To do so weakens whatever the webhook is there for. It is off by default: a hub does not own its targets.
//
// # Trade-offs
//
// A webhook whose object selector asks for labels that objects of a system do not have does not count, although a user
// could label such an object. Otherwise all sidecar injectors would be reported.
//
// What could not be found out is Unknown if it will not go away by itself, as missing rights. Other errors are tried
// again, and what was known stays meanwhile.
//
// # Rights
//
// In the target: mutatingwebhookconfigurations and validatingwebhookconfigurations of admissionregistration.k8s.io
// list, and patch for remedies; customresourcedefinitions.apiextensions.k8s.io get and list; namespaces get
// (kube-system); configmaps get in kube-system (kube-root-ca.crt, extension-apiserver-authentication). In the source:
// targetclusters.hub.gardener.cloud get, list and watch, and targetclusters/status patch, all of which the hub has.
package care
