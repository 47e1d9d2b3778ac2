package patching_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/clustercache/internal/patching"
)

// seen is a request as a server sees it.
type seen struct {
	method, path, query, accept, contentType, agent, body string
}

// server answers with what it is given, and notes what it was asked.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []seen
	answer   http.HandlerFunc
}

func newServer(t testing.TB, answer http.HandlerFunc) *server {
	s := &server{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests = append(s.requests, seen{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Accept"), r.Header.Get("Content-Type"), r.UserAgent(), string(body)})
		s.mu.Unlock()
		s.answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) asked() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.requests
	s.requests = nil
	return asked
}

// clients returns the client of this package, and the one that it stands in for.
func (s *server) clients(t testing.TB, path string) (ours, theirs metadata.Interface) {
	g := NewWithT(t)
	config := &rest.Config{Host: s.URL + path, QPS: -1, UserAgent: "test", WarningHandlerWithContext: rest.NoWarnings{}}
	client, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	theirs, err = metadata.NewForConfigAndClient(config, client)
	g.Expect(err).NotTo(HaveOccurred())
	base, err := url.Parse(s.URL + path)
	g.Expect(err).NotTo(HaveOccurred())
	return patching.New(theirs, client, base), theirs
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

func sample() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}}
	o.Name, o.Namespace, o.UID, o.ResourceVersion, o.Generation = "a", "ns", "uid", "7", 3
	o.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	o.Labels, o.Annotations, o.Finalizers = map[string]string{"a": "b"}, map[string]string{"c": "<d>"}, []string{"e"}
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "f", UID: "g", Controller: ptr.To(true)}}
	o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Apply", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}}
	return o
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // they are all API types
	}
	return string(text)
}

func asProtobuf(kind string, value interface{ Marshal() ([]byte, error) }) string {
	raw, err := value.Marshal()
	if err != nil {
		panic(err)
	}
	version := map[string]string{"PartialObjectMetadata": "meta.k8s.io/v1", "Status": "v1"}[kind]
	wrapped, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		panic(err)
	}
	return "k8s\x00" + string(wrapped)
}

func status(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: code, Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Name: "a", Kind: "deployments", Causes: []metav1.StatusCause{{Type: "FieldValueInvalid", Field: "spec", Message: "no"}}},
	}
}

func TestRequestsAreThoseOfClientGo(t *testing.T) {
	for name, c := range map[string]struct {
		path, namespace, object string
		resource                schema.GroupVersionResource
		options                 metav1.PatchOptions
		subresources            []string
	}{
		"an apply":                       {"", "ns", "a", deployments, metav1.PatchOptions{FieldManager: "trellis", Force: ptr.To(true)}, nil},
		"of the core group":              {"", "ns", "a", schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, metav1.PatchOptions{FieldManager: "a b&c=d/é"}, nil},
		"without a namespace":            {"", "", "a.b.c", schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, metav1.PatchOptions{}, nil},
		"with colons":                    {"", "", "system:controller:a b+c?d#e", schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, metav1.PatchOptions{Force: ptr.To(false)}, nil},
		"beneath a path":                 {"/k8s/clusters/c-1", "ns", "a", deployments, metav1.PatchOptions{FieldManager: "trellis"}, nil},
		"beneath a path and a slash":     {"/proxy/", "ns", "a", deployments, metav1.PatchOptions{FieldManager: "trellis"}, nil},
		"beneath a slash":                {"/", "ns", "a", deployments, metav1.PatchOptions{}, nil},
		"a name that climbs":             {"", "ns", "../../b", deployments, metav1.PatchOptions{}, nil},
		"a name that is above":           {"", "ns", "..", deployments, metav1.PatchOptions{}, nil},
		"a name with a percent sign":     {"", "ns", "a%2fb", deployments, metav1.PatchOptions{}, nil},
		"a namespace that climbs":        {"", "../x", "a", deployments, metav1.PatchOptions{}, nil},
		"a subresource":                  {"", "ns", "a", deployments, metav1.PatchOptions{}, []string{"status"}},
		"a dry run":                      {"", "ns", "a", deployments, metav1.PatchOptions{DryRun: []string{"All"}, FieldManager: "x"}, nil},
		"with a validation":              {"", "ns", "a", deployments, metav1.PatchOptions{FieldValidation: "Strict"}, nil},
		"no name, which is not sent off": {"", "ns", "", deployments, metav1.PatchOptions{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, asJSON(sample()))
			})
			ours, theirs := s.clients(t, c.path)
			send := func(client metadata.Interface) ([]seen, error) {
				var r metadata.ResourceInterface = client.Resource(c.resource)
				if c.namespace != "" {
					r = client.Resource(c.resource).Namespace(c.namespace)
				}
				_, err := r.Patch(t.Context(), c.object, types.ApplyPatchType, []byte(`{"a":1}`), c.options, c.subresources...)
				return s.asked(), err
			}
			want, wantErr := send(theirs)
			got, err := send(ours)
			g.Expect(got).To(Equal(want))
			if wantErr == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(wantErr.Error()))
			}
		})
	}
}

func TestAnswersAreThoseOfClientGo(t *testing.T) {
	whole := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":` + asJSON(sample().ObjectMeta) + `,"spec":{"replicas":1},"status":{}}`
	for name, c := range map[string]struct {
		code      int
		kind      string
		text      string
		otherwise string // part of the error, if it is in other words
	}{
		"metadata":                   {code: 200, kind: "application/json", text: asJSON(sample())},
		"metadata of a new object":   {code: 201, kind: "application/json", text: asJSON(sample())},
		"metadata in protobuf":       {code: 200, kind: "application/vnd.kubernetes.protobuf", text: asProtobuf("PartialObjectMetadata", sample())},
		"a whole object":             {code: 200, kind: "application/json; charset=utf-8", text: whole},
		"nothing":                    {code: 200, kind: "application/json", otherwise: "reading the answer"},
		"no object":                  {code: 200, kind: "application/json", text: `{"apiVersion":"a/b","kind":"C"}`, otherwise: "not an object"},
		"a success":                  {code: 200, kind: "application/json", text: `{"apiVersion":"v1","kind":"Status","status":"Success"}`, otherwise: "not an object"},
		"no JSON":                    {code: 200, kind: "application/json", text: `<html>`, otherwise: "reading the answer"},
		"no protobuf":                {code: 200, kind: "application/vnd.kubernetes.protobuf", text: `{}`, otherwise: "reading the answer"},
		"protobuf of another kind":   {code: 200, kind: "application/vnd.kubernetes.protobuf", text: asProtobuf("Status", status(200, "", "")), otherwise: "it is of kind"},
		"a conflict":                 {code: 409, kind: "application/json", text: asJSON(status(409, metav1.StatusReasonConflict, "too late"))},
		"a refusal":                  {code: 422, kind: "application/json", text: asJSON(status(422, metav1.StatusReasonInvalid, "is invalid"))},
		"a refusal in protobuf":      {code: 422, kind: "application/vnd.kubernetes.protobuf", text: asProtobuf("Status", status(422, metav1.StatusReasonInvalid, "is invalid"))},
		"nothing there":              {code: 404, kind: "text/plain", text: "404 page not found\n"},
		"forbidden in HTML":          {code: 403, kind: "text/html", text: "<html>" + strings.Repeat("x", 5000)},
		"unauthorized":               {code: 401, kind: "application/json", text: asJSON(status(401, metav1.StatusReasonUnauthorized, "Unauthorized"))},
		"an error of the server":     {code: 500, kind: "application/json", text: asJSON(status(500, metav1.StatusReasonInternalError, "boom"))},
		"an error without words":     {code: 503, kind: "application/json"},
		"busy without a time":        {code: 429, kind: "text/plain", text: "too many"},
		"an unsupported patch":       {code: 415, kind: "application/json", text: asJSON(status(415, metav1.StatusReasonUnsupportedMediaType, "no apply"))},
		"an unacceptable form":       {code: 406, kind: "application/json", text: asJSON(status(406, metav1.StatusReasonNotAcceptable, "no metadata"))},
		"an error that is no status": {code: 400, kind: "application/json", text: `{"a":"b"}`},
		"an error that is no JSON":   {code: 400, kind: "application/json", text: `nope`},
		"leading elsewhere":          {code: 304, kind: "text/plain"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.text)
			})
			ours, theirs := s.clients(t, "")
			send := func(client metadata.Interface) (*metav1.PartialObjectMetadata, error) {
				return client.Resource(deployments).Namespace("ns").Patch(t.Context(), "a", types.ApplyPatchType, []byte(`{}`), metav1.PatchOptions{})
			}
			want, wantErr := send(theirs)
			got, err := send(ours)
			g.Expect(s.asked()).To(HaveLen(2))
			if wantErr == nil {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got).To(Equal(want))
				return
			}
			g.Expect(got).To(BeNil())
			if c.otherwise != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.otherwise)), "client-go says %v", wantErr)
				return
			}
			g.Expect(err).To(Equal(wantErr))
		})
	}
}

func TestABusyServerIsLeftToClientGo(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		g := NewWithT(t)
		var asked atomic.Int32
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if asked.Add(1) < 3 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(code)
				return
			}
			_, _ = io.WriteString(w, asJSON(sample()))
		})
		ours, _ := s.clients(t, "")
		got, err := ours.Resource(deployments).Namespace("ns").Patch(t.Context(), "a", types.ApplyPatchType, []byte(`{"a":1}`), metav1.PatchOptions{FieldManager: "x"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.UID).To(BeEquivalentTo("uid"))
		requests := s.asked()
		g.Expect(requests).To(HaveLen(3))
		g.Expect(requests[1]).To(Equal(requests[0]))
		g.Expect(requests[2]).To(Equal(requests[0]))
	}
}

func TestABusyServerIsGivenItsTime(t *testing.T) {
	g := NewWithT(t)
	var mu sync.Mutex
	var asked []time.Time
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, time.Now())
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("fieldManager") == "busy":
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		case len(asked) == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusInternalServerError)
		default:
			_, _ = io.WriteString(w, asJSON(sample()))
		}
	})
	ours, _ := s.clients(t, "")
	send := func(ctx context.Context, manager string) error {
		_, err := ours.Resource(deployments).Namespace("ns").Patch(ctx, "a", types.ApplyPatchType, []byte(`{}`), metav1.PatchOptions{FieldManager: manager})
		return err
	}
	g.Expect(send(t.Context(), "x")).To(Succeed())
	g.Expect(asked).To(HaveLen(2))
	g.Expect(asked[1].Sub(asked[0])).To(BeNumerically(">=", time.Second))

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	g.Expect(send(ctx, "busy")).To(MatchError(context.DeadlineExceeded))
	g.Expect(asked).To(HaveLen(3))
}

func TestAnAnswerThatDoesNotCome(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("fieldManager") {
		case "hangs":
			<-r.Context().Done()
		case "breaks":
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "{")
		case "floods":
			_, _ = w.Write(bytes.Repeat([]byte(" "), 17<<20))
		}
	})
	ours, _ := s.clients(t, "")
	send := func(ctx context.Context, how string) error {
		_, err := ours.Resource(deployments).Patch(ctx, "a", types.ApplyPatchType, []byte(`{}`), metav1.PatchOptions{FieldManager: how})
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := send(ctx, "hangs")
	var call *url.Error
	g.Expect(err).To(BeAssignableToTypeOf(call))
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	g.Expect(send(ctx, "hangs")).To(Equal(context.DeadlineExceeded), "nothing is sent")
	g.Expect(send(t.Context(), "breaks")).To(MatchError(io.ErrUnexpectedEOF))
	g.Expect(send(t.Context(), "floods")).To(MatchError(ContainSubstring("more than")))
	s.Close()
	g.Expect(send(t.Context(), "gone")).To(BeAssignableToTypeOf(call))
}

func TestTheRestIsThatOfClientGo(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, asJSON(sample()))
	})
	ours, _ := s.clients(t, "")
	got, err := ours.Resource(deployments).Namespace("ns").Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Name).To(Equal("a"))
	g.Expect(ours.Resource(deployments).Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
	s.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	_, err = ours.Resource(deployments).Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

func BenchmarkPatch(b *testing.B) {
	answer := asJSON(sample())
	body := []byte(`{"data":"` + strings.Repeat("x", 2500) + `"}`)
	client := &http.Client{Transport: roundTripper(func(r *http.Request) *http.Response {
		_, _ = io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}
	})}
	config := &rest.Config{Host: "https://target:6443", QPS: -1, WarningHandlerWithContext: rest.NoWarnings{}}
	theirs, err := metadata.NewForConfigAndClient(config, client)
	if err != nil {
		b.Fatal(err)
	}
	base := &url.URL{Scheme: "https", Host: "target:6443", Path: "/"}
	for name, c := range map[string]metadata.Interface{"client-go": theirs, "patching": patching.New(theirs, client, base)} {
		b.Run(name, func(b *testing.B) {
			r := c.Resource(deployments).Namespace("ns")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Patch(context.Background(), "a", types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "trellis", Force: ptr.To(true)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type roundTripper func(*http.Request) *http.Response

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	return r(request), nil
}
