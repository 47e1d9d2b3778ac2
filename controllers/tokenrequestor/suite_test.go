package tokenrequestor_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	. "github.com/trellis-hub/trellis/controllers/tokenrequestor"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The clusters and the hub are shared by all tests; each test has a namespace of its own in both. The source is alpha.
var (
	alpha, beta *testbed.Cluster
	hub         = &suite{clock: clocktesting.NewFakePassiveClock(time.Now())}
)

// suite is a hub with the controller, in which time stands still.
type suite struct {
	clock    *clocktesting.FakePassiveClock
	clusters *clustercache.Cache
	source   client.Client
	metadata metadata.Interface
	registry *prometheus.Registry

	mu       sync.Mutex
	settings map[string]func(clustercache.ClusterKey) (Settings, bool) // by namespace
	runs     map[string][]outcome                                      // by Secret
	events   map[string][]string                                       // by Secret
	calls    map[clustercache.ClusterKey]func(*http.Request, http.RoundTripper) (*http.Response, error)
	patches  map[string]func(body string) // by Secret
}

// outcome is what came of a run.
type outcome struct {
	cluster clustercache.ClusterKey
	version string // of the Secret that was read; empty if none was
	result  reconcile.Result
	err     error
}

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		controlplane.VerifyTestMain(m, leftByLog)
	}
	controlplane.Exit(run(m), leftByLog)
}

// leftByLog is what klog leaves.
var leftByLog = goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")

func run(m *testing.M) int {
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	options := func(name string) controlplane.Options {
		return controlplane.Options{Name: name, ExtraAPIServerArgs: []string{"--api-audiences=gardener,other"}}
	}
	var err error
	var ended func() error
	if alpha, err = testbed.StartCluster(ctx, options("alpha")); err == nil {
		defer alpha.Stop()
		if beta, err = testbed.StartCluster(ctx, options("beta")); err == nil {
			defer beta.Stop()
			ended, err = hub.start(ctx)
		}
	}
	if err != nil {
		cancel()
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	cancel()
	if err := ended(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// start starts the hub. The returned function waits for its end.
func (s *suite) start(ctx context.Context) (ended func() error, err error) {
	s.settings = map[string]func(clustercache.ClusterKey) (Settings, bool){}
	s.runs, s.events, s.patches = map[string][]outcome{}, map[string][]string{}, map[string]func(string){}
	s.calls = map[clustercache.ClusterKey]func(*http.Request, http.RoundTripper) (*http.Response, error){}
	informers, err := ctrlcache.New(alpha.RESTConfig(), ctrlcache.Options{
		ByObject: map[client.Object]ctrlcache.ByObject{&corev1.Secret{}: clustercache.SecretCacheOptions()},
	})
	if err != nil {
		return nil, err
	}
	s.clusters, err = clustercache.New(clustercache.Options{
		Secrets:       informers,
		Dial:          clustercache.DialOptions{Addresses: addresses.Any(), RetryMax: time.Second},
		WrapTransport: s.wrap,
	})
	if err != nil {
		return nil, err
	}
	if s.metadata, err = metadata.NewForConfig(alpha.RESTConfig()); err != nil {
		return nil, err
	}
	s.source = interceptor.NewClient(alpha.Client, interceptor.Funcs{Patch: s.patch})
	s.registry = prometheus.NewRegistry()
	figures, err := NewMetrics(s.registry)
	if err != nil {
		return nil, err
	}
	controller, err := s.controller(figures, s.of, -1)
	if err != nil {
		return nil, err
	}
	running := make(chan error, 3)
	starts := []func(context.Context) error{informers.Start, s.clusters.Start, controller.Start}
	for _, start := range starts {
		go func() { running <- start(ctx) }()
	}
	return func() (err error) {
		for range starts {
			err = errors.Join(err, <-running)
		}
		return err
	}, nil
}

// controller makes a controller that is observed.
func (s *suite) controller(
	figures *Metrics, settings func(clustercache.ClusterKey) (Settings, bool), spread time.Duration,
) (*Controller, error) {
	controller, err := New(Options{
		Environment: multicluster.Environment{Clusters: s.clusters, Events: recorder{s}, Clock: s.clock},
		Source:      s.source, Metadata: s.metadata, Settings: byKey(settings), Spread: spread, Metrics: figures,
		Jitter: func(d time.Duration, _ float64) time.Duration { return d },
	})
	if err != nil {
		return nil, err
	}
	controller.Observe(func(
		key clustercache.ClusterKey, name types.NamespacedName, version string, result reconcile.Result, err error,
	) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.runs[name.String()] = append(s.runs[name.String()], outcome{key, version, result, err})
	})
	return controller, nil
}

// of returns the settings of a target: those of a resource manager, unless the test of its namespace says otherwise.
func (s *suite) of(key clustercache.ClusterKey) (Settings, bool) {
	s.mu.Lock()
	settings := s.settings[key.Namespace]
	s.mu.Unlock()
	if settings != nil {
		return settings(key)
	}
	return Settings{Class: ptr.To("shoot"), Audiences: []string{"gardener"}}, true
}

// set changes the settings of the targets of a namespace.
func (s *suite) set(namespace string, settings func(clustercache.ClusterKey) (Settings, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings[namespace] = settings
}

// wrap lets tests answer calls of a target. Each one is a cluster of its own.
func (s *suite) wrap(key clustercache.ClusterKey, next http.RoundTripper) http.RoundTripper {
	next = controlplane.WithUID(next, controlplane.UIDOf(key.String()))
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		s.mu.Lock()
		call := s.calls[key]
		s.mu.Unlock()
		if call != nil {
			return call(r, next)
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer has calls of a target answered by a function until the test ends.
func (s *suite) answer(
	t *testing.T, key clustercache.ClusterKey, call func(*http.Request, http.RoundTripper) (*http.Response, error),
) {
	s.mu.Lock()
	s.calls[key] = call
	s.mu.Unlock()
	t.Cleanup(func() { s.mu.Lock(); delete(s.calls, key); s.mu.Unlock() })
}

// patch lets tests see, and come before, patches of a Secret.
func (s *suite) patch(
	ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	s.mu.Lock()
	before := s.patches[client.ObjectKeyFromObject(obj).String()]
	s.mu.Unlock()
	if before != nil {
		body, err := patch.Data(obj)
		if err != nil {
			return err
		}
		before(string(body))
	}
	return c.Patch(ctx, obj, patch, opts...)
}

// beforePatch has a function called before each patch of a Secret.
func (s *suite) beforePatch(secret *corev1.Secret, before func(body string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patches[client.ObjectKeyFromObject(secret).String()] = before
}

// recorder keeps events.
type recorder struct{ *suite }

func (r recorder) Eventf(
	about, _ runtime.Object, _, reason, _, note string, args ...any,
) {
	secret, is := about.(*corev1.Secret)
	if !is {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(secret).String()
	r.events[name] = append(r.events[name], reason+": "+fmt.Sprintf(note, args...))
}

var _ events.EventRecorder = recorder{}

// outcomes are what came of the runs for a Secret.
func (s *suite) outcomes(secret *corev1.Secret) func() []outcome {
	return func() []outcome {
		s.mu.Lock()
		defer s.mu.Unlock()
		return append([]outcome{}, s.runs[client.ObjectKeyFromObject(secret).String()]...)
	}
}

// warnings are the events about a Secret.
func (s *suite) warnings(secret *corev1.Secret) func() []string {
	return func() []string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return append([]string{}, s.events[client.ObjectKeyFromObject(secret).String()]...)
	}
}

// home is the namespace of a test, with a target.
type home struct {
	*GomegaWithT
	t    *testing.T
	name string
	key  clustercache.ClusterKey
	at   *testbed.Cluster // the target
}

// newHome makes a namespace in which a cluster is registered.
func newHome(t *testing.T, cluster func() *testbed.Cluster) *home {
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	h := newNamespace(t)
	h.at = cluster()
	h.key = h.register("target", h.at.Kubeconfig())
	return h
}

// newNamespace makes a namespace in both clusters.
func newNamespace(t *testing.T) *home {
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	return &home{GomegaWithT: NewWithT(t), t: t, name: testbed.Namespace(t, nil, alpha, beta)}
}

func inAlpha() *testbed.Cluster { return alpha }
func inBeta() *testbed.Cluster  { return beta }

// register registers a target and waits for its connection.
func (h *home) register(name string, access []byte) clustercache.ClusterKey {
	h.t.Helper()
	h.create(testbed.Registration(h.name, name, access))
	key := clustercache.ClusterKey{Namespace: h.name, Name: name}
	h.Eventually(h.state(key)).Should(Equal(clustercache.StateConnected))
	return key
}

func (h *home) state(key clustercache.ClusterKey) func() clustercache.State {
	return func() clustercache.State { status, _ := hub.clusters.GetStatus(key); return status.State }
}

func (h *home) create(obj client.Object) {
	h.t.Helper()
	h.Expect(alpha.Client.Create(context.Background(), obj)).To(Succeed())
}

// secret is an access Secret of the namespace for a ServiceAccount of its name in the namespace of the target that has
// the same name.
func (h *home) secret(name string, changes ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: h.name, Name: name, Labels: map[string]string{PurposeLabel: Purpose, ClassLabel: "shoot"},
		Annotations: map[string]string{
			ServiceAccountNameAnnotation: name, ServiceAccountNamespaceAnnotation: h.name,
		},
	}}
	for _, change := range changes {
		change(secret)
	}
	return secret
}

// annotated sets an annotation.
func annotated(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Annotations[key] = value }
}

// renewAt sets the time of renewal, relative to now.
func renewAt(after time.Duration) func(*corev1.Secret) {
	return annotated(RenewTimestampAnnotation, hub.clock.Now().Add(after).UTC().Format(time.RFC3339))
}

// with sets a key of the data.
func with(key string, value []byte) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = value
	}
}

// injecting asks for certificates.
var injecting = annotated(InjectCAAnnotation, "true")

// into names a Secret of the target.
func into(namespace, name string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.Annotations[TargetSecretNameAnnotation] = name
		s.Annotations[TargetSecretNamespaceAnnotation] = namespace
	}
}

// get reads a Secret of the source.
func (h *home) get(secret *corev1.Secret) *corev1.Secret {
	h.t.Helper()
	return h.getFrom(alpha, secret.Namespace, secret.Name)
}

func (h *home) getFrom(cluster *testbed.Cluster, namespace, name string) *corev1.Secret {
	h.t.Helper()
	found := &corev1.Secret{}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	h.Expect(client.IgnoreNotFound(cluster.Client.Get(context.Background(), key, found))).To(Succeed())
	return found
}

// change changes a Secret of the source, and tries again if another client changed it at the same time.
func (h *home) change(secret *corev1.Secret, change func(*corev1.Secret)) *corev1.Secret {
	h.t.Helper()
	var found *corev1.Secret
	h.Eventually(func() error {
		found = h.get(secret)
		change(found)
		return alpha.Client.Update(context.Background(), found)
	}).Should(Succeed())
	return found
}

// account reads a ServiceAccount of the target.
func (h *home) account(namespace, name string) (*corev1.ServiceAccount, error) {
	found := &corev1.ServiceAccount{}
	return found, h.at.Client.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: name}, found)
}

// token is the one in a Secret; empty if none is.
func token(s *corev1.Secret) string {
	body, has := s.Data[KeyKubeconfig]
	if !has {
		return string(s.Data[KeyToken])
	}
	config, err := clientcmd.Load(body)
	if err != nil || config.Contexts[config.CurrentContext] == nil {
		return ""
	}
	user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	if user == nil {
		return ""
	}
	return user.Token
}

// user is whose token a cluster takes a token for; empty if it does not accept it.
func (h *home) user(cluster *testbed.Cluster, token string) string {
	h.t.Helper()
	if token == "" {
		return ""
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	h.Expect(cluster.Client.Create(context.Background(), review)).To(Succeed())
	if !review.Status.Authenticated {
		return ""
	}
	return review.Status.User.Username
}

// username is that of a ServiceAccount of the namespace.
func (h *home) username(name string) string { return "system:serviceaccount:" + h.name + ":" + name }

// issued waits until a Secret has a token that its target accepts, other than some, and was found to be good.
func (h *home) issued(secret *corev1.Secret, others ...string) *corev1.Secret {
	h.t.Helper()
	var found *corev1.Secret
	h.Eventually(func(g Gomega) {
		found = h.get(secret)
		g.Expect(token(found)).NotTo(BeEmpty())
		g.Expect(others).NotTo(ContainElement(token(found)))
		g.Expect(h.user(h.at, token(found))).To(Equal("system:serviceaccount:" +
			found.Annotations[ServiceAccountNamespaceAnnotation] + ":" + found.Annotations[ServiceAccountNameAnnotation]))
	}).Should(Succeed())
	return found
}

// settled waits for a run that had nothing to do but to wait, for a Secret as it is now.
func (h *home) settled(secret *corev1.Secret) reconcile.Result {
	h.t.Helper()
	touched := h.touch(secret)
	var last outcome
	h.Eventually(func(g Gomega) {
		all := hub.outcomes(secret)()
		last = all[len(all)-1]
		g.Expect(last.err).NotTo(HaveOccurred())
		g.Expect(last.version).To(Equal(touched.ResourceVersion))
		g.Expect(last.result.RequeueAfter).To(BeNumerically(">", 0))
	}).Should(Succeed())
	return last.result
}

// touch changes a Secret in a way that means nothing.
func (h *home) touch(secret *corev1.Secret) *corev1.Secret {
	h.t.Helper()
	return h.change(secret, func(s *corev1.Secret) {
		s.Annotations["touched"] = s.ResourceVersion
	})
}

// fails waits for a run that fails with a message.
func (h *home) fails(secret *corev1.Secret, message string) {
	h.t.Helper()
	h.Eventually(func() (failures []string) {
		for _, o := range hub.outcomes(secret)() {
			if o.err != nil {
				failures = append(failures, o.err.Error())
			}
		}
		return failures
	}).Should(ContainElement(ContainSubstring(message)))
}

// expected is when the token of a Secret is to be renewed.
func (h *home) expected(token string) time.Duration {
	h.t.Helper()
	claims, is := kubeconfig.ClaimsOf(token)
	h.Expect(is).To(BeTrue())
	return min(claims.Expiry.Sub(hub.clock.Now()), 24*time.Hour) * 80 / 100
}

// body is a kubeconfig for somewhere else, with two contexts.
func body(token string, changes ...func(*api.Config)) []byte {
	config := api.NewConfig()
	for _, name := range []string{"current", "other"} {
		config.Clusters[name] = &api.Cluster{
			Server: "https://" + name + ".invalid", CertificateAuthorityData: []byte(name + "-ca"),
		}
		config.AuthInfos[name] = &api.AuthInfo{Token: token}
		config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name, Namespace: "kept"}
	}
	config.CurrentContext = "current"
	for _, change := range changes {
		change(config)
	}
	out, err := clientcmd.Write(*config)
	if err != nil {
		panic(err) // made here
	}
	return out
}

// load reads a kubeconfig.
func (h *home) load(content []byte) *api.Config {
	h.t.Helper()
	config, err := clientcmd.Load(content)
	h.Expect(err).NotTo(HaveOccurred())
	return config
}

// ca are the certificates of a cluster.
func ca(cluster *testbed.Cluster) []byte {
	config, err := clientcmd.Load(cluster.Kubeconfig())
	if err != nil {
		panic(err) // made by package controlplane
	}
	return config.Clusters[config.Contexts[config.CurrentContext].Cluster].CertificateAuthorityData
}

// refusal answers a call with a status.
func refusal(r *http.Request, code int, reason, message string) *http.Response {
	status := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`,
		code, reason, message)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(status)),
		Body: io.NopCloser(bytes.NewReader([]byte(status))),
	}
}

// requests reports whether a call requests a token; reviews whether it reviews one.
func requests(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/token") }
func reviews(r *http.Request) bool  { return strings.HasSuffix(r.URL.Path, "/tokenreviews") }

// byKey are settings that depend on nothing but which target it is. Several Secrets of one are worked on at a time.
func byKey(settings func(clustercache.ClusterKey) (Settings, bool)) func(clustercache.Status) (Settings, bool) {
	return func(status clustercache.Status) (Settings, bool) {
		of, on := settings(status.Cluster)
		of.ConcurrentSyncs = 5
		return of, on
	}
}
