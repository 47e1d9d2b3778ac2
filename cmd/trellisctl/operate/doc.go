// Package operate has the commands that ask the hub for something: reconcile, suspend and resume.
//
// They set and remove annotations of ManagedResources, the same ones that a person would with kubectl annotate, and then wait until
// the ManagedResource shows that the hub has done it:
//
//	reconcile   gardener.cloud/operation=reconcile      the hub removes it when it begins, and applies every object
//	suspend     resources.gardener.cloud/ignore=true    the conditions say ManagedResourceIgnored
//	resume      without it                              they say something else again
//
// A run that changes nothing writes nothing into the ManagedResource. So the end of a reconciliation is told from what there is: the
// hub has begun, the present generation is applied, and the conditions claim neither to be in the middle of it nor that checks
// are pending, at two looks in a row.
package operate
