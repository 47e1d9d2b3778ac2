package clustercache

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
)

// patience is how long tests wait for what takes milliseconds on an idle machine.
const patience = 2 * time.Minute

// identityPath is what probes read to identify a cluster, and leasesPath what they read of its history.
const (
	identityPath = "/api/v1/namespaces/kube-system"
	leasesPath   = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
)

// secrets stands for the informer of registration Secrets.
type secrets struct {
	cache.Informer

	mu       sync.Mutex
	content  map[types.NamespacedName]*corev1.Secret
	handlers []toolscache.ResourceEventHandler
	version  int
}

func newSecrets() *secrets { return &secrets{content: map[types.NamespacedName]*corev1.Secret{}} }

func (s *secrets) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return s, nil
}

func (s *secrets) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers = append(s.handlers, h)
	for _, secret := range s.content {
		h.OnAdd(secret.DeepCopy(), true)
	}
	return synced{}, nil
}

// synced stands for a handler that has received everything that existed when it was added.
type synced struct {
	toolscache.ResourceEventHandlerRegistration
}

func (synced) HasSyncedChecker() toolscache.DoneChecker { return synced{} }
func (synced) Name() string                             { return "synced" }
func (synced) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (s *secrets) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// set creates or updates a Secret.
func (s *secrets) set(secret *corev1.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	secret = secret.DeepCopy()
	secret.ResourceVersion = strconv.Itoa(s.version)
	key := client.ObjectKeyFromObject(secret)
	old := s.content[key]
	if old == nil {
		secret.UID = types.UID("secret-" + secret.ResourceVersion)
	} else {
		secret.UID = old.UID
	}
	s.content[key] = secret
	for _, h := range s.handlers {
		if old == nil {
			h.OnAdd(secret.DeepCopy(), false)
		} else {
			h.OnUpdate(old.DeepCopy(), secret.DeepCopy())
		}
	}
}

// latest is the version of the Secret that was written last.
func (s *secrets) latest() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *secrets) remove(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	old := s.content[key]
	delete(s.content, key)
	for _, h := range s.handlers {
		h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key.String(), Obj: old})
	}
}

// hub is a running cache with its Secrets.
type hub struct {
	*WithT
	t       testing.TB
	cache   *Cache
	secrets *secrets
	events  EventSource
	stop    func()
	watches sync.Map // watchName -> Subscription
}

// watchName is what tests know a subscription by.
type watchName struct {
	key  ClusterKey
	name string
}

// watch subscribes under a name that the other methods know.
func (h *hub) watch(key ClusterKey, w Watcher) Subscription {
	h.t.Helper()
	s, err := h.cache.Watch(h.t.Context(), key, w)
	h.Expect(err).NotTo(HaveOccurred())
	h.watches.Store(watchName{key, w.Name}, s)
	return s
}

// unwatch closes a subscription, which may be unknown.
func (h *hub) unwatch(key ClusterKey, name string) {
	if s := h.subscription(key, name); s != nil {
		s.Close()
	}
}

func (h *hub) subscription(key ClusterKey, name string) Subscription {
	found, _ := h.watches.Load(watchName{key, name})
	s, _ := found.(Subscription)
	return s
}

func (h *hub) lookup(key ClusterKey, name string, object types.NamespacedName) (value any, found, synced bool) {
	if s := h.subscription(key, name); s != nil {
		return s.Lookup(object)
	}
	return nil, false, false
}

func (h *hub) ranged(key ClusterKey, name string, f func(key types.NamespacedName, value any) bool) (synced bool) {
	if s := h.subscription(key, name); s != nil {
		return s.Range(f)
	}
	return false
}

// quick are options with which faults show within a test's patience.
func quick(options Options) Options {
	setDefault(&options.Probe.Interval, 200*time.Millisecond)
	setDefault(&options.Probe.Timeout, time.Second)
	setDefault(&options.Dial.ConnectTimeout, 2*time.Second)
	setDefault(&options.Dial.ResumeTimeout, time.Second)
	setDefault(&options.Dial.RetryMax, time.Second)
	setDefault(&options.Dial.RefusedRetryMax, time.Second)
	setDefault(&options.Watch.SyncTimeout, 5*time.Second)
	options.transitionRefused = func(from State, e stateEvent) {
		panic(fmt.Sprintf("%s must not happen in state %s", e, from))
	}
	return options
}

// patiently are options with which nothing is given up because this machine is slow: for targets that always answer.
func patiently() Options {
	return Options{
		Dial:  DialOptions{ConnectTimeout: patience, ResumeTimeout: patience},
		Probe: ProbeOptions{Timeout: patience},
		Watch: WatchOptions{SyncTimeout: patience},
	}
}

// onLoopback allows the addresses that the servers of tests have.
func onLoopback() addresses.Policy {
	policy, err := addresses.Allow("127.0.0.0/8", "::1/128")
	if err != nil {
		panic(err) // they are constants
	}
	return policy
}

// start runs a cache until the test ends, and then checks that it left no goroutine. Targets may be on this machine.
func start(t testing.TB, options Options) *hub {
	t.Helper()
	options.Dial.Addresses = onLoopback()
	return startStrictly(t, options)
}

// logged collects a log.
type logged struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *logged) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		fmt.Fprintln(&l.lines, prefix, args)
	}, funcr.Options{})
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// startStrictly is start with the addresses that the options allow.
func startStrictly(t testing.TB, options Options) *hub {
	t.Helper()
	before := goleak.IgnoreCurrent()
	h := &hub{WithT: NewWithT(t), t: t, secrets: newSecrets()}
	h.SetDefaultEventuallyTimeout(patience)
	h.SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	h.SetDefaultConsistentlyDuration(500 * time.Millisecond)
	options.Secrets = h.secrets
	tt, test := t.(*testing.T)
	switch {
	case options.Logger.GetSink() != nil: // the test looks at it
	case test:
		options.Logger = testr.NewWithOptions(tt, testr.Options{Verbosity: 1})
	default:
		options.Logger = logr.Discard()
	}
	var err error
	h.cache, err = New(quick(options))
	h.Expect(err).NotTo(HaveOccurred())
	h.events = h.cache.GetClusterSource("test")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.cache.Start(ctx) }()
	h.stop = sync.OnceFunc(func() {
		h.events.Close()
		cancel()
		h.Eventually(done).Should(Receive(BeNil()))
	})
	t.Cleanup(func() {
		h.stop()
		h.Eventually(func() error {
			return goleak.Find(before, goleak.IgnoreTopFunction("net/http.(*http2serverConn).serve"))
		}).
			WithTimeout(patience).Should(Succeed())
	})
	h.Eventually(func() int {
		h.secrets.mu.Lock()
		defer h.secrets.mu.Unlock()
		return len(h.secrets.handlers)
	}).Should(Equal(1))
	return h
}

// register creates or updates the registration Secret of a target, and waits until it was read.
func (h *hub) register(name string, kubeconfig []byte) ClusterKey {
	return h.registerIn("garden", name, kubeconfig)
}

// registerIn is register in another namespace.
func (h *hub) registerIn(namespace, name string, kubeconfig []byte) ClusterKey {
	h.t.Helper()
	key := ClusterKey{Namespace: namespace, Name: name}
	h.secrets.set(registrationSecret(key, kubeconfig))
	h.Eventually(func() bool { return h.cache.registry.Settled(key) }).Should(BeTrue())
	return key
}

func (h *hub) unregister(key ClusterKey) { h.secrets.remove(key.Namespace, key.Name+"-kubeconfig") }

func registrationSecret(key ClusterKey, content []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name + "-kubeconfig",
			Labels: map[string]string{kubeconfig.ClusterNameLabel: key.Name},
		},
		Data: map[string][]byte{"value": content},
	}
}

func (h *hub) state(key ClusterKey) State {
	status, _ := h.cache.GetStatus(key)
	return status.State
}

func (h *hub) status(key ClusterKey) Status {
	status, _ := h.cache.GetStatus(key)
	return status
}

// expectState waits for a state.
func (h *hub) expectState(key ClusterKey, state State) Status {
	h.t.Helper()
	h.Eventually(func() string { s := h.status(key); return fmt.Sprint(s.State) }).
		Should(Equal(fmt.Sprint(state)), func() string { return fmt.Sprintf("%+v", h.status(key)) })
	return h.status(key)
}

// expectEvent reads events until one of the type comes for the target.
func (h *hub) expectEvent(key ClusterKey, wanted EventType) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		event, err := h.events.Next(ctx)
		h.Expect(err).NotTo(HaveOccurred(), "waiting for %s", wanted)
		if event.Cluster == key && event.Has(wanted) {
			return
		}
	}
}

// recorder is a WatchHandler that remembers the stream.
type recorder struct {
	mu      sync.Mutex
	values  map[types.NamespacedName]any
	updates map[types.NamespacedName]int
	deletes []types.NamespacedName
	synced  int
	errs    []error
	faults  []string // contradictions in the stream
	during  func()
}

func newRecorder() *recorder {
	return &recorder{values: map[types.NamespacedName]any{}, updates: map[types.NamespacedName]int{}}
}

func (r *recorder) OnUpdate(_ ClusterKey, _ string, key types.NamespacedName, old, value any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, exists := r.values[key]; exists != (old != nil) || exists && !reflect.DeepEqual(known, old) {
		r.faults = append(r.faults, fmt.Sprintf("update of %s with an old value that was not announced", key))
	}
	r.values[key] = value
	r.updates[key]++
	if r.during != nil {
		r.during()
	}
}

func (r *recorder) OnDelete(_ ClusterKey, _ string, key types.NamespacedName, _ any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, exists := r.values[key]; !exists {
		r.faults = append(r.faults, fmt.Sprintf("deletion of %s, which was not announced", key))
	}
	delete(r.values, key)
	r.deletes = append(r.deletes, key)
}

func (r *recorder) OnSynced(ClusterKey, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced++
}

func (r *recorder) OnError(_ ClusterKey, _ string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

func (r *recorder) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for key := range maps.Keys(r.values) {
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return names
}

// versions of the objects that were announced last, by their names.
func (r *recorder) versions() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	versions := map[string]string{}
	for key, value := range r.values {
		if obj, ok := value.(client.Object); ok {
			versions[key.Name] = obj.GetResourceVersion()
		}
	}
	return versions
}

func (r *recorder) count(f func(*recorder) int) func() int {
	return func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return f(r)
	}
}

func (r *recorder) syncs() int  { return r.count(func(r *recorder) int { return r.synced })() }
func (r *recorder) errors() int { return r.count(func(r *recorder) int { return len(r.errs) })() }
func (r *recorder) faultsNow() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.faults)
}
func (r *recorder) lastErr() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) == 0 {
		return nil
	}
	return r.errs[len(r.errs)-1]
}

// kubeconfigOf builds a kubeconfig, changed by mutate.
func kubeconfigOf(server string, ca []byte, token string, mutate ...func(*api.Cluster, *api.AuthInfo)) []byte {
	cluster := &api.Cluster{Server: server, CertificateAuthorityData: ca}
	user := &api.AuthInfo{Token: token}
	for _, m := range mutate {
		m(cluster, user)
	}
	raw, err := clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{"target": cluster},
		AuthInfos:      map[string]*api.AuthInfo{"hub": user},
		Contexts:       map[string]*api.Context{"target": {Cluster: "target", AuthInfo: "hub"}},
		CurrentContext: "target",
	})
	if err != nil {
		panic(err)
	}
	return raw
}
