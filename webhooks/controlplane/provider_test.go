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
	"github.com/trellis-hub/trellis/webhooks/controlplane/example"
)

// A provider that adds flags and a volume to what Gardener deploys. Package example has it whole.
func Example() {
	webhook, err := controlplane.New(controlplane.Definition{
		Component: "provider-example", Provider: "example", Kind: controlplane.Shoot,
		Mutators:       controlplane.Mutators(example.InShoot{}),
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{controlplane.MutatedLabel: "true"}},
	})
	if err != nil {
		panic(err)
	}
	raw, err := json.Marshal(&appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager"},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "kube-controller-manager", Command: []string{"kube-controller-manager", "--leader-elect=true"},
			}},
		}}},
	})
	if err != nil {
		panic(err)
	}
	response, err := webhook.Handler().Handle(context.Background(), &admission.Request{
		AdmissionRequest: &admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Namespace: "shoot--foo--bar", Object: runtime.RawExtension{Raw: raw},
			Kind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
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
	// Output:
	// {"op":"add","path":"/spec/template/spec/containers/0/command/2","value":"--cloud-provider=external"}
	// {"op":"add","path":"/spec/template/spec/containers/0/command/3","value":"--cloud-config=/etc/kubernetes/cloudprovider/cloudprovider.conf"}
	// {"op":"add","path":"/spec/template/spec/containers/0/volumeMounts","value":[{"mountPath":"/etc/kubernetes/cloudprovider","name":"cloud-provider-config"}]}
	// {"op":"add","path":"/spec/template/spec/volumes","value":[{"configMap":{"name":"cloud-provider-config"},"name":"cloud-provider-config"}]}
}
