package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = time.Minute
	shortly  = 10 * time.Millisecond
)

// simulator is a server that listens.
type simulator struct {
	*apiserver.Server
	config *rest.Config
	client *http.Client
}

// start runs a server for one test.
func start(t testing.TB, o apiserver.Options) *simulator {
	t.Helper()
	s, err := apiserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewUnstartedServer(s)
	h.EnableHTTP2 = true
	h.StartTLS()
	t.Cleanup(func() {
		s.Stop()
		h.Client().CloseIdleConnections()
		h.Close()
	})
	return &simulator{Server: s, client: h.Client(), config: &rest.Config{
		Host: h.URL, QPS: -1, UserAgent: "tester/v1", TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(h)},
	}}
}

// answer of a server.
type answer struct {
	code   int
	header http.Header
	text   string
	doc    map[string]any
}

// send sends one request; its body is YAML. Headers are pairs.
func (s *simulator) send(g Gomega, method, path, body string, headers ...string) answer {
	text, err := yaml.YAMLToJSON([]byte(body))
	g.Expect(err).NotTo(HaveOccurred())
	if body == "" {
		text = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.config.Host+path, bytes.NewReader(text))
	g.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("User-Agent", "tester/v1")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	a := answer{code: response.StatusCode, header: response.Header, text: string(content)}
	_ = json.Unmarshal(content, &a.doc) // some answers are text
	return a
}

// status returns the Status that an answer is.
func (a answer) status(g Gomega) metav1.Status {
	var s metav1.Status
	g.Expect(json.Unmarshal([]byte(a.text), &s)).To(Succeed(), a.text)
	g.Expect(s.Kind).To(Equal("Status"), a.text)
	return s
}

// at returns what is at a path of the answer, nil if there is nothing.
func (a answer) at(path ...string) any {
	var value any = a.doc
	for _, name := range path {
		m, _ := value.(map[string]any)
		value = m[name]
	}
	return value
}

func beReason(reason metav1.StatusReason) func(error) bool {
	return func(err error) bool { return apierrors.ReasonForError(err) == reason }
}

const cms = "/api/v1/namespaces/default/configmaps"

func configMap(name, rest string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}, " + rest + "}"
}

// serve sends a request past the network.
func serve(g Gomega, s http.Handler, method, path, body string) (code int) {
	text, err := yaml.YAMLToJSON([]byte(body))
	g.Expect(err).NotTo(HaveOccurred())
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, httptest.NewRequest(method, path, bytes.NewReader(text)))
	return recorder.Code
}

// stuckWriter is the connection of a client that does not read.
type stuckWriter struct {
	mu      sync.Mutex
	header  http.Header
	code    int
	stuck   chan struct{}
	release <-chan struct{}
}

func (w *stuckWriter) Header() http.Header { return w.header }

func (w *stuckWriter) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code = code
}

func (w *stuckWriter) headersSent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.code == http.StatusOK
}

func (w *stuckWriter) Write(b []byte) (int, error) {
	w.stuck <- struct{}{}
	<-w.release
	return len(b), nil
}

func (w *stuckWriter) Flush() {}
