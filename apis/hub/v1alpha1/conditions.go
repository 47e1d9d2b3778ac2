package v1alpha1

// Types of conditions on a TargetCluster. True is the good status of all of them but ConditionDuplicateRegistration.
const (
	// ConditionReady sums up the others. Its reason is the first root cause of what is wrong.
	ConditionReady = "Ready"
	// ConditionConnected reports whether the hub holds a connection to the target.
	ConditionConnected = "Connected"
	// ConditionCredentialsValid reports whether the registration's kubeconfig can be used and when it expires.
	ConditionCredentialsValid = "CredentialsValid"
	// ConditionAPIServerAvailable reports whether the API server answers probes.
	ConditionAPIServerAvailable = "APIServerAvailable"
	// ConditionEveryNodeReady reports whether all nodes are ready and under no pressure. A target without nodes does
	// not have this condition.
	ConditionEveryNodeReady = "EveryNodeReady"
	// ConditionHubReady reports whether the hub itself monitors the target. It is Unknown, and never False, if the hub
	// does not: then the state of the target is not known.
	ConditionHubReady = "HubReady"
	// ConditionDuplicateRegistration is True for a registration of a cluster that another registration had first, or
	// that is the source and has controllers by the configuration. Controllers in targets do not work for it, and the
	// message says which one they work for. ManagedResources are applied as usual. Absent for all others.
	ConditionDuplicateRegistration = "DuplicateRegistration"
)

// Types of conditions on a TargetCluster that sum up its ManagedResources. ManagedResources with CareConditionTypeLabel
// can bring others. A target without ManagedResources of a type does not have its condition.
const (
	// ConditionSystemComponentsHealthy sums up those that are applied to the target.
	ConditionSystemComponentsHealthy = "SystemComponentsHealthy"
	// ConditionControlPlaneHealthy sums up those of the target's namespace that are applied to the source cluster.
	ConditionControlPlaneHealthy = "ControlPlaneHealthy"
	// ConditionObservabilityComponentsHealthy sums up those with this type as CareConditionTypeLabel.
	ConditionObservabilityComponentsHealthy = "ObservabilityComponentsHealthy"
)

// Reasons of conditions that are True.
const (
	// ReasonReady (Ready): the hub does its work in the target.
	ReasonReady = "Ready"
	// ReasonDuplicateRegistration (Ready, DuplicateRegistration): the same, but another registration leads to the same
	// cluster.
	ReasonDuplicateRegistration = "DuplicateRegistration"
	// ReasonConnected (Connected).
	ReasonConnected = "Connected"
	// ReasonCredentialsAccepted (CredentialsValid): the target accepts the credential.
	ReasonCredentialsAccepted = "CredentialsAccepted"
	// ReasonCredentialsExpireSoon (CredentialsValid): the target accepts the credential, but not for long.
	ReasonCredentialsExpireSoon = "CredentialsExpireSoon"
	// ReasonHealthzRequestSucceeded (APIServerAvailable): the last probe was answered.
	ReasonHealthzRequestSucceeded = "HealthzRequestSucceeded"
	// ReasonProbeFailing (APIServerAvailable): a probe failed, but not often enough for the target to count as down.
	ReasonProbeFailing = "ProbeFailing"
	// ReasonEveryNodeReady (EveryNodeReady).
	ReasonEveryNodeReady = "EveryNodeReady"
	// ReasonNodesFailing (EveryNodeReady): nodes are not healthy, but not for as long as the threshold says.
	ReasonNodesFailing = "NodesFailing"
	// ReasonManagedResourcesHealthy (conditions that sum up ManagedResources).
	ReasonManagedResourcesHealthy = "ManagedResourcesHealthy"
	// ReasonManagedResourcesFailing (conditions that sum up ManagedResources): some are not healthy, but not for as long
	// as the threshold says. The condition has the status that it had.
	ReasonManagedResourcesFailing = "ManagedResourcesFailing"
	// ReasonHubReady (HubReady).
	ReasonHubReady = "HubReady"
)

// Reasons of conditions that are False or Unknown. Those that a connection or registration can fail with are, word for
// word, those of package clustercache.
const (
	// ReasonSecretInvalid: the registration Secret lacks the kubeconfig or has another name or type than it should.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonKubeconfigInvalid: the kubeconfig cannot be parsed or lacks something.
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
	// ReasonKubeconfigRefused: the kubeconfig would make the hub run a program, read its own files or the like.
	ReasonKubeconfigRefused = "KubeconfigRefused"
	// ReasonRegistrationQuotaExceeded: the namespace has more registrations than the hub uses of one namespace, and this
	// is one of the newest.
	ReasonRegistrationQuotaExceeded = "RegistrationQuotaExceeded"
	// ReasonIdentityChanged: the kubeconfig leads to another cluster than before, and that was not confirmed.
	ReasonIdentityChanged = "IdentityChanged"
	// ReasonUnauthorized: the target rejects the credential.
	ReasonUnauthorized = "Unauthorized"
	// ReasonForbidden: the credential may not do what the hub needs to connect.
	ReasonForbidden = "Forbidden"
	// ReasonCredentialsExpired: the certificate or token has expired.
	ReasonCredentialsExpired = "CredentialsExpired"
	// ReasonUnreachable: the target does not respond.
	ReasonUnreachable = "Unreachable"
	// ReasonProbeFailed: the target answered before and fails its probes now.
	ReasonProbeFailed = "ProbeFailed"
	// ReasonConnecting: the first attempt to connect has not ended.
	ReasonConnecting = "Connecting"
	// ReasonRegistrationGone: the Secret is gone, and the connection is used only to clean up.
	ReasonRegistrationGone = "RegistrationGone"
	// ReasonManagedElsewhere: a Gardener resource manager is responsible for the namespace, so the hub does nothing
	// there.
	ReasonManagedElsewhere = "ManagedElsewhere"
	// ReasonPaused: spec.paused is set.
	ReasonPaused = "Paused"
	// ReasonTooManyObjects: the target has more objects for the hub than it may keep in memory of one.
	ReasonTooManyObjects = "TooManyObjects"
	// ReasonNodesUnhealthy (EveryNodeReady): at least one node is not ready or under pressure.
	ReasonNodesUnhealthy = "NodesUnhealthy"
	// ReasonNodesUnknown (EveryNodeReady): the nodes could not be listed.
	ReasonNodesUnknown = "NodesUnknown"
	// ReasonNotProbed: there is no connection for the check.
	ReasonNotProbed = "NotProbed"
	// ReasonManagedResourcesUnhealthy (conditions that sum up ManagedResources): at least one is not healthy.
	ReasonManagedResourcesUnhealthy = "ManagedResourcesUnhealthy"
	// ReasonManagedResourcesUnknown (conditions that sum up ManagedResources): the health of at least one is not known.
	ReasonManagedResourcesUnknown = "ManagedResourcesUnknown"
	// ReasonTargetUnreachable (HubReady, conditions that sum up ManagedResources): the hub works and does not reach the
	// target.
	ReasonTargetUnreachable = "TargetUnreachable"
	// ReasonTargetStatusUnknown (HubReady): the hub itself stopped monitoring the target.
	ReasonTargetStatusUnknown = "TargetStatusUnknown"
	// ReasonStatusUnknown: the hub has not monitored the target for so long that its last known state is outdated.
	ReasonStatusUnknown = "StatusUnknown"
)
