// Package operate has the commands that request an operation of the hub: reconcile, suspend and resume.
//
// They set and remove annotations of ManagedResources, as a user could with kubectl annotate, and then wait until the
// ManagedResource shows that the hub has done it:
//
//	reconcile   gardener.cloud/operation=reconcile      the hub removes it when it begins, and applies every object
//	suspend     resources.gardener.cloud/ignore=true    the conditions say ManagedResourceIgnored
//	resume      without it                              the conditions have other reasons again
//
// A run that changes nothing writes nothing into the ManagedResource. So a reconciliation counts as completed if the
// hub has begun, the current generation is applied, and the conditions are neither progressing nor have pending checks,
// at two consecutive polls.
package operate
