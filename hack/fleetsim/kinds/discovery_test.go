package kinds_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
)

var update = flag.Bool("update", false, "write discovery/discovery.json again from what the real kube-apiserver serves")

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func TestServesWhatKubeAPIServerServes(t *testing.T) {
	g := NewWithT(t)
	actual, _ := startReal(t)
	var served []apidiscoveryv2.APIGroupDiscovery
	for _, path := range []string{"/api", "/apis"} {
		var list apidiscoveryv2.APIGroupDiscoveryList
		actual.get(g, path, aggregated, &list)
		for _, group := range list.Items {
			if strings.HasSuffix(group.Name, "example.org") {
				continue // of other tests
			}
			group.Versions = group.Versions[:1] // the preferred one
			served = append(served, group)
		}
	}
	if *update {
		g.Expect(os.WriteFile("discovery/discovery.json", compact(g, served), 0o600)).To(Succeed())
	}

	var simulated []apidiscoveryv2.APIGroupDiscovery
	for _, path := range []string{"/api", "/apis"} {
		doc, etag := kinds.BuiltIn().Aggregated(path)
		g.Expect(etag).To(MatchRegexp(`^"[0-9A-F]{128}"$`))
		var list apidiscoveryv2.APIGroupDiscoveryList
		g.Expect(json.Unmarshal(doc, &list)).To(Succeed())
		g.Expect(list.TypeMeta).To(Equal(metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}))
		simulated = append(simulated, list.Items...)
	}
	g.Expect(simulated).To(Equal(served))

	for _, group := range served {
		path := "/apis/" + group.Name + "/" + group.Versions[0].Version
		if group.Name == "" {
			path = "/api/v1"
		}
		var expected, got metav1.APIResourceList
		actual.get(g, path, "application/json", &expected)
		doc, ok := kinds.BuiltIn().Legacy(path)
		g.Expect(ok).To(BeTrue(), path)
		g.Expect(json.Unmarshal(doc, &got)).To(Succeed())
		g.Expect(got).To(Equal(expected), path)
	}
}

// compact writes a line for each resource.
func compact(g Gomega, groups []apidiscoveryv2.APIGroupDiscovery) []byte {
	var out bytes.Buffer
	line := func(prefix string, value any, suffix string) {
		doc, err := json.Marshal(value)
		g.Expect(err).NotTo(HaveOccurred())
		out.WriteString(prefix + string(doc) + suffix)
	}
	comma := func(i, n int) string {
		if i < n-1 {
			return ",\n"
		}
		return "\n"
	}
	out.WriteString("[\n")
	for i, group := range groups {
		version := group.Versions[0]
		line(`{"metadata":`, group.ObjectMeta, "")
		line(`,"versions":[{"version":`, version.Version, "")
		line(`,"freshness":`, version.Freshness, ",\"resources\":[\n")
		for j, resource := range version.Resources {
			line("", resource, comma(j, len(version.Resources)))
		}
		out.WriteString("]}]}" + comma(i, len(groups)))
	}
	out.WriteString("]\n")
	return out.Bytes()
}

func (w *server) get(g Gomega, path, accept string, into any) {
	req, err := http.NewRequest(http.MethodGet, w.host+path, nil)
	g.Expect(err).NotTo(HaveOccurred())
	req.Header.Set("Accept", accept)
	response, err := w.client.Do(req)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	g.Expect(json.NewDecoder(response.Body).Decode(into)).To(Succeed())
}

func TestDiscoveryOfCustomResources(t *testing.T) {
	g := NewWithT(t)
	registry, err := kinds.BuiltIn().With(definitions(g, widgets))
	g.Expect(err).NotTo(HaveOccurred())

	doc, etag := registry.Aggregated("/apis")
	var list apidiscoveryv2.APIGroupDiscoveryList
	g.Expect(json.Unmarshal(doc, &list)).To(Succeed())
	last := list.Items[len(list.Items)-1]
	g.Expect(last.Name).To(Equal("kinds.example.org"))
	g.Expect(last.Versions).To(HaveLen(2))
	g.Expect(last.Versions[0].Version).To(Equal("v1"), "a stable version comes before a beta")
	g.Expect(last.Versions[0].Resources[0].Subresources).To(HaveLen(2))
	_, builtIn := kinds.BuiltIn().Aggregated("/apis")
	g.Expect(etag).NotTo(Equal(builtIn))

	stale, staleTag := registry.Aggregated("/apis", schema.GroupVersion{Group: "kinds.example.org", Version: "v1"})
	list = apidiscoveryv2.APIGroupDiscoveryList{}
	g.Expect(json.Unmarshal(stale, &list)).To(Succeed())
	last = list.Items[len(list.Items)-1]
	g.Expect(last.Versions[0].Freshness).To(Equal(apidiscoveryv2.DiscoveryFreshnessStale))
	g.Expect(last.Versions[0].Resources).To(BeEmpty(), "%v", last)
	g.Expect(last.Versions[1].Freshness).To(Equal(apidiscoveryv2.DiscoveryFreshnessCurrent))
	g.Expect(staleTag).NotTo(Equal(etag))

	legacy, ok := registry.Legacy("/apis/kinds.example.org/v1")
	g.Expect(ok).To(BeTrue())
	var resources metav1.APIResourceList
	g.Expect(json.Unmarshal(legacy, &resources)).To(Succeed())
	g.Expect(resources.APIResources).To(HaveLen(3))
	for _, path := range []string{"/apis/kinds.example.org/v2", "/apis/nothing", "/api/v2", "/elsewhere"} {
		_, ok = registry.Legacy(path)
		g.Expect(ok).To(BeFalse(), path)
	}
	doc, _ = registry.Aggregated("/elsewhere")
	g.Expect(doc).To(BeNil())
}
