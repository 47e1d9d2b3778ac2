package csrapprover_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/addresses"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/csrapprover"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

// Two targets. The first one is the source, too.
var alpha, beta *site

// weakKey is another registration of the second one, with few rights. A test makes it.
var weakKey = clustercache.ClusterKey{Namespace: "shoot-weak", Name: "weak"}

// clusters has the connections to them, for all tests.
var clusters clustercache.ClusterCache

// testAgent is the user agent of the tests.
const testAgent = "test"

// patience is how long tests wait for what happens at once.
const patience = 2 * time.Minute

// site is a real control plane that is a target.
type site struct {
	*controlplane.ControlPlane
	dir    string
	client client.Client
	key    clustercache.ClusterKey
}

func startSite(ctx context.Context, name string) (*site, error) {
	dir, err := os.MkdirTemp("", "csr-")
	if err != nil {
		return nil, err
	}
	s := &site{dir: dir, key: clustercache.ClusterKey{Namespace: "shoot-" + name, Name: name}}
	s.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{Name: name, Dir: dir, Audit: true})
	if err != nil {
		return s, err
	}
	s.client, err = client.New(s.config(""), client.Options{})
	return s, err
}

func (s *site) stop() {
	if s == nil {
		return
	}
	if s.ControlPlane != nil {
		s.Stop()
	}
	_ = os.RemoveAll(s.dir) // a temporary directory
}

// config is the access of a user, or the administrator's own.
func (s *site) config(user string) *rest.Config {
	config := s.RESTConfig()
	config.UserAgent = testAgent
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	}
	return config
}

func registration(key clustercache.ClusterKey, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name + "-kubeconfig",
			Labels: map[string]string{hubv1alpha1.ClusterNameLabel: key.Name},
		},
		Type: "cluster.x-k8s.io/secret",
		Data: map[string][]byte{"value": kubeconfig},
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	// This belongs to the logging of client-go and lives as long as the process.
	controlplane.Exit(code, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

func run(m *testing.M) (code int, err error) {
	log.SetLogger(logr.Discard())
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	if testing.Short() {
		return m.Run(), nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer func() {
		cancel()
		work.Wait()
	}()
	alpha, err = startSite(ctx, "alpha")
	defer alpha.stop()
	if err != nil {
		return 1, err
	}
	beta, err = startSite(ctx, "beta")
	defer beta.stop()
	if err != nil {
		return 1, err
	}
	if err := prepare(ctx, &work); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// prepare registers the targets and starts the cluster cache.
func prepare(ctx context.Context, work *sync.WaitGroup) error {
	if err := installMachines(ctx, alpha); err != nil {
		return err
	}
	for _, n := range []struct {
		in   *site
		name string
	}{{alpha, home}, {alpha, beta.key.Namespace}, {alpha, weakKey.Namespace}, {beta, home}} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
		if err := n.in.client.Create(ctx, namespace); err != nil {
			return err
		}
	}
	for _, s := range []*site{alpha, beta} {
		if err := alpha.client.Create(ctx, registration(s.key, s.Kubeconfig())); err != nil {
			return err
		}
	}
	informers, err := ctrlcache.New(alpha.RESTConfig(), ctrlcache.Options{
		ByObject: map[client.Object]ctrlcache.ByObject{&corev1.Secret{}: clustercache.SecretCacheOptions()},
	})
	if err != nil {
		return err
	}
	cache, err := clustercache.New(clustercache.Options{
		Secrets: informers, Dial: clustercache.DialOptions{Addresses: addresses.Any(), RetryMax: time.Second},
	})
	if err != nil {
		return err
	}
	clusters = cache
	for _, start := range []func(context.Context) error{informers.Start, cache.Start} {
		work.Go(func() {
			if err := start(ctx); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	return nil
}

// crd is that of Machines.
func crd() (*unstructured.Unstructured, error) {
	manifest, err := os.ReadFile(filepath.Join("testdata", "machines.yaml"))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, yaml.Unmarshal(manifest, &object.Object)
}

// installMachines returns when Machines are served.
func installMachines(ctx context.Context, s *site) error {
	definition, err := crd()
	if err != nil {
		return err
	}
	if err := s.client.Create(ctx, definition); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		machines := &metav1.PartialObjectMetadataList{}
		machines.SetGroupVersionKind(machineKind.GroupVersion().WithKind("MachineList"))
		err := s.client.List(ctx, machines)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

var machineKind = (&metav1.TypeMeta{APIVersion: "machine.sapcloud.io/v1alpha1", Kind: "Machine"}).GroupVersionKind()

// bench is a test with an approver.
type bench struct {
	*WithT
	t        *testing.T
	registry *prometheus.Registry
	events   *events.FakeRecorder
	stop     func()
}

// later is a clock that is an hour ahead: for it, no request is young.
type later struct{ clock.RealClock }

func (l later) Now() time.Time                  { return l.RealClock.Now().Add(time.Hour) }
func (l later) Since(t time.Time) time.Duration { return l.Now().Sub(t) }

// start starts an approver with the default settings in both targets, until the test ends.
func start(t *testing.T, change ...func(*Options)) *bench {
	t.Helper()
	needsControlPlanes(t)
	b := &bench{
		WithT: NewWithT(t), t: t, registry: prometheus.NewRegistry(), events: events.NewFakeRecorder(100),
	}
	b.SetDefaultEventuallyTimeout(patience)
	runs, err := multicluster.NewMetrics(b.registry)
	b.Expect(err).NotTo(HaveOccurred())
	decisions, err := NewMetrics(b.registry)
	b.Expect(err).NotTo(HaveOccurred())
	options := Options{
		Environment: multicluster.Environment{Clusters: clusters, Events: b.events, Metrics: runs, Clock: later{}},
		Source:      alpha.client,
		Settings:    settings(Settings{}, alpha, beta),
		Metrics:     decisions,
	}
	for _, c := range change {
		c(&options)
	}
	controller, err := New(options)
	b.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- controller.Start(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		b.Eventually(ended).Should(Receive(BeNil()))
	})
	t.Cleanup(b.stop)
	return b
}

func needsControlPlanes(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
}

// settings has the same ones in some targets, and the approver switched off elsewhere.
func settings(s Settings, sites ...*site) func(clustercache.Status) (Settings, bool) {
	return func(status clustercache.Status) (Settings, bool) {
		for _, site := range sites {
			if site.key == status.Cluster {
				return s, true
			}
		}
		return Settings{}, false
	}
}

func with(s Settings, sites ...*site) func(*Options) {
	return func(o *Options) { o.Settings = settings(s, sites...) }
}

// metric is the value of a counter, summed over the series that have a label.
func (b *bench) metric(name, label, value string) func() float64 {
	return func() (sum float64) {
		families, err := b.registry.Gather()
		b.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			if family.GetName() != name {
				continue
			}
			for _, series := range family.GetMetric() {
				for _, pair := range series.GetLabel() {
					if pair.GetName() == label && pair.GetValue() == value {
						sum += series.GetCounter().GetValue()
					}
				}
			}
		}
		return sum
	}
}

// runs is how many runs of the approver had a result.
func (b *bench) runs(result string) func() float64 {
	return b.metric("trellis_controller_reconciles_total", "result", result)
}

// node creates a Node with addresses, until the test ends.
func (b *bench) node(s *site, name string, addresses ...corev1.NodeAddress) {
	b.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.create(s, node)
	node.Status.Addresses = addresses
	b.Expect(s.client.Status().Update(context.Background(), node)).To(Succeed())
}

// machine creates a Machine of a target in a source, until the test ends. An empty node: it has no label.
func (b *bench) machine(source *site, namespace, name, node string) *unstructured.Unstructured {
	b.t.Helper()
	machine := &unstructured.Unstructured{}
	machine.SetGroupVersionKind(machineKind)
	machine.SetNamespace(namespace)
	machine.SetName(name)
	if node != "" {
		machine.SetLabels(map[string]string{"node": node})
	}
	b.create(source, machine)
	return machine
}

func (b *bench) create(s *site, obj client.Object) {
	b.t.Helper()
	b.Expect(s.client.Create(context.Background(), obj)).To(Succeed())
	b.t.Cleanup(func() { b.delete(s, obj) })
}

func (b *bench) delete(s *site, obj client.Object) {
	b.t.Helper()
	err := s.client.Delete(context.Background(), obj)
	b.Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
}

// wish is what a request asks for.
type wish struct {
	signer     string
	user       string
	commonName string
	orgs       []string
	dns        []string
	ips        []string
	emails     []string
	uris       []string
	usages     []certificatesv1.KeyUsage
}

// key is that of all requests.
var key = sync.OnceValue(func() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the source of randomness is broken
	}
	return key
})

func (w wish) pem(g Gomega) []byte {
	template := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: w.commonName, Organization: w.orgs},
		DNSNames: w.dns, EmailAddresses: w.emails,
	}
	for _, ip := range w.ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	for _, text := range w.uris {
		uri, err := url.Parse(text)
		g.Expect(err).NotTo(HaveOccurred())
		template.URIs = append(template.URIs, uri)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key())
	g.Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func (w wish) csr(g Gomega, name string) *certificatesv1.CertificateSigningRequest {
	usages := w.usages
	if usages == nil {
		usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
		if w.signer == certificatesv1.KubeAPIServerClientSignerName {
			usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
		}
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: w.pem(g), SignerName: w.signer, Usages: usages,
		},
	}
}

// request creates a request as the user of the wish, until the test ends.
func (b *bench) request(s *site, name string, w wish) *certificatesv1.CertificateSigningRequest {
	b.t.Helper()
	csr := w.csr(b, name)
	config := s.config(w.user)
	httpClient, err := rest.HTTPClientFor(config)
	b.Expect(err).NotTo(HaveOccurred())
	c, err := client.NewWithWatch(config, client.Options{HTTPClient: httpClient})
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(c.Create(context.Background(), csr)).To(Succeed())
	b.Expect(csr.Spec.Username).To(Equal(w.user))
	httpClient.CloseIdleConnections()
	b.t.Cleanup(func() { b.delete(s, csr) })
	return csr
}

// conditions of a request.
func (b *bench) conditions(s *site, name string) func() []certificatesv1.CertificateSigningRequestCondition {
	return func() []certificatesv1.CertificateSigningRequestCondition {
		csr := &certificatesv1.CertificateSigningRequest{}
		b.Expect(s.client.Get(context.Background(), client.ObjectKey{Name: name}, csr)).To(Succeed())
		return csr.Status.Conditions
	}
}

// decision is the type, reason and message of the only condition of a request; empty if it has none.
func (b *bench) decision(s *site, name string) func() string {
	return func() string {
		conditions := b.conditions(s, name)()
		if len(conditions) == 0 {
			return ""
		}
		b.Expect(conditions).To(HaveLen(1))
		b.Expect(conditions[0].Status).To(Equal(corev1.ConditionTrue))
		return fmt.Sprintf("%s/%s: %s", conditions[0].Type, conditions[0].Reason, conditions[0].Message)
	}
}

const allPassed = " (all checks passed)"

func (b *bench) approved(s *site, name, kind string) {
	b.t.Helper()
	b.Eventually(b.decision(s, name)).Should(
		And(HavePrefix("Approved/RequestApproved: "), HaveSuffix(kind+allPassed)))
}

func (b *bench) denied(s *site, name, kind, check string) {
	b.t.Helper()
	b.Eventually(b.decision(s, name)).Should(
		And(HavePrefix("Denied/RequestDenied: "), HaveSuffix(kind+" ("+check+")")))
}

// undecided checks that a request is left alone after something else has been seen.
func (b *bench) undecided(s *site, name string) {
	b.t.Helper()
	b.Expect(b.conditions(s, name)()).To(BeEmpty())
}

// calls are those about a request that the hub has made so far.
func (b *bench) calls(s *site, name string) (found []string) {
	b.t.Helper()
	entries, err := s.AuditEntries()
	b.Expect(err).NotTo(HaveOccurred())
	for _, e := range entries {
		if e.Resource == "certificatesigningrequests" && e.Name == name && e.UserAgent != testAgent {
			found = append(found, e.String())
		}
	}
	return found
}

// putRaw writes an object past the API server, which would refuse it.
func (s *site) putRaw(ctx context.Context, body []byte) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.dir, "etcd.sock:0"))
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd/v3/kv/put", bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s", answer.Status)
	}
	return nil
}

// looking is a source that calls a function after the next answer to a list.
type looking struct {
	client.Client
	mu    sync.Mutex
	lists int
	next  func()
}

func (l *looking) afterNext(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = do
}

func (l *looking) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := l.Client.List(ctx, list, opts...)
	l.mu.Lock()
	l.lists++
	next := l.next
	l.next = nil
	l.mu.Unlock()
	if next != nil {
		next()
	}
	return err
}

func (l *looking) looks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lists
}
