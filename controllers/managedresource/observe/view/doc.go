// Package view collects what the watches show of the objects of a ManagedResource, for its conditions.
//
//	tracker: how good the watches are, what they show   --+
//	health:  what the pods of a workload explain        --+-> View -> conditions
//	warnings: what the cloud says of a load balancer    --+
//
// An object is judged if its watch shows it as it was written last, or later. Otherwise the View says why its state is
// unknown, or that it does not exist. A kind that the target does not serve has no objects; but one whose object was
// just applied is served, even if its watch failed before, so the watch gets some time.
package view
