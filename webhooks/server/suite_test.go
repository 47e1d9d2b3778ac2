package server_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/routes"
	"github.com/trellis-hub/trellis/webhooks/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	keyA = clustercache.ClusterKey{Namespace: "one", Name: "a"}
	keyB = clustercache.ClusterKey{Namespace: "two", Name: "b"}
	key  = []byte(strings.Repeat("k", 32))
)

// bench is a server with two targets and one webhook.
type bench struct {
	*WithT
	t       *testing.T
	options server.Options
	server  *server.Server
	url     string
	roots   *x509.CertPool
	client  *http.Client
	stop    func() error

	mu      sync.Mutex
	targets map[clustercache.ClusterKey]server.Target
	handle  admission.HandlerFunc
}

func newBench(t *testing.T, change func(*server.Options)) *bench {
	t.Helper()
	b := &bench{WithT: NewWithT(t), t: t, roots: x509.NewCertPool()}
	on := hubv1alpha1.TargetWebhooks{
		SeccompProfile: &hubv1alpha1.WebhookOrPolicy{Webhook: hubv1alpha1.Webhook{Enabled: ptr.To(true)}},
	}
	b.targets = map[clustercache.ClusterKey]server.Target{
		keyA: {UID: "uid-a", Settings: on}, keyB: {UID: "uid-b", Settings: on},
	}
	certificate, authority := newCertificate(b.WithT, "hub.example.org")
	b.roots.AddCert(authority)
	b.options = server.Options{
		Address: "127.0.0.1:0", Notice: time.Millisecond, Drain: time.Minute,
		Webhooks: []admission.Webhook{{
			Name: "test", Path: "test",
			Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
				if w.SeccompProfile == nil {
					return nil
				}
				return &w.SeccompProfile.Webhook
			},
			Handler: admission.HandlerFunc(func(ctx context.Context, r *admission.Request) (admission.Response, error) {
				b.mu.Lock()
				handle := b.handle
				b.mu.Unlock()
				if handle == nil {
					return admission.Response{}, nil
				}
				return handle(ctx, r)
			}),
		}},
		Find: func(key clustercache.ClusterKey) (server.Target, bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			target, registered := b.targets[key]
			return target, registered
		},
		State:       func(clustercache.ClusterKey, types.UID) admission.State { return nil },
		Keys:        func() [][]byte { return [][]byte{key} },
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil },
	}
	if change != nil {
		change(&b.options)
	}
	var err error
	b.server, err = server.New(b.options)
	b.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.server.Start(ctx) }()
	b.Eventually(b.server.Addr).ShouldNot(BeNil())
	b.url = "https://" + b.server.Addr().String()
	b.client = b.newClient(&tls.Config{})
	b.stop = sync.OnceValue(func() error {
		cancel()
		err := <-ended
		b.client.CloseIdleConnections()
		return err
	})
	t.Cleanup(func() { _ = b.stop() })
	return b
}

func (b *bench) newClient(config *tls.Config) *http.Client {
	config.RootCAs = b.roots
	if config.ServerName == "" {
		config.ServerName = "hub.example.org"
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	b.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (b *bench) does(handle admission.HandlerFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handle = handle
}

// calls is a handler that counts, and allows everything.
func (b *bench) calls() func() int {
	var mu sync.Mutex
	n := 0
	b.does(func(context.Context, *admission.Request) (admission.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return admission.Response{}, nil
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func path(target clustercache.ClusterKey, uid types.UID, ignored bool) string {
	return routes.Route{Target: target, UID: uid, Webhook: "test", Ignored: ignored}.Path(key)
}

// fails and ignores are paths of A, by the failure policy.
var fails, ignores = path(keyA, "uid-a", false), path(keyA, "uid-a", true)

// review is one as API servers send it, with an object.
func review(version, object string) string {
	return `{"apiVersion":"admission.k8s.io/` + version + `","kind":"AdmissionReview","request":{"uid":"u-1",` +
		`"operation":"CREATE","namespace":"kube-system","object":` + object + `}}`
}

// answer is what came back.
type answer struct {
	Status int
	Body   string
	*admissionv1.AdmissionReview
}

func (b *bench) post(path, body string, change ...func(*http.Request)) answer {
	b.t.Helper()
	a, err := b.try(b.client, path, body, change...)
	b.Expect(err).NotTo(HaveOccurred())
	return a
}

func (b *bench) try(c *http.Client, path, body string, change ...func(*http.Request)) (answer, error) {
	request, err := http.NewRequest(http.MethodPost, b.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	for _, change := range change {
		change(request)
	}
	response, err := c.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	a := answer{Status: response.StatusCode, Body: string(content)}
	if response.StatusCode == http.StatusOK && len(content) > 0 {
		a.AdmissionReview = &admissionv1.AdmissionReview{}
		err = json.Unmarshal(content, a.AdmissionReview)
	}
	return a, err
}

// refuses is an answer by which an API server refuses a request, with a code.
func refuses(code int32, message string) OmegaMatcher {
	return And(HaveField("Status", 200), HaveField("AdmissionReview.Response", And(
		HaveField("Allowed", false), HaveField("Patch", BeEmpty()),
		HaveField("Result.Code", code), HaveField("Result.Message", ContainSubstring(message)))))
}

// allows is one that admits the object as it is.
var allows = And(HaveField("Status", 200), HaveField("AdmissionReview.Response", And(
	HaveField("Allowed", true), HaveField("Patch", BeEmpty()), HaveField("PatchType", BeNil()))))

func newCertificate(g *WithT, names ...string) (*tls.Certificate, *x509.Certificate) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	g.Expect(err).NotTo(HaveOccurred())
	parsed, err := x509.ParseCertificate(der)
	g.Expect(err).NotTo(HaveOccurred())
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: parsed}, parsed
}
