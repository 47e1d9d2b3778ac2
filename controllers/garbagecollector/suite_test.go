package garbagecollector

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/addresses"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/apis/references"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

const patience = 2 * time.Minute

// shared is what all tests have in common: two control planes, of which the first one is the source, too. Tests run one
// after the other, since a pass looks at all of a target.
var shared *world

type world struct {
	// a has the CRDs of ManagedResource and Prometheus; b has no CRDs at first.
	a, b     *cluster
	clusters *clustercache.Cache
	recorder *events.FakeRecorder

	mu    sync.Mutex
	looks map[clustercache.ClusterKey]int // passes that have begun
	hook  func(key clustercache.ClusterKey, r *http.Request) *http.Response
}

// cluster is a control plane with a client of its administrator.
type cluster struct {
	*controlplane.ControlPlane
	Client client.Client
}

func startCluster(ctx context.Context, name string) (*cluster, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme),
		resourcesv1alpha1.AddToScheme(scheme))
	if err != nil {
		return nil, fmt.Errorf("making a scheme: %w", err)
	}
	cp, err := controlplane.Start(ctx, controlplane.Options{Name: name})
	if err != nil {
		return nil, fmt.Errorf("starting control plane %s: %w", name, err)
	}
	c, err := client.New(cp.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		cp.Stop()
		return nil, fmt.Errorf("client for control plane %s: %w", name, err)
	}
	return &cluster{cp, c}, nil
}

func registration(namespace, name string, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-kubeconfig", Labels: map[string]string{hubv1alpha1.ClusterNameLabel: name},
		},
		Type: "cluster.x-k8s.io/secret",
		Data: map[string][]byte{"value": kubeconfig},
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		shared = &world{}
		os.Exit(m.Run())
	}
	controlplane.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	ctrllog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	w := &world{looks: map[clustercache.ClusterKey]int{}, recorder: events.NewFakeRecorder(10_000)}
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	err := w.start(ctx, &work)
	for _, c := range []*cluster{w.a, w.b} {
		if c != nil {
			defer c.Stop()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = w
	code := m.Run()
	cancel()
	work.Wait()
	return code
}

func (w *world) start(ctx context.Context, work *sync.WaitGroup) (err error) {
	if w.a, err = startCluster(ctx, "a"); err != nil {
		return err
	}
	if w.b, err = startCluster(ctx, "b"); err != nil {
		return err
	}
	for _, crd := range append(chart.CRDs(), prometheusCRD()) {
		if err := w.a.Client.Create(ctx, crd); err != nil {
			return fmt.Errorf("installing CRD %s: %w", crd.Name, err)
		}
	}
	informers, err := ctrlcache.New(w.a.RESTConfig(), ctrlcache.Options{
		ByObject: map[client.Object]ctrlcache.ByObject{&corev1.Secret{}: clustercache.SecretCacheOptions()},
	})
	if err != nil {
		return fmt.Errorf("making informers: %w", err)
	}
	w.clusters, err = clustercache.New(clustercache.Options{
		Secrets:       informers,
		Dial:          clustercache.DialOptions{Addresses: addresses.Any(), RetryMax: time.Second},
		Probe:         clustercache.ProbeOptions{Interval: 200 * time.Millisecond},
		WrapTransport: w.wrap,
	})
	if err != nil {
		return fmt.Errorf("making a cluster cache: %w", err)
	}
	for _, start := range []func(context.Context) error{informers.Start, w.clusters.Start} {
		work.Go(func() {
			if err := start(ctx); err != nil && ctx.Err() == nil {
				panic(err)
			}
		})
	}
	return nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// wrap counts passes, and has the hook of a test see each call.
func (w *world) wrap(key clustercache.ClusterKey, next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		w.mu.Lock()
		if isList(r, "configmaps") && r.URL.Query().Get("continue") == "" {
			w.looks[key]++
		}
		hook := w.hook
		w.mu.Unlock()
		if hook != nil {
			if answer := hook(key, r); answer != nil {
				answer.Request = r
				return answer, nil
			}
		}
		return next.RoundTrip(r)
	})
}

func isList(r *http.Request, resource string) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+resource) && r.URL.Query().Get("watch") == ""
}

// site is a target in one test.
type site struct {
	*WithT
	t       *testing.T
	cluster *cluster
	key     clustercache.ClusterKey
	// namespace is that of the test's objects.
	namespace string
}

// register makes a cluster a target, with the credential of a kubeconfig, until the test ends.
func register(t *testing.T, on *cluster, name string, kubeconfig []byte) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	s := &site{WithT: NewWithT(t), t: t, cluster: on}
	ctx := t.Context()
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shoot--" + name + "-"}}
	s.Expect(shared.a.Client.Create(ctx, home)).To(Succeed())
	s.key = clustercache.ClusterKey{Namespace: home.Name, Name: name}
	if kubeconfig == nil {
		kubeconfig = on.Kubeconfig()
	}
	secret := registration(home.Name, name, kubeconfig)
	s.Expect(shared.a.Client.Create(ctx, secret)).To(Succeed())
	t.Cleanup(func() {
		s.Expect(client.IgnoreNotFound(shared.a.Client.Delete(context.Background(), secret))).To(Succeed())
		s.Eventually(s.registered).Should(BeFalse())
	})
	s.Eventually(func() clustercache.State {
		status, _ := shared.clusters.GetStatus(s.key)
		return status.State
	}).Should(Equal(clustercache.StateConnected))
	s.namespace = s.newNamespace()
	return s
}

func (s *site) registered() bool {
	_, registered := shared.clusters.GetStatus(s.key)
	return registered
}

func (s *site) newNamespace() string {
	s.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	s.Expect(s.cluster.Client.Create(s.t.Context(), namespace)).To(Succeed())
	return namespace.Name
}

// restricted is the kubeconfig of a user with some rights, beside what a connection needs.
func restricted(t *testing.T, on *cluster, rules ...rbacv1.PolicyRule) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	g := NewWithT(t)
	rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "restricted-"}, Rules: rules}
	g.Expect(on.Client.Create(t.Context(), role)).To(Succeed())
	user := role.Name
	g.Expect(on.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
	kubeconfig, err := on.ClientCertKubeconfig(user, nil, time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

// Rights of a collector, as doc.go has them.
var (
	collectRule = rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"get", "list", "delete"},
	}
	podsRule = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}
	listRule = rbacv1.PolicyRule{
		APIGroups: []string{"apps", "batch", "resources.gardener.cloud", "monitoring.coreos.com"},
		Resources: []string{
			"deployments", "statefulsets", "daemonsets", "jobs", "cronjobs", "managedresources", "prometheuses",
		},
		Verbs: []string{"list"},
	}
)

// collect runs the controller for some targets until the test ends. Options that are not set are such that everything is
// old enough at once.
func collect(t *testing.T, options Options, sites ...*site) {
	t.Helper()
	g := NewWithT(t)
	if options.MinimumLifetime == nil {
		options.MinimumLifetime = ptr.To(-time.Hour) // clocks may differ
	}
	if options.Settings == nil {
		options.Settings = func(status clustercache.Status) (Settings, bool) {
			is := func(s *site) bool { return s.key == status.Cluster }
			return Settings{SyncPeriod: 50 * time.Millisecond}, slices.ContainsFunc(sites, is)
		}
	}
	c, err := New(multicluster.Environment{Clusters: shared.clusters, Events: shared.recorder}, options)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Eventually(ended).Should(Receive(BeNil()))
	})
}

// passes waits until a pass has begun and ended after it was called.
func (s *site) passes() {
	s.t.Helper()
	looks := func() int {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		return shared.looks[s.key]
	}
	before := looks()
	s.Eventually(looks).Should(BeNumerically(">=", before+2), "two more passes have begun")
}

// intercept has each call to a target seen by hook, until the test ends. What it returns is the answer, if it is not nil.
func intercept(t *testing.T, hook func(key clustercache.ClusterKey, r *http.Request) *http.Response) {
	set := func(f func(key clustercache.ClusterKey, r *http.Request) *http.Response) {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		shared.hook = f
	}
	set(hook)
	t.Cleanup(func() { set(nil) })
}

// clearEvents drops what was recorded so far.
func clearEvents() {
	for {
		select {
		case <-shared.recorder.Events:
		default:
			return
		}
	}
}

// secret and configMap make one that may be collected.
func (s *site) secret(namespace, name string) *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: collectableMeta(namespace, name)}
	s.Expect(s.cluster.Client.Create(s.t.Context(), secret)).To(Succeed())
	return secret
}

func (s *site) configMap(namespace, name string) *corev1.ConfigMap {
	s.t.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: collectableMeta(namespace, name)}
	s.Expect(s.cluster.Client.Create(s.t.Context(), configMap)).To(Succeed())
	return configMap
}

func collectableMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{references.Label: references.LabelValue},
	}
}

// exists reports whether an object is still there.
func (s *site) exists(obj client.Object) func() bool {
	return func() bool {
		got := &metav1.PartialObjectMetadata{}
		gvk, err := s.cluster.Client.GroupVersionKindFor(obj)
		s.Expect(err).NotTo(HaveOccurred())
		got.SetGroupVersionKind(gvk)
		err = s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(obj), got)
		s.Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
		return !apierrors.IsNotFound(err)
	}
}

func (s *site) gone(objects ...client.Object) {
	s.t.Helper()
	for _, obj := range objects {
		s.Eventually(s.exists(obj)).Should(BeFalse(), "%s is deleted", obj.GetName())
	}
}

func (s *site) stays(objects ...client.Object) {
	s.t.Helper()
	for _, obj := range objects {
		s.Expect(s.exists(obj)()).To(BeTrue(), "%s stays", obj.GetName())
	}
}

// create makes an object that refers to others, until the test ends.
func (s *site) create(obj client.Object) {
	s.t.Helper()
	s.Eventually(func() error { return s.cluster.Client.Create(s.t.Context(), obj) }).Should(Succeed())
	s.t.Cleanup(func() {
		s.Expect(client.IgnoreNotFound(s.cluster.Client.Delete(context.Background(), obj))).To(Succeed())
	})
}
