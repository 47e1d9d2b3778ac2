package mapperpool

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// benchmarked reads discovery through a client that has each answer at once, or after a while.
func benchmarked(b *testing.B, latency time.Duration, answer func(path string) (kind string, body []byte)) {
	b.Helper()
	client := &http.Client{Transport: answering(func(r *http.Request) *http.Response {
		time.Sleep(latency)
		recorder := httptest.NewRecorder()
		kind, body := answer(r.URL.Path)
		recorder.Header().Set("Content-Type", kind)
		_, _ = recorder.Write(body)
		return recorder.Result()
	})}
	b.ReportAllocs()
	for b.Loop() {
		m := New(Options{}).Mapper(b.Context(), &rest.Config{Host: "https://target"}, client, nil)
		if err := m.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// manyKinds are as many groups as a cluster with 1,000 CRDs may have, each with three kinds.
func manyKinds() []byte {
	var document apidiscovery.APIGroupDiscoveryList
	_ = json.Unmarshal(groupsOf(1000, 3, "Kind"), &document)
	for i := range document.Items {
		resources := document.Items[i].Versions[0].Resources
		for j := range resources {
			r := &resources[j]
			r.Verbs = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
			r.SingularResource, r.ShortNames, r.Categories = "kind", []string{"k"}, []string{"all"}
			r.Subresources = []apidiscovery.APISubresourceDiscovery{{
				Subresource: "status", ResponseKind: r.ResponseKind, Verbs: []string{"get", "patch", "update"},
			}}
		}
	}
	raw, _ := json.Marshal(document)
	return raw
}

func BenchmarkAggregatedDiscovery(b *testing.B) {
	document := manyKinds()
	b.SetBytes(int64(len(document)))
	benchmarked(b, 0, func(path string) (string, []byte) {
		if path == "/apis" {
			return aggregated, document
		}
		return aggregated, []byte(`{"items":null}`)
	})
}

func BenchmarkUnaggregatedDiscovery(b *testing.B) {
	var list metav1.APIGroupList
	for i := range 500 {
		name := fmt.Sprintf("g%d.example.com", i)
		version := metav1.GroupVersionForDiscovery{GroupVersion: name + "/v1", Version: "v1"}
		list.Groups = append(list.Groups, metav1.APIGroup{
			Name: name, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		})
	}
	groups, _ := json.Marshal(list)
	var of metav1.APIResourceList
	for i := range 3 {
		name := fmt.Sprintf("kind%ds", i)
		of.APIResources = append(of.APIResources,
			metav1.APIResource{
				Name: name, SingularName: "kind", Kind: fmt.Sprint("Kind", i), Namespaced: true,
				Verbs: []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
			},
			metav1.APIResource{
				Name: name + "/status", Kind: fmt.Sprint("Kind", i), Namespaced: true,
				Verbs: []string{"get", "patch", "update"},
			})
	}
	resources, _ := json.Marshal(of)
	for _, latency := range []time.Duration{0, 2 * time.Millisecond} {
		b.Run(latency.String(), func(b *testing.B) {
			benchmarked(b, latency, func(path string) (string, []byte) {
				switch {
				case path == "/api":
					return "application/json", []byte(`{"versions":[]}`)
				case path == "/apis":
					return "application/json", groups
				case strings.HasPrefix(path, "/apis/"):
					return "application/json", resources
				}
				return "text/plain", nil
			})
		})
	}
}
