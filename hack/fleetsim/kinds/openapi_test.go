package kinds_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
)

func TestOpenAPIHasEveryGroupVersion(t *testing.T) {
	g := NewWithT(t)
	registry, err := kinds.BuiltIn().With(definitions(g, widgets))
	g.Expect(err).NotTo(HaveOccurred())
	doc, ok := registry.OpenAPI("/openapi/v3")
	g.Expect(ok).To(BeTrue())
	var index handler3.OpenAPIV3Discovery
	g.Expect(json.Unmarshal(doc, &index)).To(Succeed())
	g.Expect(index.Paths).To(HaveKey("api/v1"))
	g.Expect(index.Paths).To(HaveKey("apis/kinds.example.org/v1beta1"))

	for path, entry := range index.Paths {
		g.Expect(entry.ServerRelativeURL).To(HavePrefix("/openapi/v3/" + path + "?hash="))
		doc, ok := registry.OpenAPI("/openapi/v3/" + path)
		g.Expect(ok).To(BeTrue(), path)
		var parsed spec3.OpenAPI
		g.Expect(json.Unmarshal(doc, &parsed)).To(Succeed(), path)
		g.Expect(parsed.Paths.Paths).NotTo(BeEmpty(), path)
		for _, reference := range strings.Split(string(doc), `"$ref":"#/components/schemas/`)[1:] {
			name, _, _ := strings.Cut(reference, `"`)
			g.Expect(parsed.Components.Schemas).To(HaveKey(name), path)
		}
	}
	for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/nothing/v1", "/openapi/v3/apis/apps"} {
		_, ok = registry.OpenAPI(path)
		g.Expect(ok).To(BeFalse(), path)
	}
}

func TestOpenAPISaysWhatKubectlAsks(t *testing.T) {
	g := NewWithT(t)
	registry, err := kinds.BuiltIn().With(definitions(g, widgets))
	g.Expect(err).NotTo(HaveOccurred())
	var apps, custom spec3.OpenAPI
	doc, _ := registry.OpenAPI("/openapi/v3/apis/apps/v1")
	g.Expect(json.Unmarshal(doc, &apps)).To(Succeed())
	doc, _ = registry.OpenAPI("/openapi/v3/apis/kinds.example.org/v1")
	g.Expect(json.Unmarshal(doc, &custom)).To(Succeed())

	patch := apps.Paths.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"].Patch
	g.Expect(patch.Extensions).To(HaveKeyWithValue("x-kubernetes-group-version-kind",
		map[string]any{"group": "apps", "version": "v1", "kind": "Deployment"}))
	var names []string
	for _, parameter := range patch.Parameters {
		names = append(names, parameter.Name)
	}
	g.Expect(names).To(ContainElement("fieldValidation"))
	g.Expect(apps.Components.Schemas["io.k8s.api.apps.v1.Deployment"].Extensions).To(HaveKey("x-kubernetes-group-version-kind"))
	containers := apps.Components.Schemas["io.k8s.api.core.v1.PodSpec"].Properties["containers"]
	g.Expect(containers.Extensions).To(HaveKeyWithValue("x-kubernetes-patch-merge-key", "name"))

	widget := custom.Components.Schemas["org.example.kinds.v1.Widget"]
	g.Expect(widget).NotTo(BeNil())
	spec := widget.Properties["spec"]
	g.Expect(spec.Required).To(ConsistOf("size"))
	g.Expect(custom.Paths.Paths).To(HaveKey("/apis/kinds.example.org/v1/namespaces/{namespace}/widgets/{name}/status"))
}
