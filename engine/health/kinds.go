package health

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
)

// kind has the checks of a kind.
type kind struct {
	// applies reports whether an object can be checked. Nil means that each can.
	applies func(content) bool
	// unhealthy returns why an object of the kind is not healthy, if it is not.
	unhealthy func(content) Problem
	// progressing returns why an object of the kind is still rolling out, if it is. It is nil for kinds without roll-outs.
	progressing func(content) Problem
	// selectsPods is true for kinds whose pods explain why they are unhealthy.
	selectsPods bool
	// countsPods is true for kinds that are rolled out when the number of pods is the wanted one.
	countsPods bool
}

// Groups with checked kinds whose Go types are not imported.
const (
	aggregationGroup = "apiregistration.k8s.io"
	autoscalerGroup  = "autoscaling.k8s.io"
	monitoringGroup  = "monitoring.coreos.com"
	certificateGroup = "cert.gardener.cloud"
)

// kinds are those with criteria of their own, in whatever version: what the checks read has the same
// name in all versions that there were. The checks are in workloads.go, others.go and operators.go.
var kinds = map[schema.GroupKind]*kind{
	{Group: appsv1.GroupName, Kind: "Deployment"}: {
		unhealthy: deploymentUnhealthy, progressing: deploymentProgressing, selectsPods: true, countsPods: true,
	},
	{Group: appsv1.GroupName, Kind: "StatefulSet"}: {
		unhealthy: statefulSetUnhealthy, progressing: statefulSetProgressing, selectsPods: true,
	},
	{Group: appsv1.GroupName, Kind: "DaemonSet"}: {
		unhealthy: daemonSetUnhealthy, progressing: daemonSetProgressing, selectsPods: true,
	},
	{Group: appsv1.GroupName, Kind: "ReplicaSet"}:                        {unhealthy: replicasUnhealthy},
	{Group: corev1.GroupName, Kind: "ReplicationController"}:             {unhealthy: replicasUnhealthy},
	{Group: batchv1.GroupName, Kind: "Job"}:                              {unhealthy: jobUnhealthy},
	{Group: corev1.GroupName, Kind: "Pod"}:                               {unhealthy: podUnhealthy},
	{Group: corev1.GroupName, Kind: "Service"}:                           {unhealthy: serviceUnhealthy},
	{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition"}: {unhealthy: crdUnhealthy},
	{Group: aggregationGroup, Kind: "APIService"}:                        {unhealthy: apiServiceUnhealthy},
	{Group: autoscalerGroup, Kind: "VerticalPodAutoscaler"}:              {unhealthy: verticalPodAutoscalerUnhealthy},
	{Group: monitoringGroup, Kind: "Prometheus"}: {unhealthy: monitoringUnhealthy,
		progressing: monitoringProgressing},
	{Group: monitoringGroup, Kind: "Alertmanager"}: {unhealthy: monitoringUnhealthy,
		progressing: monitoringProgressing},
	{Group: certificateGroup, Kind: "Certificate"}: {unhealthy: certificateUnhealthy,
		progressing: content.outdated},
	{Group: certificateGroup, Kind: "Issuer"}: {unhealthy: issuerUnhealthy,
		progressing: content.outdated},
}

// anyKind is every other kind that kube-apiserver does not serve itself: the convention of generic.go.
var anyKind = &kind{applies: followsConvention, unhealthy: genericUnhealthy, progressing: genericProgressing}

// kindOf returns the checks of a kind, nil if only existence counts.
func kindOf(gk schema.GroupKind) *kind {
	if known := kinds[gk]; known != nil {
		return known
	}
	if builtIn.Has(gk.Group) {
		return nil
	}
	return anyKind
}

// builtIn are the groups that kube-apiserver serves itself. Objects of such kinds are healthy if they exist: their
// conditions, if any, are about something else, such as a claim that waits for its first consumer, and authors of
// ManagedResources for Gardener's resource manager rely on that (H-24).
var builtIn = func() sets.Set[string] {
	groups := sets.New(apiextensionsv1.GroupName, aggregationGroup) // these have clients of their own
	for _, version := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		groups.Insert(version.Group)
	}
	return groups
}()

// Fields are the paths of all fields that the checks of any kind read, besides apiVersion, kind and metadata.
var Fields = [][]string{
	{"spec", "replicas"}, {"spec", "selector"}, {"spec", "ttlSecondsAfterFinished"}, {"spec", "type"},
	{"spec", "updateStrategy"}, {"status"},
}

// NeedsFullObject reports whether the checks of a kind read more than metadata. All other kinds can be watched as
// metadata only.
func NeedsFullObject(gk schema.GroupKind) bool { return kindOf(gk) != nil }
