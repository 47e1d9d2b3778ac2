package webhooks_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/routes"
	"github.com/trellis-hub/trellis/webhooks/server"
)

const (
	fleetTargets = 1000
	fleetRate    = 500 // requests a second
)

// BenchmarkFleet sends reviews of 1,000 API servers at 500 a second, whose connections are open and whose state is in
// memory: to all mutating webhooks, and to handlers that do nothing. The processor time is that of both sides, so what
// the handlers cost is the difference.
func BenchmarkFleet(b *testing.B) {
	c := ofSamples(b)
	var mutating, empty []admission.Webhook
	for _, w := range webhooks.All(nil) {
		if w.Validating || !w.Enabled(&c.Settings) {
			continue
		}
		mutating = append(mutating, w)
		w.Handler = admission.HandlerFunc(func(context.Context, *admission.Request) (admission.Response, error) {
			return admission.Response{}, nil
		})
		empty = append(empty, w)
	}
	b.Run("empty", func(b *testing.B) { newFleet(b, c, empty).measure(b) })
	b.Run("handlers", func(b *testing.B) { newFleet(b, c, mutating).measure(b) })
}

// fleet is a server with the API servers that call it.
type fleet struct {
	*WithT
	address   string
	authority []byte // in PEM
	clients   []*http.Client
	webhooks  []admission.Webhook
	bodies    [][]byte // of reviews, one for each webhook
}

func fleetKey(i int) clustercache.ClusterKey {
	return clustercache.ClusterKey{Namespace: fmt.Sprintf("shoot--%d", i), Name: "target"}
}

func newFleet(b *testing.B, c reviews.Target, all []admission.Webhook) *fleet {
	b.Helper()
	f := &fleet{WithT: NewWithT(b), webhooks: all}
	for _, w := range all {
		f.bodies = append(f.bodies, f.review(c.Request(b, sample(w, 2))))
	}
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS() // for its certificate
	certificate, roots := certified.TLS.Certificates[0], x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	f.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})
	certified.Close()
	target := server.Target{UID: "uid", Settings: c.Settings}
	s, err := server.New(server.Options{
		Address: "127.0.0.1:0", Notice: time.Millisecond, Webhooks: all,
		Find: func(clustercache.ClusterKey) (server.Target, bool) { return target, true },
		State: func(key clustercache.ClusterKey, _ types.UID) admission.State {
			if key == hangs {
				return hanging{c.State}
			}
			return c.State
		},
		Keys:        func() [][]byte { return [][]byte{fleetSecret} },
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil },
	})
	f.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	f.Eventually(s.Addr).ShouldNot(BeNil())
	f.address = "https://" + s.Addr().String()
	for range fleetTargets {
		f.clients = append(f.clients, newFleetClient(roots, 10))
	}
	b.Cleanup(func() {
		for _, client := range f.clients {
			client.CloseIdleConnections()
		}
		cancel()
		f.Expect(<-ended).To(Succeed())
	})
	return f
}

// newFleetClient calls webhooks by HTTP/1.1, as API servers do, and keeps some connections.
func newFleetClient(roots *x509.CertPool, kept int) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}, MaxIdleConnsPerHost: kept,
	}}
}

var fleetSecret = []byte(strings.Repeat("k", 32))

// review is the body of a request.
func (f *fleet) review(request *admission.Request) []byte {
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  request.AdmissionRequest,
	})
	f.Expect(err).NotTo(HaveOccurred())
	return body
}

// call sends the i-th review, and returns how long it took.
func (f *fleet) call(i int) (time.Duration, error) {
	target, webhook := i%fleetTargets, i%len(f.webhooks)
	route := routes.Route{Target: fleetKey(target), UID: "uid", Webhook: f.webhooks[webhook].Path}
	url := f.address + route.Path(fleetSecret)
	begun := time.Now()
	response, err := f.clients[target].Post(url, "application/json", bytes.NewReader(f.bodies[webhook]))
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	took := time.Since(begun)
	if err == nil && (response.StatusCode != http.StatusOK || !bytes.Contains(content, []byte(`"allowed":true`))) {
		err = fmt.Errorf("%s: %s", response.Status, content)
	}
	return took, err
}

// measure reports what b.N calls took.
func (f *fleet) measure(b *testing.B) {
	for i := range fleetTargets { // opens the connections
		if _, err := f.call(i); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	took, faults := make([]time.Duration, b.N), make([]error, b.N)
	var calls sync.WaitGroup
	begun, used := time.Now(), processorTime()
	for i := range b.N {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / fleetRate)))
		calls.Go(func() { took[i], faults[i] = f.call(i) })
	}
	calls.Wait()
	used = processorTime() - used
	for _, err := range faults {
		if err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(took[b.N/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[b.N*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(used.Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// processorTime is that of this process.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
