package clustercache

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestCallsInFlightAreBoundedPerTarget(t *testing.T) {
	h, a, key := connected(t, Options{Limits: func(ClusterKey) Limits { return Limits{MaxInFlight: 3, QPS: -1} }})
	h.watchConfigMaps(key) // watches do not count
	var inFlight atomic.Int32
	var mu sync.Mutex
	most := int32(0)
	a.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/one") {
			defer inFlight.Add(-1)
			n := inFlight.Add(1)
			mu.Lock()
			most = max(most, n)
			mu.Unlock()
			time.Sleep(20 * time.Millisecond)
		}
		return false
	})
	a.store.put("configmaps", "default", "one", nil)
	// All kinds of clients share the bound.
	meta, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	uncached, err := h.cache.GetUncachedClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	config, err := h.cache.GetRESTConfig(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	own, err := client.New(config, client.Options{})
	h.Expect(err).NotTo(HaveOccurred())
	var group errgroup.Group
	for range 8 {
		group.Go(func() error { return get(meta) })
		for _, c := range []client.Client{uncached, own} {
			group.Go(func() error {
				return c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "one"}, &corev1.ConfigMap{})
			})
		}
	}
	h.Expect(group.Wait()).To(Succeed())
	h.Expect(most).To(BeEquivalentTo(3))
}

func TestWaitingForASeatHonoursTheContext(t *testing.T) {
	h, a, key := connected(t, Options{Limits: func(ClusterKey) Limits { return Limits{MaxInFlight: 1} }})
	a.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/one") {
			a.hang(r)
			return true
		}
		return false
	})
	c, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	var group errgroup.Group
	group.Go(func() error {
		_, err := c.Resource(configMapResource).Namespace("default").Get(ctx, "one", getOptions)
		return err
	})
	h.Eventually(func() int { return a.count("GET /api/v1/namespaces/default/configmaps/one") }).Should(Equal(1))
	short, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	_, err = c.Resource(configMapResource).Namespace("default").Get(short, "one", getOptions)
	h.Expect(err).To(MatchError(ContainSubstring("calls in flight")))
	h.Consistently(func() State { return h.state(key) }).Should(Equal(StateConnected), "probes get through")
	cancel()
	h.Expect(group.Wait()).NotTo(Succeed())
}

// All clients of a target, and those of the connection before, take from one bucket: when it is empty, each of them
// waits.
func TestOneRateLimitForAllClientsOfATarget(t *testing.T) {
	var limits atomic.Pointer[Limits]
	limits.Store(&Limits{QPS: -1})
	h := start(t, Options{
		Limits: func(ClusterKey) Limits { return *limits.Load() },
		Probe:  ProbeOptions{Interval: time.Hour},
	})
	s := newStore("uid-a")
	s.put("configmaps", "default", "one", nil)
	old, next := newAPIServer(t, s), newAPIServer(t, s)
	key := h.register("a", old.kubeconfig("x"))
	h.expectState(key, StateConnected)
	calls := h.readers(key)
	h.register("a", next.kubeconfig("x"))
	h.expectEvent(key, EventRotated)
	calls = append(calls, h.readers(key)...)

	limits.Store(&Limits{QPS: 1e-6, Burst: len(calls)})
	before := h.cache.target(key).throttle.Load()
	h.cache.Recheck(key)
	h.Eventually(func() bool { return h.cache.target(key).throttle.Load() != before }).Should(BeTrue())
	for i, call := range calls {
		h.Expect(call(t.Context())).To(Succeed(), "client %d", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 3 { // and the target is not blamed for it
		for i, call := range calls {
			h.Expect(call(ctx)).To(And(MatchError(ContainSubstring("rate limit")), Not(MatchError(ErrBusy))), "client %d", i)
		}
	}
}

// readers are a call through each kind of client that there is.
func (h *hub) readers(key ClusterKey) []func(context.Context) error {
	h.t.Helper()
	ctx := context.Background()
	typed, err := h.cache.GetClient(ctx, key)
	h.Expect(err).NotTo(HaveOccurred())
	uncached, err := h.cache.GetUncachedClient(ctx, key)
	h.Expect(err).NotTo(HaveOccurred())
	config, err := h.cache.GetRESTConfig(ctx, key)
	h.Expect(err).NotTo(HaveOccurred())
	own, err := client.New(config, client.Options{Mapper: typed.RESTMapper()})
	h.Expect(err).NotTo(HaveOccurred())
	meta, err := h.cache.GetMetadataClient(ctx, key)
	h.Expect(err).NotTo(HaveOccurred())
	calls := []func(context.Context) error{func(ctx context.Context) error {
		_, err := meta.Resource(configMapResource).Namespace("default").Get(ctx, "one", getOptions)
		return err
	}}
	for _, c := range []client.Client{typed, uncached, own} {
		call := func(ctx context.Context) error {
			return c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "one"}, &corev1.ConfigMap{})
		}
		h.Expect(call(ctx)).To(Succeed()) // it may ask for mappings first
		calls = append(calls, call)
	}
	return calls
}

func TestLimitsChangeOnRecheck(t *testing.T) {
	var most atomic.Int64
	most.Store(1)
	h, _, key := connected(t, Options{Limits: func(ClusterKey) Limits { return Limits{MaxInFlight: int(most.Load())} }})
	h.Expect(h.cache.target(key).throttle.Load().MaxInFlight()).To(Equal(1))
	most.Store(7)
	h.cache.Recheck(key)
	h.Eventually(func() int { return h.cache.target(key).throttle.Load().MaxInFlight() }).Should(Equal(7))
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(1))
}

func TestConnectionServesItsOwnServerOnly(t *testing.T) {
	h, _, key := connected(t, Options{})
	other := newAPIServer(t, newStore("uid-b"))
	config, err := h.cache.GetRESTConfig(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	_, err = (&http.Client{Transport: config.Transport}).Get(other.server.URL)
	h.Expect(err).To(MatchError(ContainSubstring("only serves")))
	h.Expect(other.count("")).To(BeZero())
}
