package apply_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/apply"
)

const twice = "env: [{name: A, value: '1'}, {name: A, value: '2'}]"

func TestDuplicateKeysAreStillApplied(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	text := deploymentWith(ns, "", "replicas: 2", twice)
	first := run1(t, text)
	g.Expect(first.Err).NotTo(HaveOccurred())
	g.Expect(first.Duplicates).To(ConsistOf(ContainSubstring(`env: duplicate entries for key [name="A"]`)))
	obj := live(t, manifest(t, text))
	g.Expect(find(obj.Object, "spec|template|spec|containers|0|env|1|value")).To(Equal("2"))
	g.Expect(obj.GetAnnotations()).To(HaveKey(resourcesv1alpha1.OriginAnnotation))

	again := run1(t, text)
	g.Expect(again.Err).NotTo(HaveOccurred())
	g.Expect(again.ResourceVersion).To(Equal(first.ResourceVersion), "nothing is written where nothing differs")
	g.Expect(again.State).To(Equal(first.State))

	t.Run("what others change is undone", func(t *testing.T) {
		g := NewWithT(t)
		change(t, obj, "someone", `{"spec":{"replicas":5,"minReadySeconds":7},"metadata":{"labels":{"theirs":"1"}}}`)
		out := run1(t, text)
		g.Expect(out.Err).NotTo(HaveOccurred())
		g.Expect(out.TakenBack).NotTo(BeEmpty())
		now := live(t, obj)
		expectKept(g, now, kept{"spec|replicas": 2, "spec|minReadySeconds": nil, "metadata|labels|theirs": "1"})
		g.Expect(now.GetUID()).To(Equal(first.UID))
	})
	t.Run("a mended manifest is applied again", func(t *testing.T) {
		g := NewWithT(t)
		out := run1(t, deploymentWith(ns, "", "replicas: 2", "env: [{name: B, value: '1'}]"))
		g.Expect(out.Err).NotTo(HaveOccurred())
		g.Expect(out.Duplicates).To(BeEmpty())
		g.Expect(find(live(t, obj).Object, "spec|template|spec|containers|0|env")).To(Equal([]any{map[string]any{"name": "B", "value": "1"}}))
	})
	t.Run("a manifest that was applied and breaks", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(run1(t, text).Err).NotTo(HaveOccurred())
		g.Expect(find(live(t, obj).Object, "spec|template|spec|containers|0|env|1|value")).To(Equal("2"))
	})
}

// limited is a target whose server lacks some features.
type limited struct {
	base             http.RoundTripper
	refuseApply      int  // status of an answer to applies
	refuseMetadata   bool // answers 406 to those who want metadata only
	noManagedFields  bool
	updates, creates atomic.Int32
	requests         atomic.Int32
}

func (l *limited) RoundTrip(req *http.Request) (*http.Response, error) {
	l.requests.Add(1)
	accept := req.Header.Get("Accept")
	switch {
	case l.refuseMetadata && strings.Contains(accept, "PartialObjectMetadata"):
		return refusal(req, http.StatusNotAcceptable), nil
	case l.refuseApply != 0 && req.Method == http.MethodPatch:
		return refusal(req, l.refuseApply), nil
	case req.Method == http.MethodPut:
		l.updates.Add(1)
	case req.Method == http.MethodPost:
		l.creates.Add(1)
	}
	res, err := l.base.RoundTrip(req)
	if err != nil || !l.noManagedFields || req.Method == http.MethodDelete {
		return res, err
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	obj := map[string]any{}
	if json.Unmarshal(raw, &obj) == nil {
		unstructured.RemoveNestedField(obj, "metadata", "managedFields")
		if raw, err = json.Marshal(obj); err != nil {
			return nil, err
		}
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	res.Header.Del("Content-Length")
	return res, nil
}

func refusal(req *http.Request, code int) *http.Response {
	raw := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not here","code":%d}`, code)
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(raw)), ContentLength: int64(len(raw))}
}

func (l *limited) target(t testing.TB) apply.Target {
	t.Helper()
	config := rest.CopyConfig(cluster.RESTConfig())
	config.Wrap(func(base http.RoundTripper) http.RoundTripper { l.base = base; return l })
	config.ContentType = "application/json"
	md, err := metadata.NewForConfig(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{Mapper: access.Mapper})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return apply.Target{Metadata: md, Client: c, Mapper: access.Mapper}
}

func TestServersThatLackSomething(t *testing.T) {
	for name, l := range map[string]*limited{
		"no apply, 415":               {refuseApply: http.StatusUnsupportedMediaType},
		"no patches, 405":             {refuseApply: http.StatusMethodNotAllowed},
		"no metadata alone, 406":      {refuseMetadata: true},
		"no managed fields, no apply": {refuseApply: http.StatusUnsupportedMediaType, noManagedFields: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			target := l.target(t)
			ns := namespace(t)
			run := func(text string, uid types.UID) apply.Outcome {
				in := prepare(t, manifest(t, text))
				in[0].UID = uid
				return applier.Run(t.Context(), target, in, nil)[0]
			}
			first := run(configMap(ns, "a", "1"), "")
			g.Expect(first.Err).NotTo(HaveOccurred())
			g.Expect(first.UID).NotTo(BeEmpty())
			g.Expect(l.creates.Load()).To(BeEquivalentTo(1))
			second := run(configMap(ns, "a", "1"), first.UID)
			g.Expect(second.Err).NotTo(HaveOccurred())
			g.Expect(second.State).To(Equal(first.State))
			g.Expect(l.updates.Load()).To(BeZero(), "nothing differs")

			obj := live(t, manifest(t, configMap(ns, "a", "1")))
			change(t, obj, "someone", `{"data":{"key":"2","theirs":"x"},"metadata":{"labels":{"theirs":"1"},"finalizers":["example.com/theirs"]}}`)
			third := run(configMap(ns, "a", "1"), first.UID)
			g.Expect(third.Err).NotTo(HaveOccurred())
			g.Expect(third.State).NotTo(BeZero())
			now := live(t, obj)
			g.Expect(now.Object["data"]).To(Equal(map[string]any{"key": "1"}))
			g.Expect(now.GetLabels()).To(HaveKey("theirs"))
			g.Expect(now.GetFinalizers()).To(ConsistOf("example.com/theirs"))
			change(t, obj, "someone", `{"metadata":{"finalizers":null}}`)

			g.Expect(cluster.Client.Delete(t.Context(), obj)).To(Succeed())
			again := run(configMap(ns, "a", "1"), first.UID)
			g.Expect(again.Err).NotTo(HaveOccurred())
			g.Expect(again.UID).NotTo(Equal(first.UID))

			g.Expect(run(immutableMap(ns+"", "", "1"), again.UID).Err).NotTo(HaveOccurred())
			replaced := run(immutableMap(ns, "", "2"), again.UID)
			g.Expect(replaced.Err).NotTo(HaveOccurred())
			g.Expect(replaced.Recreated).To(BeTrue())
		})
	}
}
