package clustercache

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// noMetadata stands before a real API server and treats requests for the metadata of ConfigMaps like a server behind
// the aggregation layer that knows nothing of it.
type noMetadata struct {
	http.RoundTripper
	status int // of the answer; OK passes them on
	asked  *atomic.Int32
}

func (n noMetadata) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/configmaps") ||
		!strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return n.RoundTripper.RoundTrip(r)
	}
	n.asked.Add(1)
	if n.status == http.StatusOK {
		return n.RoundTripper.RoundTrip(r)
	}
	return &http.Response{
		StatusCode: n.status, Status: http.StatusText(n.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": []string{"text/plain"}},
		Body:   io.NopCloser(strings.NewReader("only the following media types are accepted: application/json")),
	}, nil
}

func TestRealKindThatIsNotServedAsMetadata(t *testing.T) {
	cp := realCluster(t)
	for name, status := range map[string]int{
		"not acceptable": http.StatusNotAcceptable,
		"unsupported":    http.StatusUnsupportedMediaType,
		"served":         http.StatusOK,
	} {
		t.Run(name, func(t *testing.T) {
			asked := &atomic.Int32{}
			h := start(t, Options{WrapTransport: func(_ ClusterKey, rt http.RoundTripper) http.RoundTripper {
				return noMetadata{RoundTripper: rt, status: status, asked: asked}
			}})
			ctx := context.Background()
			c, namespace := realNamespace(t, cp)
			h.Expect(c.Create(ctx, configMap(namespace, "one", "a"))).To(Succeed())
			key := h.register("real", cp.Kubeconfig())
			h.expectState(key, StateConnected)
			watch := func(name string) *recorder {
				r := newRecorder()
				h.watch(key, Watcher{
					Name: name, Kind: configMapKind, Namespace: namespace, MetadataOnly: true, Handler: r,
					Transform: func(obj client.Object) any {
						if partial, ok := obj.(*metav1.PartialObjectMetadata); ok && len(partial.ManagedFields) > 0 {
							return string(partial.UID)
						}
						return fmt.Sprintf("not what was asked for: %#v", obj)
					},
				})
				return r
			}
			lookup := func(w, name string) func() any {
				return func() any {
					value, _, _ := h.lookup(key, w, types.NamespacedName{Namespace: namespace, Name: name})
					return value
				}
			}
			r := watch("cm")
			h.Eventually(r.names).Should(ContainElement("one"))
			two := configMap(namespace, "two", "b")
			h.Expect(c.Create(ctx, two)).To(Succeed())
			h.Eventually(lookup("cm", "two")).Should(Equal(string(two.UID)))
			h.Expect(c.Delete(ctx, two)).To(Succeed())
			h.Eventually(r.names).ShouldNot(ContainElement("two"))
			h.Expect(r.errs).To(BeEmpty(), "the deletion is no error")

			before := asked.Load()
			h.Expect(before).NotTo(BeZero())
			again := watch("another")
			h.Eventually(again.syncs).Should(Equal(1))
			h.Eventually(lookup("another", "one")).Should(Equal(lookup("cm", "one")()))
			if status == http.StatusOK {
				h.Expect(asked.Load()).To(BeNumerically(">", before), "metadata is what is watched where it is served")
				return
			}
			h.Expect(asked.Load()).To(Equal(before), "it is remembered of the kind")
		})
	}
}

// What the metadata client sends is what an API server understands: it is written by client-go, and pinned here.
func TestWireFormOfTheMetadataClient(t *testing.T) {
	h, a, key := connected(t, Options{})
	type sent struct {
		method, path, contentType, accept string
		query                             url.Values
		body                              string
	}
	requests := make(chan sent, 1)
	a.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/configmaps/one") {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		requests <- sent{r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Accept"), r.URL.Query(),
			string(body)}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"one"}}`)
		return true
	})
	metadata, err := h.cache.GetMetadataClient(t.Context(), key)
	h.Expect(err).NotTo(HaveOccurred())
	one := metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	const path = "/api/v1/namespaces/default/configmaps/one"
	asMetadata := "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	force := true

	apply := `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"}}`
	_, err = one.Patch(t.Context(), "one", types.ApplyPatchType, []byte(apply), metav1.PatchOptions{
		FieldManager: "trellis", Force: &force, DryRun: []string{metav1.DryRunAll},
		FieldValidation: metav1.FieldValidationStrict,
	})
	h.Expect(err).NotTo(HaveOccurred())
	got := <-requests
	h.Expect(got.method + " " + got.path).To(Equal("PATCH " + path))
	h.Expect(got.contentType).To(Equal("application/apply-patch+yaml"))
	h.Expect(got.accept).To(HavePrefix(asMetadata))
	h.Expect(got.body).To(Equal(apply))
	h.Expect(got.query).To(Equal(url.Values{
		"fieldManager": {"trellis"}, "force": {"true"}, "dryRun": {"All"}, "fieldValidation": {"Strict"},
	}))

	for kind, contentType := range map[types.PatchType]string{
		types.JSONPatchType:  "application/json-patch+json",
		types.MergePatchType: "application/merge-patch+json",
	} {
		_, err = one.Patch(t.Context(), "one", kind, []byte("[]"), metav1.PatchOptions{FieldManager: "trellis"}, "status")
		h.Expect(err).NotTo(HaveOccurred())
		got = <-requests
		h.Expect(got.method + " " + got.path).To(Equal("PATCH " + path + "/status"))
		h.Expect(got.contentType).To(Equal(contentType))
		h.Expect(got.query).To(Equal(url.Values{"fieldManager": {"trellis"}}))
	}

	uid, version, orphan := types.UID("u"), "5", metav1.DeletePropagationOrphan
	h.Expect(one.Delete(t.Context(), "one", metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		PropagationPolicy: &orphan, DryRun: []string{metav1.DryRunAll},
	})).To(Succeed())
	got = <-requests
	h.Expect(got.method + " " + got.path).To(Equal("DELETE " + path))
	h.Expect(got.contentType).To(Equal("application/json"))
	h.Expect(got.query).To(BeEmpty())
	h.Expect(got.body).To(MatchJSON(`{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"],` +
		`"preconditions":{"uid":"u","resourceVersion":"5"},"propagationPolicy":"Orphan"}`))
}
