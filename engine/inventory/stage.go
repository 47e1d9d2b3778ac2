package inventory

import "k8s.io/apimachinery/pkg/runtime/schema"

// Stage is the position of a kind in the order of applying. Objects of one stage are applied in parallel, and a stage
// starts when the one before it is done. Deletion runs through the stages backwards.
type Stage int

// Stages in order. The list follows GRM's fixed kind order, reduced to the dependencies that matter to a server; custom
// resources come before the admission webhooks and aggregated APIs of the same bundle, because a webhook whose backend
// is not up yet would block them.
const (
	StageFoundation Stage = iota // namespaces, custom resource definitions, priority classes
	StageConfig                  // policies, quotas, identities, configuration, storage
	StageAccess                  // RBAC
	StageWorkload                // services and what runs behind them
	StageCustom                  // custom resources and every other kind
	StageGate                    // admission webhooks and aggregated APIs, which requests pass through
	stages
)

// Stages is the number of stages.
const Stages = int(stages)

var coreStages = map[string]Stage{
	"Namespace":     StageFoundation,
	"ResourceQuota": StageConfig, "LimitRange": StageConfig, "ServiceAccount": StageConfig, "Secret": StageConfig,
	"ConfigMap": StageConfig, "PersistentVolume": StageConfig, "PersistentVolumeClaim": StageConfig,
	"Service": StageWorkload, "Pod": StageWorkload, "ReplicationController": StageWorkload,
}

var groupStages = map[string]Stage{
	"apiextensions.k8s.io":         StageFoundation,
	"scheduling.k8s.io":            StageFoundation,
	"networking.k8s.io":            StageConfig,
	"policy":                       StageConfig,
	"storage.k8s.io":               StageConfig,
	"rbac.authorization.k8s.io":    StageAccess,
	"apps":                         StageWorkload,
	"batch":                        StageWorkload,
	"autoscaling":                  StageWorkload,
	"admissionregistration.k8s.io": StageGate,
	"apiregistration.k8s.io":       StageGate,
}

// StageOf returns the stage of a kind.
func StageOf(gk schema.GroupKind) Stage {
	if gk.Group == "" {
		if s, ok := coreStages[gk.Kind]; ok {
			return s
		}
		return StageCustom
	}
	if gk.Group == "networking.k8s.io" && gk.Kind != "NetworkPolicy" {
		return StageWorkload // Ingress and IngressClass
	}
	if s, ok := groupStages[gk.Group]; ok {
		return s
	}
	return StageCustom
}

// IsCustomResourceDefinition reports whether a kind defines other kinds.
func IsCustomResourceDefinition(gk schema.GroupKind) bool {
	return gk.Group == "apiextensions.k8s.io" && gk.Kind == "CustomResourceDefinition"
}

// IsNamespace reports whether a kind is the core Namespace.
func IsNamespace(gk schema.GroupKind) bool { return gk.Group == "" && gk.Kind == "Namespace" }

// ServesKinds reports whether objects of a kind make the API server serve other kinds.
func ServesKinds(gk schema.GroupKind) bool {
	return IsCustomResourceDefinition(gk) || gk.Group == "apiregistration.k8s.io" && gk.Kind == "APIService"
}
