package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/controlplane"
	"github.com/trellis-hub/trellis/webhooks/controlplane/ensure"
)

// exampleEnsurer is what a provider writes.
type exampleEnsurer struct{ controlplane.NoopEnsurer }

const (
	cloudVolume = "cloud-provider-config"
	cloudPath   = "/etc/kubernetes/cloudprovider"
)

// EnsureKubeControllerManagerDeployment leaves cloud resources to the provider's own controller manager, and mounts its
// configuration, which volume plugins read.
func (exampleEnsurer) EnsureKubeControllerManagerDeployment(
	_ context.Context, _ *controlplane.Context, updated, _ *appsv1.Deployment,
) error {
	pod := &updated.Spec.Template.Spec
	container := ensure.ContainerNamed(pod.Containers, "kube-controller-manager")
	if container == nil {
		return fmt.Errorf("deployment %s has no container kube-controller-manager", updated.Name)
	}
	container.Command = ensure.Flag(container.Command, "--cloud-provider=", "external")
	container.Command = ensure.Flag(container.Command, "--cloud-config=", cloudPath+"/cloudprovider.conf")
	container.VolumeMounts = ensure.VolumeMount(container.VolumeMounts, corev1.VolumeMount{
		Name: cloudVolume, MountPath: cloudPath,
	})
	pod.Volumes = ensure.Volume(pod.Volumes, corev1.Volume{
		Name: cloudVolume,
		VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: cloudVolume}},
		},
	})
	return nil
}

// EnsureKubeAPIServerService has the load balancer forward connections unchanged.
func (exampleEnsurer) EnsureKubeAPIServerService(
	_ context.Context, _ *controlplane.Context, updated, _ *corev1.Service,
) error {
	if updated.Spec.Type == corev1.ServiceTypeLoadBalancer {
		updated.Annotations = ensure.Entry(updated.Annotations, "service.example.com/load-balancer-protocol", "tcp")
	}
	return nil
}

// A provider that adds flags, a volume and an annotation of a Service. What it is for in the shoot is one webhook, and
// what it is for in the seed is another.
func Example() {
	webhook, err := controlplane.New(controlplane.Definition{
		Component: "provider-example", Provider: "example", Kind: controlplane.Shoot,
		Mutators:       controlplane.Mutators(exampleEnsurer{}),
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{controlplane.MutatedLabel: "true"}},
	})
	if err != nil {
		panic(err)
	}

	for _, object := range []runtime.Object{
		&appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager"},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "kube-controller-manager", Command: []string{"kube-controller-manager",
						"--leader-elect=true"},
				}},
			}}},
		},
		&corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Name: "kube-apiserver"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		},
	} {
		raw, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		kind := object.GetObjectKind().GroupVersionKind()
		response, err := webhook.Handler().Handle(context.Background(), &admission.Request{
			AdmissionRequest: &admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Namespace: "shoot--foo--bar", Object: runtime.RawExtension{Raw: raw},
				Kind: metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
			},
		})
		if err != nil || response.Denied != nil {
			panic(fmt.Sprint(err, response.Denied))
		}
		var operations []json.RawMessage
		if err := json.Unmarshal(response.Patch, &operations); err != nil {
			panic(err)
		}
		for _, o := range operations {
			fmt.Println(string(o))
		}
	}
	// Output:
	// {"op":"add","path":"/spec/template/spec/containers/0/command/2","value":"--cloud-provider=external"}
	// {"op":"add","path":"/spec/template/spec/containers/0/command/3","value":"--cloud-config=/etc/kubernetes/cloudprovider/cloudprovider.conf"}
	// {"op":"add","path":"/spec/template/spec/containers/0/volumeMounts","value":[{"mountPath":"/etc/kubernetes/cloudprovider","name":"cloud-provider-config"}]}
	// {"op":"add","path":"/spec/template/spec/volumes","value":[{"configMap":{"name":"cloud-provider-config"},"name":"cloud-provider-config"}]}
	// {"op":"add","path":"/metadata/annotations","value":{"service.example.com/load-balancer-protocol":"tcp"}}
}
