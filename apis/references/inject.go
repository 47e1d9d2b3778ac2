package references

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// prometheusKind is the one custom resource that can use ConfigMaps and Secrets like a pod.
var prometheusKind = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "Prometheus"}

// InjectAnnotations writes annotations for all ConfigMaps and Secrets that an object uses, on the object and on its
// templates of jobs and pods. References that were there before are removed; other annotations stay. Additional keys
// are set to an empty value, with which they protect nothing from a collector. Objects that can be injected are Pods,
// Deployments, StatefulSets, DaemonSets, Jobs and CronJobs in all their versions, ManagedResources, and a Prometheus of
// monitoring.coreos.com/v1 as unstructured content. All others are an error.
//
// What a pod uses is found in the environments of all its containers, init containers and ephemeral containers
// included, in volumes and in imagePullSecrets.
func InjectAnnotations(obj runtime.Object, additional ...string) error {
	found, places, err := usesOf(obj)
	if err != nil {
		return err
	}
	for _, place := range places {
		place.SetAnnotations(merge(place.GetAnnotations(), found, additional))
	}
	return nil
}

// annotated is what can have annotations: an object or a template.
type annotated interface {
	GetAnnotations() map[string]string
	SetAnnotations(annotations map[string]string)
}

// merge returns annotations with the references that were found instead of those that were there.
func merge(annotations map[string]string, found uses, additional []string) map[string]string {
	merged := make(map[string]string, len(annotations)+len(found)+len(additional))
	for key, value := range annotations {
		if !strings.HasPrefix(key, AnnotationPrefix) {
			merged[key] = value
		}
	}
	for _, key := range additional {
		merged[key] = ""
	}
	for used := range found {
		merged[AnnotationKey(used.kind, used.name)] = used.name
	}
	return merged
}

// usesOf returns what an object uses, and where that is to be written.
func usesOf(obj runtime.Object) (uses, []annotated, error) {
	found := uses{}
	switch o := obj.(type) {
	case *corev1.Pod:
		found.addPod(&o.Spec)
		return found, []annotated{o}, nil
	case *appsv1.Deployment:
		return ofTemplate(o, &o.Spec.Template)
	case *appsv1beta2.Deployment:
		return ofTemplate(o, &o.Spec.Template)
	case *appsv1beta1.Deployment:
		return ofTemplate(o, &o.Spec.Template)
	case *appsv1.StatefulSet:
		return ofTemplate(o, &o.Spec.Template)
	case *appsv1beta2.StatefulSet:
		return ofTemplate(o, &o.Spec.Template)
	case *appsv1beta1.StatefulSet:
		return ofTemplate(o, &o.Spec.Template)
	case *appsv1.DaemonSet:
		return ofTemplate(o, &o.Spec.Template)
	case *appsv1beta2.DaemonSet:
		return ofTemplate(o, &o.Spec.Template)
	case *batchv1.Job:
		return ofTemplate(o, &o.Spec.Template)
	case *batchv1.CronJob:
		return ofTemplate(o, &o.Spec.JobTemplate.Spec.Template, &o.Spec.JobTemplate.ObjectMeta)
	case *batchv1beta1.CronJob:
		return ofTemplate(o, &o.Spec.JobTemplate.Spec.Template, &o.Spec.JobTemplate.ObjectMeta)
	case *resourcesv1alpha1.ManagedResource:
		for _, ref := range o.Spec.SecretRefs {
			found.add(KindSecret, ref.Name)
		}
		return found, []annotated{o}, nil
	case *unstructured.Unstructured:
		if o.GroupVersionKind() == prometheusKind {
			err := found.addPrometheus(o)
			return found, []annotated{o}, err
		}
	}
	return nil, nil, fmt.Errorf("injecting references: unhandled object type %T", obj)
}

func ofTemplate(
	obj annotated, template *corev1.PodTemplateSpec, between ...*metav1.ObjectMeta,
) (uses, []annotated, error) {
	found := uses{}
	found.addPod(&template.Spec)
	places := []annotated{obj, template}
	for _, meta := range between {
		places = append(places, meta)
	}
	return found, places, nil
}

// use is a reference to an object in the same namespace.
type use struct{ kind, name string }

type uses map[use]struct{}

func (u uses) add(kind, name string) {
	if name != "" {
		u[use{kind, name}] = struct{}{}
	}
}

func (u uses) addPod(spec *corev1.PodSpec) {
	u.addContainers(spec.InitContainers)
	u.addContainers(spec.Containers)
	for _, c := range spec.EphemeralContainers {
		u.addContainers([]corev1.Container{corev1.Container(c.EphemeralContainerCommon)})
	}
	u.addVolumes(spec.Volumes)
	u.addPullSecrets(spec.ImagePullSecrets)
}

func (u uses) addContainers(containers []corev1.Container) {
	for i := range containers {
		for _, from := range containers[i].EnvFrom {
			if from.SecretRef != nil {
				u.add(KindSecret, from.SecretRef.Name)
			}
			if from.ConfigMapRef != nil {
				u.add(KindConfigMap, from.ConfigMapRef.Name)
			}
		}
		for _, env := range containers[i].Env {
			if env.ValueFrom == nil {
				continue
			}
			if ref := env.ValueFrom.SecretKeyRef; ref != nil {
				u.add(KindSecret, ref.Name)
			}
			if ref := env.ValueFrom.ConfigMapKeyRef; ref != nil {
				u.add(KindConfigMap, ref.Name)
			}
		}
	}
}

func (u uses) addVolumes(volumes []corev1.Volume) {
	for _, volume := range volumes {
		if volume.Secret != nil {
			u.add(KindSecret, volume.Secret.SecretName)
		}
		if volume.ConfigMap != nil {
			u.add(KindConfigMap, volume.ConfigMap.Name)
		}
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.Secret != nil {
				u.add(KindSecret, source.Secret.Name)
			}
			if source.ConfigMap != nil {
				u.add(KindConfigMap, source.ConfigMap.Name)
			}
		}
	}
}

func (u uses) addPullSecrets(refs []corev1.LocalObjectReference) {
	for _, ref := range refs {
		u.add(KindSecret, ref.Name)
	}
}

// prometheus is what of a Prometheus can use ConfigMaps and Secrets.
type prometheus struct {
	Spec struct {
		InitContainers   []corev1.Container            `json:"initContainers,omitempty"`
		Containers       []corev1.Container            `json:"containers,omitempty"`
		Volumes          []corev1.Volume               `json:"volumes,omitempty"`
		ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
		RemoteWrite      []remoteWrite                 `json:"remoteWrite,omitempty"`
	} `json:"spec"`
}

type remoteWrite struct {
	BasicAuth *struct {
		Username corev1.SecretKeySelector `json:"username"`
		Password corev1.SecretKeySelector `json:"password"`
	} `json:"basicAuth,omitempty"`
}

func (u uses) addPrometheus(obj *unstructured.Unstructured) error {
	p := &prometheus{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, p); err != nil {
		return fmt.Errorf("reading Prometheus %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	u.addContainers(p.Spec.InitContainers)
	u.addContainers(p.Spec.Containers)
	u.addVolumes(p.Spec.Volumes)
	u.addPullSecrets(p.Spec.ImagePullSecrets)
	for _, write := range p.Spec.RemoteWrite {
		if auth := write.BasicAuth; auth != nil {
			u.add(KindSecret, auth.Username.Name)
			u.add(KindSecret, auth.Password.Name)
		}
	}
	return nil
}
