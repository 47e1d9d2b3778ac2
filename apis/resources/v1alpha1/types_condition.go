package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionType names a condition.
type ConditionType string

// Types of conditions on a ManagedResource.
const (
	// ConditionResourcesApplied reports whether all objects of the Secrets are applied.
	ConditionResourcesApplied ConditionType = "ResourcesApplied"
	// ConditionResourcesHealthy reports whether the objects in the target exist and are healthy.
	ConditionResourcesHealthy ConditionType = "ResourcesHealthy"
	// ConditionResourcesProgressing reports whether some object is still being rolled out. Here, False is good.
	ConditionResourcesProgressing ConditionType = "ResourcesProgressing"
	// ConditionReady sums up the three others: True if the present generation is applied, healthy and rolled out. It is
	// an addition of Trellis, so that `kubectl wait --for=condition=Ready` works.
	ConditionReady ConditionType = "Ready"
	// ConditionContested reports that another writer keeps changing objects which this ManagedResource lists, so that
	// their corrections are slowed down. It is an addition of Trellis, and absent until it happens.
	ConditionContested ConditionType = "Contested"
)

// ConditionStatus is the value of a condition.
type ConditionStatus string

// Values of a condition. Progressing is the one that metav1.Condition does not have.
const (
	ConditionTrue        ConditionStatus = "True"
	ConditionFalse       ConditionStatus = "False"
	ConditionUnknown     ConditionStatus = "Unknown"
	ConditionProgressing ConditionStatus = "Progressing"
)

// Reasons of conditions that Gardener's resource manager sets as well. Consumers compare them. In addition there are
// <Kind>Missing and <Kind>Unhealthy on ResourcesHealthy, and <Kind>Progressing on ResourcesProgressing.
const (
	// ReasonApplySucceeded (ResourcesApplied True): all objects are applied.
	ReasonApplySucceeded = "ApplySucceeded"
	// ReasonManagedResourceIgnored (all three): the ManagedResource carries IgnoreAnnotation.
	ReasonManagedResourceIgnored = "ManagedResourceIgnored"
	// ReasonApplyProgressing (ResourcesApplied Progressing): the content changed and is about to be applied.
	ReasonApplyProgressing = "ApplyProgressing"
	// ReasonDeletionPending (all three): objects are still being deleted, or the ManagedResource is.
	ReasonDeletionPending = "DeletionPending"
	// ReasonApplyFailed (ResourcesApplied False): at least one object could not be applied.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonDecodingFailed (ResourcesApplied False): some documents of the Secrets are not objects.
	ReasonDecodingFailed = "DecodingFailed"
	// ReasonCannotReadSecret (ResourcesApplied False): a Secret is missing or cannot be read.
	ReasonCannotReadSecret = "CannotReadSecret"
	// ReasonReleaseOfOrphanedResourcesFailed (ResourcesApplied False): an object that is to be ignored from now on could
	// not be released.
	ReasonReleaseOfOrphanedResourcesFailed = "ReleaseOfOrphanedResourcesFailed"
	// ReasonDeletionFailed (ResourcesApplied False): an object cannot be deleted. The hub does not use it: it reports
	// DeletionPending with the target's error, and retries.
	ReasonDeletionFailed = "DeletionFailed"
	// ReasonResourcesHealthy (ResourcesHealthy True).
	ReasonResourcesHealthy = "ResourcesHealthy"
	// ReasonResourcesRolledOut (ResourcesProgressing False).
	ReasonResourcesRolledOut = "ResourcesRolledOut"
	// ReasonChecksPending (ResourcesHealthy and ResourcesProgressing Unknown): new content was not checked yet.
	ReasonChecksPending = "ChecksPending"
	// ReasonHealthCheckError (ResourcesHealthy False): the check itself could not be run.
	ReasonHealthCheckError = "HealthCheckError"
	// ReasonConditionInitialized (any, Unknown): nothing is known yet.
	ReasonConditionInitialized = "ConditionInitialized"
	// ReasonUnspecified stands in for an empty reason.
	ReasonUnspecified = "Unspecified"
)

// Reasons that only a hub can have, because it has many targets.
const (
	// ReasonTargetNotFound: no registration serves the ManagedResource any longer.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonTargetAmbiguous: several registrations could serve it and no label picks one.
	ReasonTargetAmbiguous = "TargetAmbiguous"
	// ReasonTargetUnreachable: the target is registered and does not respond.
	ReasonTargetUnreachable = "TargetUnreachable"
	// ReasonTargetRefused: the registration's kubeconfig is one that the hub does not use.
	ReasonTargetRefused = "TargetRefused"
	// ReasonManagedElsewhere: a Gardener resource manager is responsible for the namespace. The hub reports it on the
	// TargetCluster, and does not write to ManagedResources.
	ReasonManagedElsewhere = "ManagedElsewhere"
	// ReasonInventoryTooLarge: the inventory does not fit into one object, so nothing was written.
	ReasonInventoryTooLarge = "InventoryTooLarge"
	// ReasonContentTooLarge: there are more references to Secrets, or more bytes in the Secrets, than the hub reads for
	// one ManagedResource. Nothing was written.
	ReasonContentTooLarge = "ContentTooLarge"
	// ReasonOwnedByOther: another ManagedResource lists the same object and was the last to do so, so that one owns it.
	ReasonOwnedByOther = "OwnedByOther"
	// ReasonObjectsContested (Contested True): another writer keeps changing objects.
	ReasonObjectsContested = "ObjectsContested"
	// ReasonUncontested (Contested False): that is over.
	ReasonUncontested = "Uncontested"
	// ReasonIdentityChanged: the kubeconfig leads to another cluster than before.
	ReasonIdentityChanged = "IdentityChanged"
)

// Condition is an observation of one aspect, in the form of Gardener's core API.
type Condition struct {
	// Type names the aspect.
	Type ConditionType `json:"type"`
	// Status is one of True, False, Unknown and Progressing.
	Status ConditionStatus `json:"status"`
	// LastTransitionTime is when the status changed last.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// LastUpdateTime is when the reason, the message or the codes changed last.
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
	// Reason is a word for programs.
	Reason string `json:"reason"`
	// Message is a sentence for people.
	Message string `json:"message"`
	// Codes are well-known error codes. Nothing in this project sets any.
	// +optional
	Codes []string `json:"codes,omitempty"`
}
