package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/controlplane"
	"github.com/trellis-hub/trellis/webhooks/controlplane/systemd"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

const namespace = "shoot--foo--bar"

// object is one in JSON, given in YAML.
func object(t testing.TB, text string) []byte {
	t.Helper()
	document, err := yaml.YAMLToJSON([]byte(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return document
}

// request is one to create an object, or to update it if there is an old one.
func request(t testing.TB, updated, old []byte) *admission.Request {
	t.Helper()
	meta := &metav1.PartialObjectMetadata{}
	NewWithT(t).Expect(json.Unmarshal(updated, meta)).To(Succeed())
	kind := meta.GroupVersionKind()
	r := &admission.Request{AdmissionRequest: &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: namespace, Object: runtime.RawExtension{Raw: updated},
		Kind: metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
	}}
	if old != nil {
		r.Operation, r.OldObject = admissionv1.Update, runtime.RawExtension{Raw: old}
	}
	return r
}

// cluster is that of the namespace: the pool "old" has nodes of an older version.
func cluster() client.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Cluster",
		"metadata": map[string]any{"name": namespace},
		"spec": map[string]any{"shoot": map[string]any{
			"metadata": map[string]any{"name": "bar"},
			"spec": map[string]any{
				"kubernetes": map[string]any{"version": "1.36.3"},
				"provider": map[string]any{"type": "example", "workers": []any{
					map[string]any{"name": "new"},
					map[string]any{"name": "old", "kubernetes": map[string]any{"version": "1.34.1"}},
				}},
			},
		}},
	}}
}

func reader(objects ...client.Object) client.Reader {
	return fake.NewClientBuilder().WithObjects(objects...).Build()
}

// define is a webhook with one Ensurer.
func define(t testing.TB, e controlplane.Ensurer, r client.Reader) *controlplane.Webhook {
	t.Helper()
	w, err := controlplane.New(controlplane.Definition{
		Component: "provider-example", Provider: "example", Kind: controlplane.Shoot,
		Mutators: controlplane.Mutators(e), Reader: r,
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return w
}

// handle returns the answer and the object as the patch has it.
func handle(t testing.TB, w *controlplane.Webhook, r *admission.Request) (admission.Response, []byte) {
	t.Helper()
	g := NewWithT(t)
	response, err := w.Handler().Handle(t.Context(), r)
	g.Expect(err).NotTo(HaveOccurred())
	if len(response.Patch) == 0 {
		return response, r.Object.Raw
	}
	changes, err := jsonpatch.DecodePatch(response.Patch)
	g.Expect(err).NotTo(HaveOccurred())
	changed, err := changes.Apply(r.Object.Raw)
	g.Expect(err).NotTo(HaveOccurred())
	return response, changed
}

// recorder says which methods were called, with what of the objects, and changes what each is given.
type recorder struct {
	calls []string
	err   error
	// without has hooks of contents leave nothing.
	without bool
}

func (r *recorder) note(method string, updated, old fmt.Stringer) error {
	r.calls = append(r.calls, fmt.Sprintf("%s(%s, %s)", method, updated, old))
	return r.err
}

type text string

func (t text) String() string { return string(t) }

func nameOf[T any, O interface {
	*T
	metav1.Object
}](o O) text {
	if o == nil {
		return "none"
	}
	return text(o.GetName())
}

func (r *recorder) deployment(method string, updated, old *appsv1.Deployment) error {
	updated.Annotations = map[string]string{"changed": method}
	return r.note(method, nameOf(updated), nameOf(old))
}

func (r *recorder) EnsureKubeAPIServerService(_ context.Context, _ *controlplane.Context, n, o *corev1.Service) error {
	return r.note("Service", nameOf(n), nameOf(o))
}

func (r *recorder) EnsureKubeAPIServerDeployment(
	_ context.Context, _ *controlplane.Context, n, o *appsv1.Deployment,
) error {
	return r.deployment("KubeAPIServer", n, o)
}

func (r *recorder) EnsureKubeControllerManagerDeployment(
	_ context.Context, _ *controlplane.Context, n, o *appsv1.Deployment,
) error {
	return r.deployment("KubeControllerManager", n, o)
}

func (r *recorder) EnsureKubeSchedulerDeployment(
	_ context.Context, _ *controlplane.Context, n, o *appsv1.Deployment,
) error {
	return r.deployment("KubeScheduler", n, o)
}

func (r *recorder) EnsureClusterAutoscalerDeployment(
	_ context.Context, _ *controlplane.Context, n, o *appsv1.Deployment,
) error {
	return r.deployment("ClusterAutoscaler", n, o)
}

func (r *recorder) EnsureMachineControllerManagerDeployment(
	_ context.Context, _ *controlplane.Context, n, o *appsv1.Deployment,
) error {
	return r.deployment("MachineControllerManager", n, o)
}

func (r *recorder) EnsureGardenerResourceManagerDeployment(
	_ context.Context, _ *controlplane.Context, n, o *appsv1.Deployment,
) error {
	return r.deployment("GardenerResourceManager", n, o)
}

func (r *recorder) EnsureVPNSeedServerDeployment(
	_ context.Context, _ *controlplane.Context, n, o *appsv1.Deployment,
) error {
	return r.deployment("VPNSeedServer", n, o)
}

func (r *recorder) EnsureVPNSeedServerStatefulSet(
	_ context.Context, _ *controlplane.Context, n, o *appsv1.StatefulSet,
) error {
	return r.note("VPNSeedServerStatefulSet", nameOf(n), nameOf(o))
}

func (r *recorder) EnsureMachineControllerManagerVPA(
	_ context.Context, _ *controlplane.Context, n, o *unstructured.Unstructured,
) error {
	return r.note("VPA", nameOf(n), nameOf(o))
}

func (r *recorder) EnsureETCD(_ context.Context, _ *controlplane.Context, n, o *unstructured.Unstructured) error {
	return r.note("ETCD", nameOf(n), nameOf(o))
}

func values(options []systemd.Option) text {
	if options == nil {
		return "none"
	}
	return text(fmt.Sprint(len(options)))
}

func (r *recorder) EnsureKubeletServiceUnitOptions(
	_ context.Context, _ *controlplane.Context, v *version.Version, n, o []systemd.Option,
) ([]systemd.Option, error) {
	err := r.note("Unit "+v.String(), values(n), values(o))
	return append(n, systemd.Option{Section: "Service", Name: "Nice", Value: "1"}), err
}

func keys(m map[string]any) text {
	if m == nil {
		return "none"
	}
	return text(fmt.Sprint(len(m)))
}

func (r *recorder) EnsureKubeletConfiguration(
	_ context.Context, _ *controlplane.Context, v *version.Version, n, o map[string]any,
) error {
	err := r.note("Configuration "+v.String(), keys(n), keys(o))
	n["enableControllerAttachDetach"] = true
	return err
}

func content(s *string) text {
	if s == nil {
		return "none"
	}
	return text(*s)
}

func (r *recorder) EnsureKubernetesGeneralConfiguration(
	_ context.Context, _ *controlplane.Context, n, o *string,
) error {
	err := r.note("Kernel", content(n), content(o))
	if r.without {
		*n = ""
	} else {
		*n += "b=2"
	}
	return err
}

func (r *recorder) ShouldProvisionKubeletCloudProviderConfig(
	_ context.Context, _ *controlplane.Context, v *version.Version,
) bool {
	_ = r.note("Should "+v.String(), text(""), text("")) // the method cannot fail
	return true
}

func (r *recorder) EnsureKubeletCloudProviderConfig(
	_ context.Context, _ *controlplane.Context, _ *version.Version, c *string,
) error {
	err := r.note("Cloud", content(c), text(""))
	if !r.without {
		*c = "cloud"
	}
	return err
}

func count[T any](list *[]T) text {
	if list == nil {
		return "none"
	}
	return text(fmt.Sprint(len(*list)))
}

func (r *recorder) EnsureAdditionalFiles(_ context.Context, _ *controlplane.Context, n, o *[]extensions.File) error {
	err := r.note("Files", count(n), count(o))
	*n = append(*n, extensions.File{Path: "/extra"})
	return err
}

func (r *recorder) EnsureAdditionalUnits(_ context.Context, _ *controlplane.Context, n, o *[]extensions.Unit) error {
	err := r.note("Units", count(n), count(o))
	*n = append(*n, extensions.Unit{Name: "extra.service"})
	return err
}

func (r *recorder) EnsureCRIConfig(_ context.Context, _ *controlplane.Context, n, o *extensions.CRIConfig) error {
	old := text("none")
	if o != nil {
		old = text(o.Name)
	}
	return r.note("CRI", text(n.Name), old)
}

func (r *recorder) EnsureAdditionalProvisionFiles(
	_ context.Context, _ *controlplane.Context, n, o *[]extensions.File,
) error {
	return r.note("ProvisionFiles", count(n), count(o))
}

func (r *recorder) EnsureAdditionalProvisionUnits(
	_ context.Context, _ *controlplane.Context, n, o *[]extensions.Unit,
) error {
	return r.note("ProvisionUnits", count(n), count(o))
}
