package v1alpha1

import "strconv"

// Keys on a ManagedResource, read in the source cluster.
const (
	// OperationAnnotation requests an operation once; its values are the Operation constants, compared exactly.
	OperationAnnotation = "gardener.cloud/operation"
	// OperationReconcile requests a reconciliation now. The annotation is removed when it begins.
	OperationReconcile = "reconcile"
	// OperationRestore says that the ManagedResource is being restored in another source cluster.
	OperationRestore = "restore"
	// OperationMigrate says that the ManagedResource is about to move to another source cluster.
	OperationMigrate = "migrate"
	// OperationWaitForState says that the state is not complete yet: nothing is reconciled until the annotation changes.
	OperationWaitForState = "wait-for-state"

	// ForceDeletionAnnotation, truthy on a ManagedResource that is being deleted, gives up on a target that does not
	// respond, and on objects of an aggregated API that does not: the ManagedResource is deleted and its objects stay.
	ForceDeletionAnnotation = "confirmation.gardener.cloud/force-deletion"
)

// Keys on managed objects and partly on ManagedResources. Each comment says which form of the object it is read from,
// because a key that is only in the manifest, or only in the live object, often intentionally has no effect. "Truthy"
// is IsTruthy; "exactly" is a comparison of strings.
const (
	// ManagedByLabel is written on every object and its templates; drift watches select by it. The value comes from the
	// configuration.
	ManagedByLabel = "resources.gardener.cloud/managed-by"
	// ManagedByDefault is the value of ManagedByLabel unless configured otherwise.
	ManagedByDefault = "gardener"

	// OriginAnnotation is written on every object: "<namespace>/<name>" of its ManagedResource, with "<clusterID>:" before
	// it if the class has a cluster ID.
	OriginAnnotation = "resources.gardener.cloud/origin"
	// DescriptionAnnotation is written on every object: a constant text that warns people against editing it.
	DescriptionAnnotation = "resources.gardener.cloud/description"

	// IgnoreAnnotation, truthy on a ManagedResource, stops everything until it is removed or the ManagedResource is
	// deleted. Truthy on an object in the manifest, the object is created if absent and never updated.
	IgnoreAnnotation = "resources.gardener.cloud/ignore"
	// ModeAnnotation with exactly ModeIgnore, in the manifest, takes the object out of the inventory: it is neither
	// applied nor deleted.
	ModeAnnotation = "resources.gardener.cloud/mode"
	// ModeIgnore is the only value of ModeAnnotation.
	ModeIgnore = "Ignore"
	// KeepObjectAnnotation, truthy on the live object, keeps it from being deleted.
	KeepObjectAnnotation = "resources.gardener.cloud/keep-object"
	// DeleteOnInvalidUpdateAnnotation, truthy in the manifest or on the live object: the object is deleted and created
	// again if the API server rejects its update as invalid.
	DeleteOnInvalidUpdateAnnotation = "resources.gardener.cloud/delete-on-invalid-update"
	// DeletionPropagationOnInvalidUpdateAnnotation is the propagation policy of that delete: exactly Foreground,
	// Background or Orphan. Anything else is an error.
	DeletionPropagationOnInvalidUpdateAnnotation = "resources.gardener.cloud/deletion-propagation-on-invalid-update"
	// FinalizeDeletionAfterAnnotation, a Go duration on the live object, is how long after its deletion began its
	// finalizers are removed.
	FinalizeDeletionAfterAnnotation = "resources.gardener.cloud/finalize-deletion-after"
	// PreserveReplicasAnnotation, exactly "true" in the manifest of a scalable workload, keeps the live replicas.
	PreserveReplicasAnnotation = "resources.gardener.cloud/preserve-replicas"
	// PreserveResourcesAnnotation, exactly "true" in the manifest of a workload, keeps the live CPU and memory of its
	// containers.
	PreserveResourcesAnnotation = "resources.gardener.cloud/preserve-resources"
	// SkipHealthCheckAnnotation, exactly "true" on the live object, leaves it out of both health conditions.
	SkipHealthCheckAnnotation = "resources.gardener.cloud/skip-health-check"

	// GarbageCollectableReferenceLabel, on a ConfigMap or Secret, leaves its deletion to Gardener's garbage collector.
	GarbageCollectableReferenceLabel = "resources.gardener.cloud/garbage-collectable-reference"
	// ReferencePrefix is the prefix of the annotations that name what workloads and ManagedResources use, for that
	// collector. Live ones that the manifest does not have are removed.
	ReferencePrefix = "reference.resources.gardener.cloud/"
	// RestartedAtAnnotation is what `kubectl rollout restart` sets on a pod template. A live one is kept.
	RestartedAtAnnotation = "kubectl.kubernetes.io/restartedAt"
)

// Keys on Secrets of the source that ask for a token of a target.
const (
	// PurposeLabel, with exactly PurposeTokenRequestor on a Secret of the source, has the token requestor keep a token of
	// its target in it.
	PurposeLabel          = "resources.gardener.cloud/purpose"
	PurposeTokenRequestor = "token-requestor"
	// AccessClassLabel, on such a Secret, says which token requestor is responsible.
	AccessClassLabel = "resources.gardener.cloud/class"
	// TokenRequestorFinalizer, on such a Secret, was left by old versions of Gardener. It is removed.
	TokenRequestorFinalizer = "resources.gardener.cloud/token-requestor"
)

// Keys by which static tokens of ServiceAccounts in targets are made useless.
const (
	// PurposeTokenInvalidator as the value of PurposeLabel, on a Secret in a target, has the webhook of the token
	// invalidator look at it whenever it is written.
	PurposeTokenInvalidator = "token-invalidator"
	// ConsiderTokenLabel, of whatever value on such a Secret, says that its token is to be invalid.
	ConsiderTokenLabel = "token-invalidator.resources.gardener.cloud/consider"
	// SkipTokenLabel, of whatever value on a ServiceAccount in a target, says that its tokens stay valid.
	SkipTokenLabel = "token-invalidator.resources.gardener.cloud/skip"
)

// BrotliSuffix ends the data keys of a Secret whose values are Brotli-compressed.
const BrotliSuffix = ".br"

// Classes of ManagedResources (spec.class).
const (
	// DefaultClass is that of ManagedResources without a class.
	DefaultClass = ""
	// DefaultClassName is what Gardener's resource manager calls the default class in its configuration.
	DefaultClassName = "resources"
	// AllClasses is that of an instance of Gardener's resource manager that is responsible for every class.
	AllClasses = "*"
)

// FinalizerBase is the finalizer of the default class, and the prefix of all others.
const FinalizerBase = "resources.gardener.cloud/gardener-resource-manager"

// Finalizer returns the finalizer by which the instance responsible for a class marks the ManagedResources that have
// objects in its target. The default class, in both spellings, and AllClasses share one.
func Finalizer(class string) string {
	switch class {
	case DefaultClass, DefaultClassName, AllClasses:
		return FinalizerBase
	default:
		return FinalizerBase + "-" + class
	}
}

// IsTruthy reports whether the value of an annotation means yes: one of 1, t, T, true, TRUE and True. All other values
// mean no.
func IsTruthy(value string) bool {
	if value == "" {
		return false // nearly always, and an error takes memory
	}
	yes, err := strconv.ParseBool(value)
	return err == nil && yes
}
