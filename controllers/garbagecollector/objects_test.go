package garbagecollector

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/apis/references"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

func prometheusCRD() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheuses.monitoring.coreos.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "monitoring.coreos.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "prometheuses", Singular: "prometheus", Kind: "Prometheus", ListKind: "PrometheusList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

// refersTo are annotations for a ConfigMap and a Secret of one name.
func refersTo(name string) map[string]string {
	return map[string]string{
		references.AnnotationKey(references.KindSecret, name):    name,
		references.AnnotationKey(references.KindConfigMap, name): name,
	}
}

// referringMeta is that of an object that refers to a ConfigMap and a Secret of a name.
func referringMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: refersTo(name)}
}

func pod(namespace, name string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
		Spec:       podSpec(corev1.RestartPolicyAlways),
	}
}

func podSpec(restart corev1.RestartPolicy) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, RestartPolicy: restart}
}

func template(restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: podSpec(restart),
	}
}

// referrers are one object of each kind that can refer to others, by the names of what they refer to.
func referrers(namespace string) map[string]client.Object {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	always, never := template(corev1.RestartPolicyAlways), template(corev1.RestartPolicyNever)
	prometheus := &unstructured.Unstructured{}
	prometheus.SetGroupVersionKind(prometheuses)
	prometheus.SetNamespace(namespace)
	prometheus.SetName("prometheus")
	prometheus.SetAnnotations(refersTo("prometheus"))
	return map[string]client.Object{
		"deployment": &appsv1.Deployment{
			ObjectMeta: referringMeta(namespace, "deployment"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: always},
		},
		"statefulset": &appsv1.StatefulSet{
			ObjectMeta: referringMeta(namespace, "statefulset"), Spec: appsv1.StatefulSetSpec{Selector: selector, Template: always},
		},
		"daemonset": &appsv1.DaemonSet{
			ObjectMeta: referringMeta(namespace, "daemonset"), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: always},
		},
		"job": &batchv1.Job{ObjectMeta: referringMeta(namespace, "job"), Spec: batchv1.JobSpec{Template: never}},
		"cronjob": &batchv1.CronJob{ObjectMeta: referringMeta(namespace, "cronjob"), Spec: batchv1.CronJobSpec{
			Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: never}},
		}},
		"pod":        pod(namespace, "pod", refersTo("pod")),
		"prometheus": prometheus,
		"managedresource": &resourcesv1alpha1.ManagedResource{
			ObjectMeta: referringMeta(namespace, "managedresource"),
			Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{}},
		},
	}
}
