package controlplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/controlplane"
	"github.com/trellis-hub/trellis/webhooks/controlplane/ensure"
	"github.com/trellis-hub/trellis/webhooks/controlplane/example"
)

var deployments = controlplane.Resource{
	GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Plural: "deployments",
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: kube-controller-manager}
spec:
  unknown: stays
  template:
    spec:
      containers:
      - {name: sidecar, unknown: of the sidecar, resources: {limits: {cpu: 1000m}}}
      - {name: kube-controller-manager, unknown: of the manager, command: [kcm]}
`

// mutating is a webhook with a mutator of Deployments, and possibly more.
func mutating(
	t *testing.T, mutate func(context.Context, *controlplane.Context, *appsv1.Deployment, *appsv1.Deployment) error,
	more ...func(*controlplane.Definition),
) *controlplane.Webhook {
	t.Helper()
	d := controlplane.Definition{
		Component: "provider-example", Provider: "example", Kind: controlplane.Shoot,
		Mutators: []controlplane.Mutator{controlplane.For(deployments, mutate)},
	}
	for _, change := range more {
		change(&d)
	}
	w, err := controlplane.New(d)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return w
}

func nothing(context.Context, *controlplane.Context, *appsv1.Deployment, *appsv1.Deployment) error {
	return nil
}

func TestCPW6_OtherKindsAndUndecodableObjects(t *testing.T) {
	g := NewWithT(t)
	w := mutating(t, nothing)
	for _, document := range []string{
		`{"apiVersion":"v1","kind":"Pod"}`, `{"apiVersion":"apps/v1beta1","kind":"Deployment"}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":"text"}`,
	} {
		answer, _ := handle(t, w, request(t, []byte(document), nil))
		g.Expect(answer.Denied).NotTo(BeNil(), document)
		g.Expect(answer.Denied.Code).To(BeEquivalentTo(http.StatusBadRequest), document)
	}
	r := request(t, object(t, deployment), []byte(`{"spec":1}`))
	answer, _ := handle(t, w, r)
	g.Expect(answer.Denied.Code).To(BeEquivalentTo(http.StatusBadRequest))
	r.Object.Raw = nil
	answer, _ = handle(t, w, r)
	g.Expect(answer.Denied.Code).To(BeEquivalentTo(http.StatusBadRequest))
	deep := `{"apiVersion":"apps/v1","kind":"Deployment","x":` + strings.Repeat("[", 1000) + strings.Repeat("]",
		1000) + "}"
	r.Object.Raw = []byte(deep)
	answer, _ = handle(t, w, r)
	g.Expect(answer.Denied.Code).To(BeEquivalentTo(http.StatusBadRequest))
}

func TestCPW7_UnchangedIsAllowedWithoutAPatch(t *testing.T) {
	g := NewWithT(t)
	document := object(t, deployment)
	w := mutating(t, nothing)
	for _, old := range [][]byte{nil, document} {
		answer, _ := handle(t, w, request(t, document, old))
		g.Expect(answer).To(BeZero())
	}
	deletion := request(t, document, document)
	deletion.Operation = "DELETE"
	answer, _ := handle(t, mutating(t, func(
		context.Context, *controlplane.Context, *appsv1.Deployment, *appsv1.Deployment,
	) error {
		return errors.New("called")
	}), deletion)
	g.Expect(answer).To(BeZero())
}

func TestCPW8_APatchHasOnlyTheChange(t *testing.T) {
	g := NewWithT(t)
	w := mutating(t, func(_ context.Context, _ *controlplane.Context, updated, old *appsv1.Deployment) error {
		g.Expect(old.Name).To(Equal(updated.Name))
		c := ensure.ContainerNamed(updated.Spec.Template.Spec.Containers, "kube-controller-manager")
		c.Command = ensure.Flag(c.Command, "--cloud-provider=", "external")
		// The sidecar goes, so that the container has another place.
		updated.Spec.Template.Spec.Containers = ensure.NoContainer(updated.Spec.Template.Spec.Containers, "sidecar")
		return nil
	})
	document := object(t, deployment)
	answer, changed := handle(t, w, request(t, document, document))
	g.Expect(answer.Denied).To(BeNil())
	g.Expect(changed).To(MatchYAML(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: kube-controller-manager}
spec:
  unknown: stays
  template:
    spec:
      containers:
      - {name: kube-controller-manager, unknown: of the manager, command: [kcm, --cloud-provider=external]}
`))

	again, _ := handle(t, w, request(t, changed, changed))
	g.Expect(again.Patch).To(BeEmpty())
}

func TestCPW8_UnknownFieldsMoveWithTheirItem(t *testing.T) {
	g := NewWithT(t)
	w := mutating(t, func(_ context.Context, _ *controlplane.Context, updated, _ *appsv1.Deployment) error {
		slices.Reverse(updated.Spec.Template.Spec.Containers)
		return nil
	})
	_, changed := handle(t, w, request(t, object(t, deployment), nil))
	g.Expect(changed).To(MatchYAML(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: kube-controller-manager}
spec:
  unknown: stays
  template:
    spec:
      containers:
      - {name: kube-controller-manager, unknown: of the manager, command: [kcm]}
      - {name: sidecar, unknown: of the sidecar, resources: {limits: {cpu: 1000m}}}
`))
}

func TestCPW9_ErrorsOfAMutatorRefuse(t *testing.T) {
	g := NewWithT(t)
	w := mutating(t, func(context.Context, *controlplane.Context, *appsv1.Deployment, *appsv1.Deployment) error {
		return errors.New("there is no container kube-controller-manager")
	})
	answer, _ := handle(t, w, request(t, object(t, deployment), nil))
	g.Expect(answer.Denied.Code).To(BeEquivalentTo(http.StatusForbidden))
	g.Expect(answer.Denied.Reason).To(Equal(metav1.StatusReasonForbidden))
	g.Expect(answer.Denied.Message).To(Equal("there is no container kube-controller-manager"))
}

func TestCPW10_ClusterAndShoot(t *testing.T) {
	g := NewWithT(t)
	shoot := reader()
	called := 0
	see := func(ctx context.Context, c *controlplane.Context, _, _ *appsv1.Deployment) error {
		called++
		g.Expect(c.Shoot).To(BeIdenticalTo(shoot))
		g.Expect(c.Namespace).To(Equal(namespace))
		first, err := c.Cluster(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		second, err := c.Cluster(ctx)
		g.Expect(second).To(BeIdenticalTo(first))
		return err
	}
	var shootErr error
	define := func(objects ...client.Object) *controlplane.Webhook {
		return mutating(t, see, func(d *controlplane.Definition) {
			d.Reader, d.WithCluster = reader(objects...), true
			d.Shoot = func(context.Context, *admission.Request) (client.Reader, error) { return shoot, shootErr }
		})
	}
	answer, _ := handle(t, define(cluster()), request(t, object(t, deployment), nil))
	g.Expect(answer.Denied).To(BeNil())
	g.Expect(called).To(Equal(1))

	for name, w := range map[string]*controlplane.Webhook{
		"no cluster": define(),
		"no shoot": func() *controlplane.Webhook {
			shootErr = errors.New("not connected")
			return define(cluster())
		}(),
	} {
		_, err := w.Handler().Handle(t.Context(), request(t, object(t, deployment), nil))
		g.Expect(apierrors.IsInternalError(err)).To(BeTrue(), name) // 500, unless the policy is Ignore
	}
	g.Expect(called).To(Equal(1))
}

func TestClusterWithoutAReader(t *testing.T) {
	g := NewWithT(t)
	answer, _ := handle(t, define(t, &recorder{}, nil), request(t, object(t, configuration("reconcile", "new")), nil))
	g.Expect(answer.Denied.Message).To(Equal("the webhook was made without a reader"))
}

func TestValidators(t *testing.T) {
	g := NewWithT(t)
	w, err := controlplane.New(controlplane.Definition{
		Component: "provider-example", Provider: "example", Kind: controlplane.Backup,
		Validators: []controlplane.Validator{controlplane.Validate(deployments,
			func(_ context.Context, _ *controlplane.Context, object, _ *appsv1.Deployment) error {
				return fmt.Errorf("%s is refused", object.Name)
			})},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Validating()).To(BeTrue())
	answer, _ := handle(t, w, request(t, object(t, deployment), nil))
	g.Expect(answer.Denied.Message).To(Equal("kube-controller-manager is refused"))
}

// FuzzUnstructured has any document changed: what the patch makes of it is what the mutator did, and nothing else is
// lost.
func FuzzUnstructured(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"spec":{"l":[{"name":"a","x":1},{"name":"b"}]}}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"X","a/b":{"~":null},"spec":[[],{},1e99,"x"]}`))
	resource := controlplane.Resource{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "X"}, Plural: "xs"}
	change := func(object map[string]any) {
		object["added/~"] = []any{"x"}
		delete(object, "spec")
		if l, is := object["list"].([]any); is && len(l) > 1 {
			object["list"] = append(l[1:len(l):len(l)], "new")
		}
	}
	w, err := controlplane.New(controlplane.Definition{
		Component: "provider-example", Provider: "example", Kind: controlplane.Shoot,
		Mutators: []controlplane.Mutator{controlplane.For(resource,
			func(_ context.Context, _ *controlplane.Context, updated, _ *unstructured.Unstructured) error {
				change(updated.Object)
				return nil
			})},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		g := NewWithT(t)
		r := request(t, []byte(`{"apiVersion":"v1","kind":"X"}`), nil)
		r.Object.Raw = document
		answer, err := w.Handler().Handle(t.Context(), r)
		if err != nil || answer.Denied != nil {
			return
		}
		want := map[string]any{}
		g.Expect(json.Unmarshal(document, &want)).To(Succeed())
		change(want)
		changes, err := jsonpatch.DecodePatch(answer.Patch)
		g.Expect(err).NotTo(HaveOccurred())
		changed, err := changes.Apply(document)
		g.Expect(err).NotTo(HaveOccurred(), string(answer.Patch))
		text, err := json.Marshal(want)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(changed).To(MatchJSON(text), string(answer.Patch))
	})
}

func BenchmarkHandler(b *testing.B) {
	document := object(b, deployment)
	w := define(b, example.InShoot{}, nil)
	r := request(b, document, document)
	for b.Loop() {
		if answer, err := w.Handler().Handle(b.Context(), r); err != nil || len(answer.Patch) == 0 {
			b.Fatal(err, answer)
		}
	}
}
