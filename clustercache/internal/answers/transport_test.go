package answers

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/untrusted"
)

// answer is what a server answers to everything.
type answer struct {
	code        int
	contentType string
	encoding    string
	header      http.Header
	body        []byte // sent repeatedly if it is endless
	endless     bool
	zipped      bool // if the client asks for it
}

func (a answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	contentType := a.contentType
	if contentType == "" {
		contentType = mediaJSON
	}
	w.Header().Set("Content-Type", contentType)
	var to io.Writer = w
	if a.zipped && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		defer func() { _ = zip.Close() }()
		to = zip
	}
	if a.encoding != "" {
		w.Header().Set("Content-Encoding", a.encoding)
	}
	w.WriteHeader(max(a.code, http.StatusOK))
	for {
		if _, err := to.Write(a.body); err != nil || !a.endless {
			return
		}
	}
}

// protocols are how a server can be spoken to.
var protocols = map[string]bool{"HTTP/1.1": false, "HTTP/2": true}

// serve starts a server, and returns a transport towards it.
func serve(t *testing.T, http2 bool, handler http.Handler) *Transport {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	next := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: http2}
	t.Cleanup(func() {
		server.CloseClientConnections()
		next.CloseIdleConnections()
	})
	owner := types.NamespacedName{Namespace: "ns", Name: "target"}
	return &Transport{Next: next, Base: base, Budget: NewBudget(), Owner: owner}
}

// ask sends a request and reads the answer.
func ask(
	ctx context.Context, via *Transport, method, path string, header http.Header,
) (read []byte, response *http.Response, err error) {
	request, err := http.NewRequestWithContext(ctx, method, via.Base.String()+path, nil)
	if err != nil {
		return nil, nil, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err = via.RoundTrip(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	read, err = io.ReadAll(response.Body)
	return read, response, err
}

const configMap = "/api/v1/namespaces/default/configmaps/one"

func gzipped(data []byte) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	_, _ = zip.Write(data) // into memory
	_ = zip.Close()
	return out.Bytes()
}

func TestHostileAnswersAreRefused(t *testing.T) {
	begin := func(text string, a answer) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", mediaJSON)
			if a.zipped && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				w.Header().Set("Content-Encoding", "gzip")
				text, body := gzipped([]byte(text)), gzipped(a.body) // members of one stream
				_, err := w.Write(text)
				for err == nil {
					_, err = w.Write(body)
				}
				return
			}
			_, err := w.Write([]byte(text))
			for err == nil {
				_, err = w.Write(a.body)
			}
		})
	}
	empty := bytes.Repeat([]byte(`{},`), 1<<10)
	conditions := bytes.Repeat([]byte(`{"type":"a"},`), 1<<10)
	spaces := bytes.Repeat([]byte(" "), 16<<10)
	for name, c := range map[string]struct {
		text string
		body []byte
		what string
	}{
		"empty objects":         {`{"items":[`, empty, "elements"},
		"conditions":            {`{"status":{"conditions":[`, conditions, "elements"},
		"managed fields":        {`{"metadata":{"managedFields":[`, empty, "elements"},
		"spaces without end":    {`{`, spaces, "bytes"},
		"a string without end":  {`{"a":"`, bytes.Repeat([]byte("a"), 16<<10), "bytes"},
		"nesting without end":   {`{"a":`, bytes.Repeat([]byte("["), 1<<10), "levels of nesting"},
		"objects without end":   {``, bytes.Repeat([]byte(`{"a":`), 1<<10), "levels of nesting"},
		"numbers":               {`[`, bytes.Repeat([]byte("0,"), 1<<10), "elements"},
		"items with a name":     {`{"items":[`, bytes.Repeat([]byte(`{"metadata":{"name":"a"}},`), 1<<10), "elements"},
		"texts of a megabyte":   {`["`, append(bytes.Repeat([]byte("a"), 1<<20), `","`...), "bytes"},
		"escapes without end":   {`["`, bytes.Repeat([]byte(`\"`), 1<<13), "bytes"},
		"brackets after quotes": {`["\"",`, empty, "elements"},
	} {
		for protocol, http2 := range protocols {
			for _, zipped := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, zipped %t", name, protocol, zipped), func(t *testing.T) {
					via := serve(t, http2, begin(c.text, answer{body: c.body, zipped: zipped}))
					for request, path := range map[string]string{
						"GET":    configMap,
						"PATCH":  configMap,
						"POST":   "/apis/authentication.k8s.io/v1/selfsubjectreviews",
						"DELETE": configMap,
						"LIST":   "/api/v1/configmaps?limit=500",
						"GET ":   "/apis",
						"GET  ":  "/version",
						"WATCH":  "/api/v1/configmaps?watch=true",
					} {
						if request != "GET" && c.what == "bytes" {
							continue // each takes 8 MiB
						}
						g := NewWithT(t)
						method := strings.TrimSpace(request)
						if method == "LIST" || method == "WATCH" {
							method = http.MethodGet
						}
						_, _, err := ask(t.Context(), via, method, path, nil)
						g.Expect(err).To(MatchError(untrusted.ErrExceeded), path)
						g.Expect(IsRefused(err)).To(BeTrue())
						named := strings.Split(path, "?")[0]
						says := "the answer to " + method + " " + named + " is not accepted"
						g.Expect(err).To(MatchError(ContainSubstring(says)))
						if path == configMap {
							g.Expect(err).To(MatchError(ContainSubstring(c.what)))
						}
						g.Expect(via.Budget.Held()).To(BeZero(), "seats are given back")
					}
				})
			}
		}
	}
}

func TestEncodingsThatWereNotAskedForAreRefused(t *testing.T) {
	var unzipped bytes.Buffer
	zip := gzip.NewWriter(&unzipped)
	_, _ = zip.Write([]byte("{}"))
	_ = zip.Close()
	protobuf := answer{contentType: mediaProtobuf, body: []byte("k8s\x00")}
	cbor := answer{contentType: "application/cbor", body: []byte("\xa0")}
	asItIs := http.Header{"Accept-Encoding": {"identity"}}
	accept := func(media string) http.Header { return http.Header{"Accept": {media}} }
	for name, c := range map[string]struct {
		answer answer
		header http.Header
	}{
		"protobuf":            {protobuf, nil},
		"protobuf, preferred": {protobuf, accept(mediaProtobuf + ", */*")},
		"CBOR":                {cbor, accept("application/cbor,*/*")},
		"YAML":                {answer{contentType: "application/yaml", body: []byte("a: &a [*a]")}, nil},
		"HTML":                {answer{contentType: "text/html", body: []byte("<html>")}, nil},
		"gzip":                {answer{encoding: "gzip", body: unzipped.Bytes()}, asItIs},
		"deflate":             {answer{encoding: "deflate", body: []byte("x")}, nil},
		"gzip, twice":         {answer{encoding: "gzip, gzip", body: unzipped.Bytes()}, nil},
	} {
		for protocol, http2 := range protocols {
			t.Run(name+", "+protocol, func(t *testing.T) {
				g := NewWithT(t)
				via := serve(t, http2, c.answer)
				_, _, err := ask(t.Context(), via, http.MethodGet, configMap, c.header)
				g.Expect(err).To(BeAssignableToTypeOf(&Error{}))
				g.Expect(err).To(MatchError(ContainSubstring("which was not asked for")))
			})
		}
	}
}

func TestRequestsAskForJSON(t *testing.T) {
	const metadata = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for name, c := range map[string]struct {
		accept, want string
		counted      bool
	}{
		"none":     {"", "application/json", false},
		"anything": {"*/*", "application/json", false},
		"JSON":     {"application/json", "application/json", false},
		"protobuf": {mediaProtobuf + ", */*", "application/json", false},
		"metadata": {
			mediaProtobuf + metadata + "," + mediaJSON + metadata + "," + mediaJSON,
			mediaJSON + metadata + "," + mediaJSON, false,
		},
		"counted protobuf": {mediaProtobuf + ",application/json", mediaProtobuf + ",application/json", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var got string
			via := serve(t, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r.Header.Get("Accept")
				w.Header().Set("Content-Type", mediaJSON)
				_, _ = w.Write([]byte("{}"))
			}))
			ctx := t.Context()
			if c.counted {
				ctx = Counted(ctx)
			}
			_, _, err := ask(ctx, via, http.MethodGet, configMap, http.Header{"Accept": {c.accept}})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(c.want))
		})
	}
}

func TestHonestAnswersPass(t *testing.T) {
	definition := []byte(`{"a":[` + strings.Repeat(`{"description":"what it is","type":"string"},`, 40_000) + `0]}`)
	schema := strings.Repeat(`{"properties":`, 400) + "1" + strings.Repeat("}", 400)
	event := fmt.Sprintf(`{"a":%q}`+"\n", strings.Repeat("a", 1<<20))
	for name, c := range map[string]struct {
		path string
		body []byte
	}{
		"an object of 8 MB":          {configMap, fmt.Appendf(nil, `{"a":%q}`, strings.Repeat("a", 8_000_000))},
		"a dense definition":         {"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/one", definition},
		"a page of 500 objects":      {"/api/v1/pods?limit=500", pageOf(500)},
		"discovery of 1,000 kinds":   {"/apis", discoveryOf(1000)},
		"a deeply nested schema":     {configMap, []byte(schema)},
		"the version":                {"/version", []byte(`{"gitVersion":"v1.36.3"}`)},
		"watch events, 20 MB in all": {"/api/v1/pods?watch=1", []byte(strings.Repeat(event, 20))},
	} {
		for protocol, http2 := range protocols {
			for _, zipped := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, zipped %t", name, protocol, zipped), func(t *testing.T) {
					g := NewWithT(t)
					via := serve(t, http2, answer{body: c.body, zipped: zipped})
					read, _, err := ask(t.Context(), via, http.MethodGet, c.path, nil)
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(bytes.Equal(read, c.body)).To(BeTrue())
					g.Expect(via.Budget.Held()).To(BeZero())
				})
			}
		}
	}
}

func pageOf(items int) []byte {
	fields := strings.Repeat(`"f:a":{},`, 50)
	entry := `{"manager":"m","operation":"Update","fieldsV1":{"f:data":{` + fields + `"f:b":{}}}}`
	item := `{"metadata":{"name":"a","labels":{"a":"b"},"managedFields":[` + entry + `]}}`
	return []byte(`{"items":[` + strings.Repeat(item+",", items-1) + item + `]}`)
}

func discoveryOf(kinds int) []byte {
	kind := `"responseKind":{"group":"a","version":"v1","kind":"Thing"}`
	resource := `{"resource":"things",` + kind + `,"scope":"Namespaced","singularResource":"thing",` +
		`"verbs":["delete","deletecollection","get","list","patch","create","update","watch"],"shortNames":["t"],` +
		`"categories":["all"],"subresources":[{"subresource":"status",` + kind + `,"verbs":["get","patch","update"]}]}`
	group := `{"metadata":{"name":"example.org"},"versions":[{"version":"v1","resources":[` + resource + `]}]}`
	return []byte(`{"items":[` + strings.Repeat(group+",", kinds-1) + group + `]}`)
}

func TestErrorsAreBounded(t *testing.T) {
	status := func(s metav1.Status) []byte {
		s.Kind, s.APIVersion, s.Status = "Status", "v1", metav1.StatusFailure
		raw, err := json.Marshal(s)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return raw
	}
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "one").ErrStatus
	var causes []metav1.StatusCause
	for range 300 {
		causes = append(causes, metav1.StatusCause{Message: strings.Repeat("c", 100), Field: "f"})
	}
	long := status(metav1.Status{Message: strings.Repeat("m\n", 10_000), Reason: "Invalid"})
	caused := status(metav1.Status{Message: "m", Details: &metav1.StatusDetails{Causes: causes}})
	endless := []byte(`{"kind":"Status","message":"` + strings.Repeat("m", 1<<20))
	no := status(metav1.Status{Message: "no"})
	for name, c := range map[string]struct {
		answer answer
		expect func(g Gomega, s metav1.Status, raw []byte)
	}{
		"as it is": {answer{code: 404, body: status(notFound)}, func(g Gomega, s metav1.Status, _ []byte) {
			g.Expect(s.Message).To(Equal(notFound.Message))
			g.Expect(s.Reason).To(Equal(metav1.StatusReasonNotFound))
			g.Expect(s.Details.Name).To(Equal("one"))
		}},
		"a long message": {answer{code: 422, body: long},
			func(g Gomega, s metav1.Status, _ []byte) {
				g.Expect(len(s.Message)).To(BeNumerically("<=", untrusted.MaxMessage))
				g.Expect(s.Message).NotTo(ContainSubstring("\n"))
				g.Expect(s.Reason).To(Equal(metav1.StatusReasonInvalid))
			}},
		"causes": {answer{code: 422, body: caused},
			func(g Gomega, s metav1.Status, _ []byte) { g.Expect(s.Details.Causes).To(HaveLen(maxCauses)) }},
		"a status without end": {answer{code: 500, body: endless, endless: true},
			func(g Gomega, _ metav1.Status, raw []byte) {
				g.Expect(len(raw)).To(BeNumerically("<=", untrusted.MaxMessage))
			}},
		"a page of a proxy": {answer{code: 502, contentType: "text/html", body: bytes.Repeat([]byte("<p>\n"), 1<<20)},
			func(g Gomega, _ metav1.Status, raw []byte) {
				g.Expect(len(raw)).To(BeNumerically("<=", untrusted.MaxMessage))
				g.Expect(string(raw)).To(HavePrefix("<p>"))
			}},
		"zipped": {answer{code: 403, zipped: true, body: no},
			func(g Gomega, s metav1.Status, _ []byte) { g.Expect(s.Message).To(Equal("no")) }},
		"an encoding that was not asked for": {answer{code: 403, encoding: "br", body: no},
			func(g Gomega, s metav1.Status, _ []byte) { g.Expect(s.Kind).To(BeEmpty()) }},
	} {
		for protocol, http2 := range protocols {
			t.Run(name+", "+protocol, func(t *testing.T) {
				g := NewWithT(t)
				via := serve(t, http2, c.answer)
				raw, response, err := ask(t.Context(), via, http.MethodGet, configMap, nil)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(response.StatusCode).To(Equal(c.answer.code))
				g.Expect(response.Header.Get("Content-Encoding")).To(BeEmpty())
				var s metav1.Status
				if response.Header.Get("Content-Type") == mediaJSON {
					g.Expect(json.Unmarshal(raw, &s)).To(Succeed())
				}
				c.expect(g, s, raw)
			})
		}
	}
}

func TestHeadersAreBounded(t *testing.T) {
	header := http.Header{"Etag": {`"tag"`}}
	for i := range 500 {
		header.Set(fmt.Sprintf("X-%d", i), "a")
	}
	for protocol, http2 := range protocols {
		t.Run(protocol, func(t *testing.T) {
			g := NewWithT(t)
			via := serve(t, http2, answer{body: []byte("{}"), header: header})
			_, response, err := ask(t.Context(), via, http.MethodGet, configMap, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(len(response.Header)).To(BeNumerically("<", 10), "watches keep them for hours")
			g.Expect(response.Header.Get("ETag")).To(Equal(`"tag"`))
			many := header.Clone()
			for i := range 1500 {
				many.Add("X", fmt.Sprint(i))
			}
			via = serve(t, http2, answer{body: []byte("{}"), header: many})
			_, _, err = ask(t.Context(), via, http.MethodGet, configMap, nil)
			g.Expect(err).To(MatchError(ContainSubstring("header fields")))
		})
	}
}
