package twins

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/addresses"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

// patience is how long Eventually waits.
const patience = 2 * time.Minute

// Twins are two targets. The first one is the source, too.
type Twins struct {
	A, B     *Target
	Clusters *clustercache.Cache

	mu    sync.Mutex
	calls map[clustercache.ClusterKey][]Call
	hook  func(clustercache.ClusterKey, *http.Request) *http.Response
}

// Target is one of them.
type Target struct {
	*controlplane.ControlPlane
	// Client is one of its administrator.
	Client client.Client
	Key    clustercache.ClusterKey
}

func newTarget(ctx context.Context, name string) (*Target, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{Name: name})
	if err != nil {
		return nil, err
	}
	c, err := client.New(plane.RESTConfig(), client.Options{})
	if err != nil {
		plane.Stop()
		return nil, fmt.Errorf("client for control plane %s: %w", name, err)
	}
	return &Target{plane, c, clustercache.ClusterKey{Namespace: "shoot-" + name, Name: name}}, nil
}

// Call is one to a target.
type Call struct {
	Method, Path, Query string
	Body                string // of a patch
}

// Main runs the tests of a package and exits. started is given the twins before the first test, unless -short leaves
// out the tests that need them.
func Main(m *testing.M, started func(*Twins)) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	if testing.Short() {
		os.Exit(m.Run())
	}
	before := goleak.IgnoreCurrent()
	code, err := run(m, started)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	controlplane.Exit(code, before)
}

func run(m *testing.M, started func(*Twins)) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	t := &Twins{calls: map[clustercache.ClusterKey][]Call{}}
	defer t.stop()
	defer work.Wait()
	defer cancel()
	var group errgroup.Group
	for name, target := range map[string]**Target{"a": &t.A, "b": &t.B} {
		group.Go(func() (err error) {
			*target, err = newTarget(ctx, name)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 1, err
	}
	for _, target := range []*Target{t.A, t.B} {
		if err := t.Register(ctx, target.Key, target.Kubeconfig()); err != nil {
			return 1, err
		}
	}
	if err := t.start(ctx, &work); err != nil {
		return 1, err
	}
	started(t)
	return m.Run(), nil
}

func (t *Twins) stop() {
	for _, target := range []*Target{t.A, t.B} {
		if target != nil {
			target.Stop()
		}
	}
}

// Register makes a cluster a target in a home namespace of its own.
func (t *Twins) Register(ctx context.Context, key clustercache.ClusterKey, kubeconfig []byte) error {
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}
	registration := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name + "-kubeconfig",
			Labels: map[string]string{hubv1alpha1.ClusterNameLabel: key.Name},
		},
		Type: "cluster.x-k8s.io/secret",
		Data: map[string][]byte{"value": kubeconfig},
	}
	if err := errors.Join(t.A.Client.Create(ctx, home), t.A.Client.Create(ctx, registration)); err != nil {
		return fmt.Errorf("registering target %s: %w", key, err)
	}
	return nil
}

func (t *Twins) start(ctx context.Context, work *sync.WaitGroup) error {
	informers, err := ctrlcache.New(t.A.RESTConfig(), ctrlcache.Options{
		ByObject: map[client.Object]ctrlcache.ByObject{&corev1.Secret{}: clustercache.SecretCacheOptions()},
	})
	if err != nil {
		return fmt.Errorf("making informers: %w", err)
	}
	t.Clusters, err = clustercache.New(clustercache.Options{
		Secrets: informers, WrapTransport: t.wrap,
		Dial: clustercache.DialOptions{Addresses: addresses.Any(), RetryMax: time.Second},
	})
	if err != nil {
		return fmt.Errorf("making a cluster cache: %w", err)
	}
	for _, start := range []func(context.Context) error{informers.Start, t.Clusters.Start} {
		work.Go(func() {
			if err := start(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	return nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// wrap records calls, and has the hook of a test answer them. Each target is a cluster of its own, as tests may
// register one several times.
func (t *Twins) wrap(key clustercache.ClusterKey, next http.RoundTripper) http.RoundTripper {
	next = controlplane.WithIdentity(key.String(), next)
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		call := Call{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery}
		if r.Method == http.MethodPatch && r.Body != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			call.Body = string(body)
			r = r.Clone(r.Context())
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		t.mu.Lock()
		t.calls[key] = append(t.calls[key], call)
		hook := t.hook
		t.mu.Unlock()
		if hook != nil {
			if answer := hook(key, r); answer != nil {
				answer.Request = r
				return answer, nil
			}
		}
		return next.RoundTrip(r)
	})
}

// Calls are those to a target since the last Reset, for which match is true.
func (t *Twins) Calls(key clustercache.ClusterKey, match func(Call) bool) []Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []Call
	for _, call := range t.calls[key] {
		if match(call) {
			found = append(found, call)
		}
	}
	return found
}

// Reset forgets all calls.
func (t *Twins) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.calls)
}

// Intercept has each call seen by hook until the test ends. What it returns is the answer, if it is not nil.
func (t *Twins) Intercept(test *testing.T, hook func(clustercache.ClusterKey, *http.Request) *http.Response) {
	set := func(f func(clustercache.ClusterKey, *http.Request) *http.Response) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.hook = f
	}
	set(hook)
	test.Cleanup(func() { set(nil) })
}

// Restricted is the kubeconfig of a user with some rights in all namespaces, beside what a connection needs.
func (t *Target) Restricted(ctx context.Context, user string, rules ...rbacv1.PolicyRule) ([]byte, error) {
	rules = append(slices.Clone(rules),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if err := errors.Join(t.Client.Create(ctx, role), t.Client.Create(ctx, binding)); err != nil {
		return nil, fmt.Errorf("rights of %s: %w", user, err)
	}
	return t.ClientCertKubeconfig(user, nil, time.Hour)
}

// Create creates an object until the test ends.
func (t *Target) Create(test *testing.T, object client.Object) {
	test.Helper()
	g := NewWithT(test)
	g.Expect(t.Client.Create(test.Context(), object)).To(Succeed())
	test.Cleanup(func() { t.Delete(test, object) })
}

// Delete deletes an object, a pod without asking its kubelet.
func (t *Target) Delete(test *testing.T, object client.Object) {
	test.Helper()
	err := t.Client.Delete(context.Background(), object, client.GracePeriodSeconds(0))
	NewWithT(test).Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
}

// Run runs a controller until the test ends, or the returned function is called.
func Run(test *testing.T, start func(context.Context) error) (stop func()) {
	test.Helper()
	g := NewWithT(test)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		g.Eventually(ended).Should(Receive(BeNil()))
	})
	test.Cleanup(stop)
	return stop
}
