package health

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// kind is what this package knows about a kind.
type kind struct {
	// unhealthy returns why an object of the kind is not healthy, if it is not.
	unhealthy func(content) Problem
	// progressing returns why an object of the kind is still rolling out, if it is. It is nil for kinds without roll-outs.
	progressing func(content) Problem
	// pods is true for kinds whose pods explain what is wrong with them.
	pods bool
	// fields are the paths that the checks read, besides metadata and conditions.
	fields [][]string
	// conditions are the types of the conditions that the checks read.
	conditions sets.Set[string]
}

// kinds lists the kinds whose health is more than their existence. The checks are in workloads.go and others.go.
var kinds = map[schema.GroupVersionKind]kind{
	appsv1.SchemeGroupVersion.WithKind("Deployment"): {
		unhealthy:   deploymentUnhealthy,
		progressing: deploymentProgressing,
		pods:        true,
		fields:      [][]string{{"spec", "replicas"}, {"spec", "selector"}, {"status", "observedGeneration"}},
		conditions: sets.New(string(appsv1.DeploymentAvailable), string(appsv1.DeploymentProgressing),
			string(appsv1.DeploymentReplicaFailure)),
	},
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"): {
		unhealthy:   statefulSetUnhealthy,
		progressing: statefulSetProgressing,
		pods:        true,
		fields: [][]string{{"spec", "replicas"}, {"spec", "selector"},
			{"status", "observedGeneration"}, {"status", "readyReplicas"}, {"status", "updatedReplicas"}},
	},
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"): {
		unhealthy:   daemonSetUnhealthy,
		progressing: daemonSetProgressing,
		pods:        true,
		fields: [][]string{{"spec", "selector"}, {"spec", "updateStrategy", "type"}, {"spec", "updateStrategy", "rollingUpdate", "maxUnavailable"},
			{"status", "observedGeneration"}, {"status", "currentNumberScheduled"}, {"status", "desiredNumberScheduled"},
			{"status", "numberMisscheduled"}, {"status", "numberUnavailable"}, {"status", "updatedNumberScheduled"}},
	},
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"): {
		unhealthy: replicasUnhealthy,
		fields:    [][]string{{"spec", "replicas"}, {"status", "observedGeneration"}, {"status", "readyReplicas"}},
	},
	corev1.SchemeGroupVersion.WithKind("ReplicationController"): {
		unhealthy: replicasUnhealthy,
		fields:    [][]string{{"spec", "replicas"}, {"status", "observedGeneration"}, {"status", "readyReplicas"}},
	},
	batchv1.SchemeGroupVersion.WithKind("Job"): {
		unhealthy:  jobUnhealthy,
		conditions: sets.New(string(batchv1.JobFailed)),
	},
	corev1.SchemeGroupVersion.WithKind("Pod"): {
		unhealthy: podUnhealthy,
		fields: [][]string{{"status", "phase"}, {"status", "reason"}, {"status", "message"},
			{"status", "initContainerStatuses"}, {"status", "containerStatuses"}},
		conditions: sets.New(string(corev1.PodReady), string(corev1.PodScheduled), string(corev1.DisruptionTarget)),
	},
	corev1.SchemeGroupVersion.WithKind("Service"): {
		unhealthy: serviceUnhealthy,
		fields:    [][]string{{"spec", "type"}, {"status", "loadBalancer", "ingress"}},
	},
	apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"): {
		unhealthy: crdUnhealthy,
		conditions: sets.New(string(apiextensionsv1.NamesAccepted), string(apiextensionsv1.Established),
			string(apiextensionsv1.Terminating)),
	},
}

// fullKinds are the kinds of the table without their versions.
var fullKinds = func() sets.Set[schema.GroupKind] {
	result := sets.New[schema.GroupKind]()
	for gvk := range kinds {
		result.Insert(gvk.GroupKind())
	}
	return result
}()

// NeedsFullObject reports whether the checks of a kind read more than metadata. All other kinds can be watched as
// metadata only.
func NeedsFullObject(gk schema.GroupKind) bool {
	return fullKinds.Has(gk)
}
