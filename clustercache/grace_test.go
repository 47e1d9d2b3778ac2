package clustercache

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

func TestWatchesGoOnWhereTheyWereAfterAShortOutage(t *testing.T) {
	h, a, key := connected(t, Options{Grace: GraceOptions{Disconnect: time.Hour}})
	a.store.put("configmaps", "default", "one", nil)
	r := h.watchConfigMaps(key)
	h.Eventually(r.syncs).Should(Equal(1))
	held, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())

	a.setFault(a.hangAll)
	h.Expect(h.expectState(key, StateDisconnected).InGrace).To(BeTrue())
	h.expectEvent(key, EventDisconnected)
	h.Expect(get(held)).To(MatchError(ErrClusterNotConnected))
	_, err = h.cache.GetClient(context.Background(), key)
	h.Expect(err).To(MatchError(ErrClusterNotConnected))
	_, found, synced := h.lookup(key, "cm", nameOf("one"))
	h.Expect(found).To(BeTrue())
	h.Expect(synced).To(BeFalse(), "what is known is not relied upon")
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(BeZero(), "nothing is left open")

	a.setFault(nil)
	h.Expect(h.expectState(key, StateConnected)).To(SatisfyAll(
		HaveField("InGrace", false), HaveField("Connection", BeEquivalentTo(1))))
	h.expectEvent(key, EventConnected)
	h.Expect(get(held)).To(Succeed(), "clients that were handed out before work again")
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(Equal(1))
	a.store.put("configmaps", "default", "two", nil)
	h.Eventually(r.names).Should(ConsistOf("one", "two"))
	h.Expect(a.count(listRequests)).To(Equal(1), "nothing was listed again")
	h.Eventually(h.relied(key)).Should(BeTrue())
	h.Eventually(r.syncs).Should(Equal(2), "handlers are notified that it is synced again")
	h.Expect(r.errors()).To(BeZero())
	h.Expect(r.faults).To(BeEmpty())
}

// Hundreds of targets that are lost together have tens of thousands of watches. Each waits in the one goroutine that
// follows it, and continues.
func TestWatchesOfATargetThatIsAwayWaitInOneGoroutineEach(t *testing.T) {
	const n = 200
	h, target, key := simulated(t, Options{Grace: GraceOptions{Disconnect: time.Hour}})
	var synced atomic.Int32
	goroutines := runtime.NumGoroutine()
	watchMany(h, key, "cm", n, &synced)
	mend := h.strike(target, fault.Fault{Kind: fault.BlackHole})
	h.Expect(h.expectState(key, StateDisconnected).InGrace).To(BeTrue())
	h.Eventually(runtime.NumGoroutine).Should(BeNumerically("<", goroutines+n+n/4))
	mend()
	h.expectState(key, StateConnected)
	h.Eventually(synced.Load).Should(BeEquivalentTo(2*n), "all go on")
	h.unregister(key)
	h.Eventually(func() bool { _, registered := h.cache.GetStatus(key); return registered }).Should(BeFalse())
}

// What was known before an outage is not relied upon until the target has sent the missed events, or, if it has
// forgotten them, a new list.
func TestWatchIsReliedUponOnceItHasCaughtUp(t *testing.T) {
	for name, forgotten := range map[string]bool{"its version is known": false, "its version is forgotten": true} {
		t.Run(name, func(t *testing.T) {
			h, a, key := connected(t, Options{Grace: GraceOptions{Disconnect: time.Hour}})
			r := h.watchConfigMaps(key)
			h.Eventually(h.relied(key)).Should(BeTrue())
			a.setFault(a.hangAll)
			h.Expect(h.expectState(key, StateDisconnected).InGrace).To(BeTrue())
			h.Eventually(func() int { return a.store.watching("configmaps") }).Should(BeZero())
			if forgotten {
				a.store.put("configmaps", "default", "meanwhile", nil)
			}
			h.Expect(h.relied(key)()).To(BeFalse())

			a.setFault(a.hangWatches)
			h.expectState(key, StateConnected)
			h.Expect(h.relied(key)()).To(BeFalse(), "calls are possible, and nothing is known yet")
			h.Consistently(h.relied(key)).Should(BeFalse())
			a.setFault(nil)
			a.cut()
			h.Eventually(h.relied(key)).Should(BeTrue())
			h.Expect(a.count(listRequests)).To(Equal(map[bool]int{false: 1, true: 2}[forgotten]))
			if forgotten {
				h.Eventually(r.names).Should(ConsistOf("meanwhile"))
			}
			h.Eventually(r.syncs).Should(Equal(2))
			h.Expect(r.errors()).To(BeZero())
		})
	}
}

// listRequests is what a list of ConfigMaps asks for.
const listRequests = "GET /api/v1/configmaps watch all"

// relied reports whether absence is concluded from what the watch of ConfigMaps shows.
func (h *hub) relied(key ClusterKey) func() bool {
	return func() bool { _, _, synced := h.lookup(key, "cm", nameOf("none")); return synced }
}

func TestLoneTargetIsGivenUpAfterTheGrace(t *testing.T) {
	h, a, key := connected(t, Options{Grace: GraceOptions{Disconnect: 3 * time.Second}})
	r := h.watchConfigMaps(key)
	h.Eventually(r.syncs).Should(Equal(1))
	a.setFault(a.hangAll)
	h.Expect(h.expectState(key, StateDisconnected).InGrace).To(BeTrue())
	h.expectEvent(key, EventDisconnected)
	h.expectEvent(key, EventDisconnected) // that it is over
	h.Eventually(func() Status { return h.status(key) }).Should(SatisfyAll(HaveField("InGrace", false), HaveField("State", StateDisconnected)))
	a.setFault(nil)
	h.Expect(h.expectState(key, StateConnected).Connection).To(BeEquivalentTo(2))
	h.Eventually(r.syncs).Should(Equal(2), "it is listed anew")
}

func TestSuspendedConnectionEndsWithItsReason(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *hub, a *apiServer, key ClusterKey)
		state  State
		reason string
	}{
		"another kubeconfig": {func(h *hub, _ *apiServer, _ ClusterKey) {
			h.register("a", newAPIServer(h.t, newStore("uid-a")).kubeconfig("x"))
		}, StateConnected, ReasonConnected},
		"a kubeconfig that is refused": {func(h *hub, _ *apiServer, _ ClusterKey) {
			h.register("a", []byte("no kubeconfig"))
		}, StateRefused, ReasonKubeconfigInvalid},
		"another cluster at the address": {func(_ *hub, a *apiServer, _ ClusterKey) {
			a.store.uid = "uid-b"
			a.setFault(nil)
		}, StateRefused, ReasonIdentityChanged},
		"a credential that is not taken any longer": {func(_ *hub, a *apiServer, _ ClusterKey) {
			a.setTokens(map[string]string{})
			a.setFault(nil)
		}, StateDisconnected, ReasonUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			h, a, key := connected(t, Options{Grace: GraceOptions{Disconnect: time.Hour}})
			h.watchConfigMaps(key)
			a.setFault(a.hangAll)
			h.Expect(h.expectState(key, StateDisconnected).InGrace).To(BeTrue())
			c.change(h, a, key)
			h.Eventually(func() Status { return h.status(key) }).Should(SatisfyAll(
				HaveField("InGrace", false), HaveField("State", c.state), HaveField("Reason", c.reason)))
		})
	}
	t.Run("the registration goes", func(t *testing.T) {
		h, a, key := connected(t, Options{Grace: GraceOptions{Disconnect: time.Hour}})
		h.watchConfigMaps(key)
		a.setFault(a.hangAll)
		h.expectState(key, StateDisconnected)
		h.unregister(key)
		h.Eventually(func() bool { _, exists := h.cache.GetStatus(key); return exists }).Should(BeFalse())
	})
}

func nameOf(name string) ClusterKey { return ClusterKey{Namespace: "default", Name: name} }

func TestManyTargetsThatAreLostTogetherKeepTheirConnectionsUntilTheyAreBack(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := start(t, Options{Registerer: registry, Grace: GraceOptions{Disconnect: 5 * time.Second, MassPercent: 50}})
	suspected := func(value int) func() error {
		return func() error {
			return testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(
				"# HELP trellis_clustercache_mass_disconnect "+
					"1 while many targets are lost together, and the hub suspects its own network.\n"+
					"# TYPE trellis_clustercache_mass_disconnect gauge\ntrellis_clustercache_mass_disconnect %d\n", value)),
				"trellis_clustercache_mass_disconnect")
		}
	}
	const n = 6
	servers, keys, recorders := make([]*apiServer, n), make([]ClusterKey, n), make([]*recorder, n)
	for i := range n {
		servers[i] = newAPIServer(t, newStore(fmt.Sprint("uid-", i)))
		keys[i] = h.register(fmt.Sprint("t", i), servers[i].kubeconfig("x"))
	}
	for i, key := range keys {
		h.expectState(key, StateConnected)
		recorders[i] = h.watchConfigMaps(key)
		h.Eventually(recorders[i].syncs).Should(Equal(1))
	}
	h.Expect(suspected(0)()).To(Succeed())

	for _, a := range servers[1:] {
		a.setFault(a.hangAll)
	}
	for _, key := range keys[1:] {
		h.expectState(key, StateDisconnected)
	}
	h.Eventually(suspected(1)).Should(Succeed())
	h.Consistently(func() []Status { return h.cache.List("") }).WithTimeout(7*time.Second).Should(SatisfyAll(HaveLen(n),
		HaveEach(Or(HaveField("State", StateConnected), HaveField("InGrace", true)))), "none is given up, however long the grace is over")
	h.Eventually(func() string { return h.status(keys[n-1]).Message }).Should(ContainSubstring("the hub's own network"))
	h.Expect(h.state(keys[0])).To(Equal(StateConnected))

	for _, a := range servers[1:] {
		a.setFault(nil)
	}
	for i, key := range keys {
		h.Expect(h.expectState(key, StateConnected).Message).To(BeEmpty())
		h.Eventually(func() int { return servers[i].store.watching("configmaps") }).Should(Equal(1))
		servers[i].store.put("configmaps", "default", "new", nil)
		h.Eventually(recorders[i].names).Should(ConsistOf("new"))
		h.Expect(servers[i].count(listRequests)).To(Equal(1), "there is no storm of lists")
	}
	h.Eventually(suspected(0)).Should(Succeed())
}

func TestMassDisconnectEnds(t *testing.T) {
	h := start(t, Options{Grace: GraceOptions{Disconnect: 100 * time.Millisecond, MassLimit: 3 * time.Second}})
	keys := make([]ClusterKey, 3)
	servers := make([]*apiServer, 3)
	for i := range keys {
		servers[i] = newAPIServer(t, newStore(fmt.Sprint("uid-", i)))
		keys[i] = h.register(fmt.Sprint("t", i), servers[i].kubeconfig("x"))
	}
	for _, key := range keys {
		h.expectState(key, StateConnected)
	}
	for _, a := range servers {
		a.setFault(a.hangAll)
	}
	for _, key := range keys {
		h.expectState(key, StateDisconnected)
	}
	h.Eventually(func() bool { return h.cache.availability.MassDisconnect(time.Now()) }).Should(BeTrue())
	h.Eventually(func() []Status { return h.cache.List("") }).Should(HaveEach(SatisfyAll(
		HaveField("State", StateDisconnected), HaveField("InGrace", false))))
	h.Expect(h.cache.availability.MassDisconnect(time.Now())).To(BeFalse())
}

// A target that is down permanently is not held for as long as others come and go.
func TestMassDisconnectsInARowKeepNoConnectionForEver(t *testing.T) {
	const limit = 2 * time.Second
	h, a, key := connected(t, Options{Grace: GraceOptions{Disconnect: 200 * time.Millisecond, MassLimit: limit}})
	stop := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for {
			for i := range 5 {
				h.cache.availability.Lost(nameOf(fmt.Sprint(i)), time.Now())
			}
			for i := range 5 {
				h.cache.availability.Connected(nameOf(fmt.Sprint(i)), time.Now())
			}
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	defer others.Wait()
	defer close(stop)
	began := time.Now()
	a.setFault(a.hangAll)
	h.Expect(h.expectState(key, StateDisconnected).InGrace).To(BeTrue())
	h.Eventually(func() bool { return h.status(key).InGrace }).Should(BeFalse())
	h.Expect(time.Since(began)).To(BeNumerically(">", limit), "but for as long as one mass disconnect takes")
}

// Targets that do not take their credentials any longer are none that might be lost with the network.
func TestTargetsThatRefuseTheHubAreNoPartOfTheFleet(t *testing.T) {
	h := start(t, Options{Grace: GraceOptions{Disconnect: time.Hour, MassPercent: 50}})
	a, b := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-a"))
	lost := h.registerMany(3, a)
	var refused []ClusterKey
	for i := range 6 {
		refused = append(refused, h.register(fmt.Sprint("refused-", i), b.kubeconfig("token")))
	}
	for _, key := range refused {
		h.expectState(key, StateConnected)
	}
	b.setTokens(map[string]string{})
	for _, key := range refused {
		h.Expect(h.expectState(key, StateDisconnected).Reason).To(Equal(ReasonUnauthorized))
	}
	h.Expect(h.cache.availability.MassDisconnect(time.Now())).To(BeFalse())
	a.setFault(a.hangAll)
	for _, key := range lost {
		h.expectState(key, StateDisconnected)
	}
	h.Eventually(func() bool { return h.cache.availability.MassDisconnect(time.Now()) }).Should(
		BeTrue(), "all that there were are lost")
}
