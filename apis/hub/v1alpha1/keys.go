package v1alpha1

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// ClusterNameLabel, on a Secret, makes it a registration (together with the Secret's name and type); its value is the
	// name of the target. On a ManagedResource it picks one of several targets of the namespace. The label is that of
	// Cluster API, so that the kubeconfig Secrets of Cluster API are registrations as they are.
	ClusterNameLabel = clusterv1.ClusterNameLabel
	// ClassLabel, on a registration Secret, makes the target serve the ManagedResources of this class. Absent means the
	// default class. It is not the label resources.gardener.cloud/class, which on Secrets belongs to the token
	// requestor.
	ClassLabel = "hub.gardener.cloud/class"
	// ConfirmIdentityAnnotation, on a registration Secret, confirms that the target is now the cluster with this
	// kube-system UID, although it was another one before.
	ConfirmIdentityAnnotation = "hub.gardener.cloud/confirm-identity"

	// ConfirmDeletionAnnotation, "true" on a TargetCluster or a registration Secret, confirms its deletion. The chart's
	// admission policies require it from users.
	ConfirmDeletionAnnotation = "confirmation.gardener.cloud/deletion"

	// HibernatedAnnotation, truthy on a TargetCluster, says that the cluster is hibernated: it is not probed, there are
	// no alerts, and its conditions do not change.
	HibernatedAnnotation = "hub.gardener.cloud/hibernated"

	// RegistrationAnnotation, on a TargetCluster that the hub made, is the name of the registration Secret that it was
	// made for. One without it was made by a user in advance, and stays when there is no registration.
	RegistrationAnnotation = "hub.gardener.cloud/registration"

	// StatusLabel, on a TargetCluster, sums up its conditions: the worst of healthy, progressing, unknown, unhealthy.
	StatusLabel = "hub.gardener.cloud/status"

	// CareConditionTypeLabel, on a ManagedResource, is the type of the TargetCluster's condition that it counts for. The
	// label is Gardener's.
	CareConditionTypeLabel = "care.gardener.cloud/condition-type"

	// TargetUIDAnnotation, on a ManagedResource, is the UID of the cluster that its inventory belongs to. Objects are
	// never deleted in another one. The hub also recognizes its own ManagedResources by it.
	TargetUIDAnnotation = "hub.gardener.cloud/target-uid"
	// AppliedAnnotation, on a ManagedResource, says what was applied completely: the versions of its Secrets and a
	// digest of its objects. While that matches, nothing is sent. Without it everything is only applied once more.
	AppliedAnnotation = "hub.gardener.cloud/applied"
	// VersionAnnotation, on the Lease of the heartbeat, is the version of the hub that leads.
	VersionAnnotation = "hub.gardener.cloud/version"
	// RegistrationSelectorAnnotation, on the Lease of the heartbeat, is the selector of registrations
	// (clusterCache.registrationSelector) of the hub that leads, as text. Missing: all registrations.
	RegistrationSelectorAnnotation = "hub.gardener.cloud/registration-selector"
)

// Values of StatusLabel, from good to bad.
const (
	// StatusHealthy: every condition is True.
	StatusHealthy = "healthy"
	// StatusProgressing: every condition is True, but a check fails, for less than its threshold.
	StatusProgressing = "progressing"
	// StatusUnknown: a condition is Unknown.
	StatusUnknown = "unknown"
	// StatusUnhealthy: a condition is False.
	StatusUnhealthy = "unhealthy"
)

// FieldManager is the name under which the hub owns fields of the objects it applies.
const FieldManager = "trellis"
