package fault_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

// patience is how long a test waits for what must happen; brief for how long it looks for what must not.
const (
	patience = time.Minute
	brief    = 300 * time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a stand-in of a Kubernetes API server: it has a version, a list of ConfigMaps and watches of them.
type server struct {
	faults     *fault.Switch
	listener   *fault.Listener
	http       *httptest.Server
	answered   atomic.Int64 // by a Status fault
	unanswered atomic.Int64 // because of a fault
	reached    atomic.Int64 // requests that came through
	conns      atomic.Int64 // connections that were accepted
	deadline   atomic.Int64 // nanoseconds that an event of a watch may take; 0: any time

	mu      sync.Mutex
	watches map[chan string]struct{}
}

func start(t *testing.T) *server {
	t.Helper()
	g := NewWithT(t)
	s := &server{watches: map[chan string]struct{}{}}
	s.faults = fault.New(fault.Options{Seed: 1, Answered: func(a fault.Answer) {
		if a.Code == 0 {
			s.unanswered.Add(1)
		} else {
			s.answered.Add(1)
		}
	}})
	var err error
	s.listener, err = s.faults.Listen()
	g.Expect(err).NotTo(HaveOccurred())
	s.http = httptest.NewUnstartedServer(s.faults.Handler(s))
	g.Expect(s.http.Listener.Close()).To(Succeed())
	s.http.Listener = s.listener
	s.http.EnableHTTP2 = true
	s.http.Config.ConnContext = fault.ConnContext
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.http.TLS = &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		s.conns.Add(1)
		return fault.Handshake(hello, s.http.TLS), nil
	}}
	s.http.StartTLS()
	t.Cleanup(func() {
		g.Expect(s.listener.Close()).To(Succeed())
		s.http.Close()
		g.Expect(s.listener.Connections()).To(BeZero())
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.reached.Add(1)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"gitVersion":"v1.36.3"}`)
	case r.URL.Query().Get("watch") == "true":
		s.watch(w, r)
	default:
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a"},"data":{"k":"%s"}}]}`,
			strings.Repeat("x", 10_000))
	}
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan string, 100)
	s.mu.Lock()
	s.watches[events] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, events)
	}()
	w.(http.Flusher).Flush() //nolint:errcheck // it is one
	for {
		select {
		case name := <-events:
			if d := time.Duration(s.deadline.Load()); d > 0 {
				_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
			}
			fmt.Fprintf(w, `{"type":"ADDED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}}`+"\n", name)
			w.(http.Flusher).Flush() //nolint:errcheck // it is one
		case <-r.Context().Done():
			return
		}
	}
}

// add sends an event to all watches.
func (s *server) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for events := range s.watches {
		events <- name
	}
}

func (s *server) watching() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// set sets a fault.
func (s *server) set(t *testing.T, f fault.Fault) {
	t.Helper()
	_, err := s.faults.Set(f)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// clear clears all faults.
func (s *server) clear(t *testing.T) {
	t.Helper()
	_, err := s.faults.Clear()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// visitor is a client with a connection of its own.
type visitor struct {
	*kubernetes.Clientset
	transport *http.Transport
}

func (s *server) client(t *testing.T) *visitor {
	t.Helper()
	g := NewWithT(t)
	config := &rest.Config{Host: "https://" + s.listener.Addr().String(), QPS: -1}
	v := &visitor{transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13}}}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	tlsConfig, err := rest.TLSConfigFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	v.transport.TLSClientConfig = tlsConfig
	t.Cleanup(v.transport.CloseIdleConnections)
	client := &http.Client{Transport: transport.NewUserAgentRoundTripper("visitor/1", v.transport)}
	config.TLSClientConfig = rest.TLSClientConfig{}
	v.Clientset, err = kubernetes.NewForConfigAndClient(config, client)
	g.Expect(err).NotTo(HaveOccurred())
	return v
}

// version asks for the version with a deadline and returns the error.
func (v *visitor) version(deadline time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	content, err := v.CoreV1().RESTClient().Get().AbsPath("/version").MaxRetries(0).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, &struct{}{})
}

// list lists ConfigMaps with a deadline.
func (v *visitor) list(deadline time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	return v.CoreV1().RESTClient().Get().Resource("configmaps").Namespace("default").MaxRetries(0).Do(ctx).Into(&corev1.ConfigMapList{})
}

// watch begins a watch and waits until the server has it.
func (v *visitor) watch(t *testing.T, s *server) watch.Interface {
	t.Helper()
	g := NewWithT(t)
	before := s.watching()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := v.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { w.Stop(); cancel() })
	g.Eventually(s.watching, patience).Should(Equal(before + 1))
	return w
}

// next returns the name of the object of the next event of a watch.
func next(w watch.Interface, within time.Duration) (string, error) {
	select {
	case e, open := <-w.ResultChan():
		if !open {
			return "", fmt.Errorf("the watch has ended")
		}
		object, ok := e.Object.(*corev1.ConfigMap)
		if !ok {
			return "", fmt.Errorf("the watch has an event with %T", e.Object)
		}
		return object.Name, nil
	case <-time.After(within):
		return "", fmt.Errorf("no event within %s", within)
	}
}

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

// traceHandshake sends at the end of each TLS handshake.
func (v *visitor) traceHandshake(shaken chan<- struct{}) {
	v.transport.TLSClientConfig.VerifyConnection = func(tls.ConnectionState) error {
		shaken <- struct{}{}
		return nil
	}
}

// speakHTTP1 keeps the client from HTTP/2.
func (v *visitor) speakHTTP1() {
	v.transport.ForceAttemptHTTP2 = false
	v.transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
}
