package writers

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The injector of cert-manager cannot run here without all of cert-manager. It writes in two ways, depending on a
// feature gate: it reads, sets the field and updates, or it applies nothing but the fields it wants. Both are played
// here.
const injector = "cert-manager-cainjector"

// authority and otherAuthority are certificates, because some kinds take nothing else.
func authority() string      { return base64.StdEncoding.EncodeToString(target.RESTConfig().CAData) }
func otherAuthority() string { return base64.StdEncoding.EncodeToString(source.RESTConfig().CAData) }

// injected is a kind with a place for a certificate authority.
type injected struct {
	manifest string
	// path is where the certificate authority is.
	path string
}

func injectedKinds() map[string]injected {
	webhook := func(kind, config string) injected {
		return injected{path: "webhooks.0.clientConfig.caBundle", manifest: "apiVersion: admissionregistration.k8s.io/v1\nkind: " + kind + `
metadata: {name: $ns-webhook}
webhooks:
- name: a.trellis.test
  clientConfig: {` + config + `service: {namespace: nowhere, name: nothing}}
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [{apiGroups: [nothing.trellis.test], apiVersions: [v1], operations: [CREATE], resources: [things], scope: "*"}]
`}
	}
	return map[string]injected{
		"MutatingWebhookConfiguration":                       webhook("MutatingWebhookConfiguration", ""),
		"ValidatingWebhookConfiguration":                     webhook("ValidatingWebhookConfiguration", ""),
		"ValidatingWebhookConfiguration with an empty field": webhook("ValidatingWebhookConfiguration", `caBundle: "", `),
		"APIService": {path: "spec.caBundle", manifest: `apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.$ns.trellis.test}
spec: {group: $ns.trellis.test, version: v1, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: nowhere, name: nothing}}
`},
		"conversion of a CustomResourceDefinition": {path: "spec.conversion.webhook.clientConfig.caBundle", manifest: `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.$ns.trellis.test}
spec:
  group: $ns.trellis.test
  scope: Cluster
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: nowhere, name: nothing}}}}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`},
	}
}

// inject writes a certificate authority into an object.
type inject func(p place, obj *unstructured.Unstructured, path, ca string)

var injectors = map[string]inject{
	"by update": func(p place, obj *unstructured.Unstructured, path, ca string) {
		p.update(obj, injector, func(content map[string]any) { put(content, path, ca) })
	},
	"by apply": func(p place, obj *unstructured.Unstructured, path, ca string) {
		body := map[string]any{"apiVersion": obj.GetAPIVersion(), "kind": obj.GetKind(), "metadata": map[string]any{"name": obj.GetName()}}
		if _, webhooks := obj.Object["webhooks"]; webhooks {
			body["webhooks"] = []any{map[string]any{"name": "a.trellis.test", "clientConfig": map[string]any{"caBundle": ca}}}
		} else {
			put(body, path, ca)
		}
		raw, err := json.Marshal(body)
		p.Expect(err).NotTo(HaveOccurred())
		p.Expect(target.Client.Patch(p.ctx, obj.DeepCopy(), client.RawPatch(types.ApplyPatchType, raw), client.FieldOwner(injector), client.ForceOwnership)).To(Succeed())
	},
}

func TestInjectedCertificateAuthoritiesStay(t *testing.T) {
	t.Parallel()
	for kind, test := range injectedKinds() {
		for how, inject := range injectors {
			t.Run(kind+" "+how, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				exception{
					manifests: test.manifest,
					write: func(p place, obj *unstructured.Unstructured) {
						inject(p, obj, test.path, authority())
						p.nudge(obj)                                // an injector is at work again and again
						inject(p, obj, test.path, otherAuthority()) // rotated
					},
					written: is(test.path, otherAuthority()), stays: []string{test.path}, manager: injector, extra: 1,
				}.run(p)
				p.dismiss("mr")
			})
		}
	}
}

// A certificate authority that the manifest brings is payload like any other. Then the injector has to be configured.
func TestCertificateAuthorityOfTheManifestWins(t *testing.T) {
	t.Parallel()
	for kind, test := range injectedKinds() {
		for how, inject := range injectors {
			t.Run(kind+" "+how, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				obj := p.objects(test.manifest)[0]
				put(obj.Object, test.path, otherAuthority())
				p.manage("mr", []*unstructured.Unstructured{obj})
				p.awaitApplied("mr")
				uid := p.live(obj).GetUID()
				inject(p, obj, test.path, authority())
				p.Eventually(func() any { return p.value(obj, test.path) }).Should(Equal(otherAuthority()))
				p.Eventually(p.corrections).Should(ContainElement(And(ContainSubstring(injector), ContainSubstring("caBundle"))))
				p.Expect(p.live(obj).GetUID()).To(Equal(uid))
				p.dismiss("mr")
			})
		}
	}
}
