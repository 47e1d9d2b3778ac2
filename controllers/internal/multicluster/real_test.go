package multicluster_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/addresses"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

// site is a real control plane that is a target.
type site struct {
	*controlplane.ControlPlane
	client client.Client
	key    clustercache.ClusterKey
}

func startSite(t *testing.T, key clustercache.ClusterKey) *site {
	plane := controlplane.StartForTest(t, controlplane.Options{Name: key.Name})
	c, err := client.New(plane.RESTConfig(), client.Options{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &site{ControlPlane: plane, client: c, key: key}
}

func (s *site) registration() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.key.Namespace, Name: s.key.Name + "-kubeconfig",
			Labels: map[string]string{hubv1alpha1.ClusterNameLabel: s.key.Name},
		},
		Type: "cluster.x-k8s.io/secret",
		Data: map[string][]byte{"value": s.Kubeconfig()},
	}
}

func (s *site) namespace(t *testing.T, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	NewWithT(t).Expect(s.client.Create(t.Context(), namespace)).To(Succeed())
}

// owner returns what the example wrote into a namespace; empty if it did not.
func (s *site) owner(t *testing.T, namespace string) func() string {
	return func() string {
		owner := &corev1.ConfigMap{}
		_ = s.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "owner"}, owner) // not yet
		return owner.Data["owner"]
	}
}

// configMap creates one that is wanted in the target of its namespace.
func (s *site) configMap(t *testing.T, namespace, name string) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"wanted": "true"},
	}}
	NewWithT(t).Expect(s.client.Create(t.Context(), object)).To(Succeed())
}

// has reports whether a copy is in the target.
func (s *site) has(t *testing.T, name string) func() bool {
	return func() bool {
		key := client.ObjectKey{Namespace: "default", Name: name}
		return s.client.Get(t.Context(), key, &corev1.ConfigMap{}) == nil
	}
}

// wanted is what is to be copied of a ConfigMap of the source.
func wanted(obj client.Object) []types.NamespacedName {
	if obj.GetLabels()["wanted"] == "" {
		return nil
	}
	return []types.NamespacedName{client.ObjectKeyFromObject(obj)}
}

func copyIt(ctx context.Context, target *Target, name types.NamespacedName) (reconcile.Result, error) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name.Name}}
	return reconcile.Result{}, client.IgnoreAlreadyExists(target.Client.Create(ctx, object))
}

// ours are the stacks of goroutines in which the controller or the cluster cache is at work.
func ours() (found []string) {
	const module = "github.com/trellis-hub/trellis/"
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2) // into memory
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		at := strings.Contains(stack, module+"controllers/internal/multicluster.") ||
			strings.Contains(stack, module+"clustercache")
		if at && !strings.Contains(stack, "TestExampleInRealTargets(") {
			found = append(found, stack)
		}
	}
	return found
}

// The example at two real targets: one goes down and comes back, the other one gets another credential, and one leaves.
func TestExampleInRealTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	log.SetLogger(logr.Discard())
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(2 * time.Minute)
	e, w := startSite(t, east), startSite(t, west)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 5)
	run := func(start func(context.Context) error) { go func() { ended <- start(ctx) }() }

	// The eastern target is the source, too.
	registrations := map[*site]*corev1.Secret{}
	for _, s := range []*site{e, w} {
		e.namespace(t, s.key.Namespace)
		registrations[s] = s.registration()
		g.Expect(e.client.Create(ctx, registrations[s])).To(Succeed())
	}
	informers, err := ctrlcache.New(e.RESTConfig(), ctrlcache.Options{
		ByObject: map[client.Object]ctrlcache.ByObject{&corev1.Secret{}: clustercache.SecretCacheOptions()},
	})
	g.Expect(err).NotTo(HaveOccurred())
	clusters, err := clustercache.New(clustercache.Options{
		Secrets: informers,
		Dial:    clustercache.DialOptions{Addresses: addresses.Any(), RetryMax: time.Second},
		Probe:   clustercache.ProbeOptions{Interval: 200 * time.Millisecond},
	})
	g.Expect(err).NotTo(HaveOccurred())
	environment := Environment{Clusters: clusters, Source: informers, Events: events.NewFakeRecorder(100)}
	c, err := newExample(environment)
	g.Expect(err).NotTo(HaveOccurred())
	copies, err := New("copies", environment).
		WatchesSource(&corev1.ConfigMap{}, &corev1.ConfigMapList{}, wanted).Complete(ReconcilerFunc(copyIt))
	g.Expect(err).NotTo(HaveOccurred())
	var ticks sync.Map // of the timer, by target
	timer, err := New("timer", environment).Every(100 * time.Millisecond).Complete(ReconcilerFunc(
		func(_ context.Context, target *Target, _ types.NamespacedName) (reconcile.Result, error) {
			n, _ := ticks.LoadOrStore(target.Key(), new(atomic.Int64))
			if n, is := n.(*atomic.Int64); is {
				n.Add(1)
			}
			return reconcile.Result{}, nil
		}))
	g.Expect(err).NotTo(HaveOccurred())
	ticked := func(s *site) func() int64 {
		return func() int64 {
			if n, found := ticks.Load(s.key); found {
				if n, is := n.(*atomic.Int64); is {
					return n.Load()
				}
			}
			return 0
		}
	}
	e.configMap(t, east.Namespace, "before")
	run(informers.Start)
	run(clusters.Start)
	run(c.Start)
	run(copies.Start)
	run(timer.Start)

	t.Log("two targets at once")
	for _, s := range []*site{e, w} {
		g.Eventually(s.owner(t, "default")).Should(Equal(s.key.Namespace))
	}

	t.Log("the timer of each")
	for _, s := range []*site{e, w} {
		g.Eventually(ticked(s)).Should(BeNumerically(">=", 3))
	}

	t.Log("objects of the source")
	e.configMap(t, east.Namespace, "after")
	g.Eventually(e.has(t, "before")).Should(BeTrue(), "it was there when the target was engaged")
	g.Eventually(e.has(t, "after")).Should(BeTrue())
	g.Expect(w.has(t, "before")()).To(BeFalse(), "it is of another namespace")

	t.Log("one is down")
	w.StopAPIServer()
	g.Eventually(func() clustercache.State { s, _ := clusters.GetStatus(west); return s.State }).
		Should(Equal(clustercache.StateDisconnected))
	before := ticked(e)()
	e.namespace(t, "meanwhile")
	g.Eventually(e.owner(t, "meanwhile")).Should(Equal(east.Namespace))
	g.Eventually(ticked(e)).Should(BeNumerically(">", before))
	before = ticked(w)()
	g.Expect(w.StartAPIServer(ctx)).To(Succeed())
	g.Eventually(ticked(w)).Should(BeNumerically(">", before), "the timer goes on")
	w.namespace(t, "later")
	g.Eventually(w.owner(t, "later")).Should(Equal(west.Namespace))

	t.Log("another credential")
	rotated, err := e.ClientCertKubeconfig("rotated", []string{"system:masters"}, time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	secret := registrations[e]
	secret.Data["value"] = rotated
	g.Expect(e.client.Update(ctx, secret)).To(Succeed())
	g.Eventually(func() int64 { s, _ := clusters.GetStatus(east); return s.Connection }).Should(BeEquivalentTo(2))
	e.namespace(t, "rotated")
	g.Eventually(e.owner(t, "rotated")).Should(Equal(east.Namespace))

	t.Log("one leaves")
	g.Expect(e.client.Delete(ctx, registrations[w])).To(Succeed())
	g.Eventually(func() bool { _, registered := clusters.GetStatus(west); return registered }).Should(BeFalse())
	w.namespace(t, "left")
	e.namespace(t, "stays")
	g.Eventually(e.owner(t, "stays")).Should(Equal(east.Namespace))
	g.Expect(w.owner(t, "left")()).To(BeEmpty())
	g.Expect(w.owner(t, "default")()).To(Equal(west.Namespace), "what was written stays")

	t.Log("the end of the term")
	g.Expect(ours()).NotTo(BeEmpty())
	cancel()
	for range cap(ended) {
		g.Eventually(ended).Should(Receive(BeNil()))
	}
	g.Eventually(ours).Should(BeEmpty())
}
