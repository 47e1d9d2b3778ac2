package webhookregistration

import (
	"context"
	"net"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/deletionprotection"
	"github.com/trellis-hub/trellis/webhooks/extensionvalidation"
)

// setYAML switches webhooks on, by settings in YAML, with defaults.
func (b *bench) setYAML(in *twins.Target, settings string) {
	b.t.Helper()
	b.set(in, reviews.Webhooks(b.t, settings))
}

// stranger is a client with the rights of an administrator that is not the hub's user.
func (b *bench) stranger(in *twins.Target) client.Client {
	b.t.Helper()
	config := rest.CopyConfig(in.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: "user", Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{Scheme: scheme})
	b.Expect(err).NotTo(HaveOccurred())
	return c
}

// infrastructures defines the kind in a target until the test ends. Its CRD is protected.
func (b *bench) infrastructures(in *twins.Target) *apiextensionsv1.CustomResourceDefinition {
	b.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "infrastructures.extensions.gardener.cloud",
			Labels: map[string]string{deletionprotection.ProtectedLabel: "true"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "extensions.gardener.cloud", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: "Infrastructure", ListKind: "InfrastructureList", Plural: "infrastructures",
				Singular: "infrastructure",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
	admin, err := client.New(in.RESTConfig(), client.Options{Scheme: scheme})
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(admin.Create(b.ctx, crd)).To(Succeed())
	gone := func() bool {
		return apierrors.IsNotFound(admin.Get(context.Background(), client.ObjectKeyFromObject(crd),
			&apiextensionsv1.CustomResourceDefinition{}))
	}
	b.t.Cleanup(func() {
		// An API server takes a while to know that policies and configurations are gone.
		b.Eventually(func() error {
			return client.IgnoreNotFound(admin.Delete(context.Background(), crd))
		}).Should(Succeed())
		b.Eventually(gone).Should(BeTrue())
	})
	b.Eventually(func() error { return admin.List(b.ctx, infrastructureList()) }).Should(Succeed())
	return crd
}

func infrastructureList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("extensions.gardener.cloud/v1alpha1")
	list.SetKind("InfrastructureList")
	return list
}

// infrastructure is valid if it has a region.
func infrastructure(name, region string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Infrastructure",
		"metadata": map[string]any{"namespace": "default", "name": name},
		"spec": map[string]any{
			"type": "aws", "region": region, "secretRef": map[string]any{"name": "s", "namespace": "default"},
		},
	}}
}

// CDP-15, EXV-1, EXV-2, HUB-7: an API server has the hub validate what it is for. What can stop a target comes last.
func TestValidatingWebhooks(t *testing.T) {
	b := newBench(t, nil)
	b.others = []admission.Webhook{
		deletionprotection.Webhook(deletionprotection.NewLister(shared.Clusters)), extensionvalidation.Webhook(),
	}
	crd := b.infrastructures(shared.B)
	user := b.stranger(shared.B)
	address := b.listener.Addr().String()
	b.Expect(b.listener.Close()).To(Succeed())
	const settings = "{crdDeletionProtection: {enabled: true, mode: Webhook}, extensionValidation: {enabled: true}"
	b.setYAML(shared.B, settings+"}")
	b.start(nil)
	b.Eventually(b.condition(shared.B)).Should(Equal("False WebhooksUnreachable"))
	mutating, validating := b.names(shared.B)
	b.Expect(mutating).To(BeEmpty())
	b.Expect(validating).To(HaveLen(1+2+12), "the probe, two of protection, a kind each")
	for _, name := range validating[1:] {
		b.Expect(name).To(HavePrefix(ownPrefix), "none has the policy Fail")
	}
	b.Expect(user.Create(b.ctx, infrastructure("invalid", ""))).To(Succeed())
	b.Expect(user.Delete(b.ctx, infrastructure("invalid", ""))).To(Succeed())

	listener, err := net.Listen("tcp", address)
	b.Expect(err).NotTo(HaveOccurred())
	_, stop := b.serve(listener)
	b.setYAML(shared.B, settings+", registration: {timeoutSeconds: 9}}") // a change has it tried again
	b.Eventually(b.condition(shared.B)).Should(Equal(registered))
	_, validating = b.names(shared.B)
	b.Expect(validating).To(HaveLen(1 + 2*(2+12)))
	protection := []string{"crd-deletion-protection" + domain, "cr-deletion-protection" + domain}
	b.Expect(validating[:5]).To(Equal([]string{
		probeEntry, protection[0], ownPrefix + protection[0], protection[1], ownPrefix + protection[1],
	}))
	for _, name := range validating[5:] {
		b.Expect(strings.TrimPrefix(name, ownPrefix)).To(HavePrefix("validation.extensions."))
	}

	t.Log("What is not valid is refused, also to the hub")
	b.Eventually(func() error { return user.Create(b.ctx, infrastructure("a", ""), client.DryRunAll) }).Should(
		MatchError(And(ContainSubstring("spec.region"), ContainSubstring("Required"))))
	b.Expect(apierrors.IsInvalid(shared.B.Client.Create(b.ctx, infrastructure("a", "")))).To(BeTrue())
	for _, name := range []string{"a", "b"} {
		b.Expect(user.Create(b.ctx, infrastructure(name, "eu"))).To(Succeed())
	}
	changed := infrastructure("a", "us")
	b.Expect(user.Get(b.ctx, client.ObjectKeyFromObject(changed), changed)).To(Succeed())
	b.Expect(unstructured.SetNestedField(changed.Object, "us", "spec", "region")).To(Succeed())
	b.Expect(user.Update(b.ctx, changed)).To(MatchError(ContainSubstring("spec.region")))

	t.Log("What is not confirmed is not deleted")
	refused := And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("annotation to delete")))
	confirm := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`))
	all := func() error {
		return user.DeleteAllOf(b.ctx, infrastructure("", ""), client.InNamespace("default"))
	}
	b.Expect(user.Delete(b.ctx, crd)).To(refused)
	b.Expect(user.Delete(b.ctx, infrastructure("a", ""))).To(refused)
	b.Expect(all()).To(refused)
	b.Expect(user.Patch(b.ctx, infrastructure("a", ""), confirm)).To(Succeed())
	b.Expect(all()).To(refused, "one of a collection is not confirmed")
	left := infrastructureList()
	b.Expect(user.List(b.ctx, left)).To(Succeed())
	b.Expect(left.Items).To(HaveLen(2), "all of a collection go, or none")
	b.Expect(user.Patch(b.ctx, infrastructure("b", ""), confirm)).To(Succeed())
	b.Expect(all()).To(Succeed())

	t.Log("A hub that is down stops others, but not itself")
	stop()
	b.Eventually(func() error { return user.Create(b.ctx, infrastructure("c", "eu"), client.DryRunAll) }).Should(
		MatchError(ContainSubstring("failed calling webhook")))
	b.Expect(shared.B.Client.Create(b.ctx, infrastructure("c", "eu"), client.DryRunAll)).To(Succeed())
	b.switchOff(shared.B)
	b.Eventually(b.condition(shared.B)).Should(BeEmpty())
	b.Eventually(func() error {
		return user.Create(b.ctx, infrastructure("c", ""), client.DryRunAll)
	}).Should(Succeed())
}
