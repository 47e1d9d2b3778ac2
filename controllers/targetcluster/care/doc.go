// Package care says how a target is by how its ManagedResources are, and keeps what passes soon from raising an alarm.
// It is pure: it reads no clock and no cluster.
//
//	ManagedResources -> RollUp -> a Check for each type of condition -> Advance -> what the condition becomes
//	nodes, probes -----------------------^
//
// # Which condition a ManagedResource counts for
//
// The one that its label care.gardener.cloud/condition-type names. Without the label, and if the label names a
// condition that the hub derives from something else, SystemComponentsHealthy for what is applied to the target, and
// ControlPlaneHealthy for what is applied to the source cluster. There are at most 10 types beside those that every
// target knows; ManagedResources of more count as if they had no label.
//
// # When a ManagedResource is healthy
//
// If its present generation is applied, ResourcesApplied and ResourcesHealthy are True, and it has not been progressing
// for longer than the configuration allows. Ignored ones are left out. So are those that are being deleted, because
// they are deleted on purpose, unless the deletion fails.
//
// # Thresholds
//
// A check that begins to fail leaves its condition the status it had, and reports the failure in the reason, until it
// has failed for as long as the threshold of its type says. What was False or Unknown before becomes False at once,
// unless the caller says that the check could not run before, and that a target is not reachable is never delayed. A
// condition that does not exist yet begins as Unknown, so that the first roll-out in a new target raises no alarm
// either.
//
// A metav1.Condition has no field for the time when a check began to fail: its transition time is about the status,
// which stays, and its message changes. So that time is in the status beside the conditions (failingChecks). It is
// written together with the reason that reports the failure, and costs no write of its own; what a hub wrote the next
// one reads, so neither a restart nor another wording of the message starts the clock again.
package care
