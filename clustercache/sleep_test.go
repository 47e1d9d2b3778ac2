package clustercache

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// asleep is a target that can be put to sleep, as Options.
func asleep() (*atomic.Bool, Options) {
	sleeps := &atomic.Bool{}
	return sleeps, Options{
		Asleep: func(ClusterKey) bool { return sleeps.Load() },
		Probe:  ProbeOptions{Interval: 20 * time.Millisecond},
	}
}

// expectSilence insists that nothing is sent to a server.
func (h *hub) expectSilence(a *apiServer) {
	h.t.Helper()
	h.Eventually(a.sockets).Should(BeZero())
	// The server handles the last requests after their connection is gone.
	requests := func() int {
		before := a.count("")
		time.Sleep(20 * h.cache.options.Probe.Interval)
		return a.count("") - before
	}
	h.Eventually(requests).Should(BeZero())
	h.Expect(requests()).To(BeZero())
}

func TestHibernatedTargetIsLeftAlone(t *testing.T) {
	sleeps, options := asleep()
	registry := prometheus.NewRegistry()
	options.Registerer = registry
	up := func() int { n, _ := testutil.GatherAndCount(registry, "trellis_target_up"); return n }
	h, a, key := connected(t, options)
	a.store.put("configmaps", "default", "one", nil)
	r := h.watchConfigMaps(key)
	h.Expect(up()).To(Equal(1))

	sleeps.Store(true)
	h.cache.Recheck(key)
	h.Expect(h.expectState(key, StateHibernated).Reason).To(Equal(ReasonHibernated))
	h.expectEvent(key, EventDisconnected)
	h.expectSilence(a)
	h.Expect(up()).To(BeZero(), "no alert fires")
	_, err := h.cache.GetClient(context.Background(), key)
	h.Expect(err).To(MatchError(ErrClusterNotConnected))
	_, found, synced := h.lookup(key, "cm", nameOf("one"))
	h.Expect(found).To(BeTrue(), "what was known is kept")
	h.Expect(synced).To(BeFalse())

	// A change of the registration does not wake it, not even to another server.
	b := newAPIServer(t, a.store)
	h.register("a", b.kubeconfig("x"))
	h.Consistently(func() State { return h.state(key) }).Should(Equal(StateHibernated))
	h.expectSilence(b)

	b.setFault(b.hangAll)
	sleeps.Store(false)
	h.cache.Recheck(key)
	h.Eventually(func() int { return b.count("GET /version") }).Should(BeNumerically(">=", 1), "it is dialled")
	b.setFault(nil)
	h.expectState(key, StateConnected)
	h.expectEvent(key, EventConnected)
	h.Eventually(r.syncs).Should(Equal(2))
	h.Expect(r.faults).To(BeEmpty())
}

func TestTargetFallsAsleepInEveryState(t *testing.T) {
	for name, prepare := range map[string]func(h *hub, a *apiServer, key ClusterKey){
		"while it is dialled": func(_ *hub, a *apiServer, _ ClusterKey) { a.setFault(a.hangAll); a.cut() },
		"while it is held": func(h *hub, a *apiServer, key ClusterKey) {
			a.setFault(a.hangAll)
			h.expectState(key, StateDisconnected)
		},
		"with a faulty kubeconfig": func(h *hub, _ *apiServer, key ClusterKey) { h.register("a", nil); h.expectState(key, StateConnected) },
		"while it rotates":         func(h *hub, a *apiServer, _ ClusterKey) { h.register("a", newAPIServer(h.t, a.store).kubeconfig("y")) },
		"with a token on the way":  func(h *hub, a *apiServer, _ ClusterKey) { h.register("a", a.kubeconfig("y")) },
	} {
		t.Run(name, func(t *testing.T) {
			sleeps, options := asleep()
			h, a, key := connected(t, options)
			h.watchConfigMaps(key)
			prepare(h, a, key)
			sleeps.Store(true)
			h.cache.Recheck(key)
			h.expectState(key, StateHibernated)
			h.expectSilence(a)
			h.Expect(h.state(key)).To(Equal(StateHibernated))
		})
	}
}

func TestHibernatedTargetThatWakesShowsWhatIsWrong(t *testing.T) {
	sleeps, options := asleep()
	sleeps.Store(true)
	h := start(t, options)
	key := h.register("a", []byte("no kubeconfig"))
	h.expectState(key, StateHibernated)
	sleeps.Store(false)
	h.cache.Recheck(key)
	h.Expect(h.expectState(key, StateRefused).Reason).To(Equal(ReasonKubeconfigInvalid))
}

func TestHibernatedTargetIsNoLoss(t *testing.T) {
	sleeps, options := asleep()
	options.Grace.MassPercent = 1
	h := start(t, options)
	var keys []ClusterKey
	for _, name := range []string{"a", "b", "c", "d"} {
		keys = append(keys, h.register(name, newAPIServer(t, newStore(name)).kubeconfig("x")))
	}
	for _, key := range keys {
		h.expectState(key, StateConnected)
	}
	sleeps.Store(true)
	for _, key := range keys {
		h.cache.Recheck(key)
		h.expectState(key, StateHibernated)
	}
	h.Expect(h.cache.availability.MassDisconnect(time.Now())).To(BeFalse())
	h.unregister(keys[0])
	h.Eventually(func() bool { _, exists := h.cache.GetStatus(keys[0]); return exists }).Should(BeFalse())
}

func TestHibernatedTargetThatDrainsSaysWhy(t *testing.T) {
	sleeps, options := asleep()
	options.StillNeeded = func(ClusterKey) bool { return true }
	sleeps.Store(true)
	h := start(t, options)
	a := newAPIServer(t, newStore("uid-a"))
	key := h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateHibernated)
	h.unregister(key)
	h.Expect(h.expectState(key, StateDraining).Reason).To(Equal(ReasonRegistrationGone))
	h.register("a", a.kubeconfig("x"))
	h.Expect(h.expectState(key, StateHibernated).Reason).To(Equal(ReasonHibernated))
}
