package example_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/controlplane/example"
)

func TestWhatTheProviderAdds(t *testing.T) {
	all, err := example.Webhooks(nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, test := range map[string]struct {
		webhook int // 0: of the shoot, 1: of the seed
		object  string
		patch   string // empty: none
	}{
		"flags and a volume": {0, `{apiVersion: apps/v1, kind: Deployment,
			metadata: {name: kube-controller-manager}, spec: {template: {spec: {containers: [{name: kube-controller-manager, command: [kube-controller-manager]}]}}}}`,
			`[{op: add, path: /spec/template/spec/containers/0/command/1, value: --cloud-provider=external},
			{op: add, path: /spec/template/spec/containers/0/command/2,
				value: --cloud-config=/etc/kubernetes/cloudprovider/cloudprovider.conf},
			{op: add, path: /spec/template/spec/containers/0/volumeMounts,
				value: [{mountPath: /etc/kubernetes/cloudprovider, name: cloud-provider-config}]},
			{op: add, path: /spec/template/spec/volumes,
				value: [{configMap: {name: cloud-provider-config}, name: cloud-provider-config}]}]`},
		"an annotation of load balancers": {1, `{apiVersion: v1, kind: Service, metadata: {name: kube-apiserver},
			spec: {type: LoadBalancer}}`,
			`[{op: add, path: /metadata/annotations, value: {service.example.com/load-balancer-protocol: tcp}}]`},
		"nothing to other Services": {1, `{apiVersion: v1, kind: Service, metadata: {name: kube-apiserver},
			spec: {type: ClusterIP}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			raw, err := yaml.YAMLToJSON([]byte(test.object))
			g.Expect(err).NotTo(HaveOccurred())
			meta := &metav1.PartialObjectMetadata{}
			g.Expect(json.Unmarshal(raw, meta)).To(Succeed())
			kind := meta.GroupVersionKind()
			response, err := all[test.webhook].Handler().Handle(t.Context(), &admission.Request{
				AdmissionRequest: &admissionv1.AdmissionRequest{
					Operation: admissionv1.Create, Namespace: "shoot--foo--bar", Object: runtime.RawExtension{Raw: raw},
					Kind: metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
				},
			})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Denied).To(BeNil())
			if test.patch == "" {
				g.Expect(response.Patch).To(BeEmpty())
				return
			}
			g.Expect(response.Patch).To(MatchYAML(test.patch))
		})
	}
}
