package clustercache

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// intervals is a fault that does nothing but take the time between probes.
type intervals struct {
	mu      sync.Mutex
	last    time.Time
	probes  int
	longest time.Duration
}

func (i *intervals) fault(_ http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != identityPath {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.probes++; i.probes > 1 {
		i.longest = max(i.longest, time.Since(i.last))
	}
	i.last = time.Now()
	return false
}

func (i *intervals) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.probes
}

func (i *intervals) most() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.longest
}

// Many unreachable targets wait for seats of their own. With their timeouts of a second each, two seats, and one for
// probes, a probe that had to queue behind them would come ten seconds late.
func TestProbesDoNotQueueBehindUnreachableTargets(t *testing.T) {
	h := start(t, Options{Dial: DialOptions{Parallel: 2}, Probe: ProbeOptions{Parallel: 1, Interval: 3 * time.Second}})
	a := newAPIServer(t, newStore("uid-a"))
	var probes intervals
	a.setFault(probes.fault)
	h.expectState(h.register("a", a.kubeconfig("token")), StateConnected)
	hanging := newAPIServer(t, newStore("uid-b"))
	hanging.setFault(hanging.hangAll)
	for i := range 20 {
		h.register(fmt.Sprint("hanging-", i), hanging.kubeconfig("token"))
	}
	h.Eventually(probes.count).WithTimeout(3 * patience).Should(BeNumerically(">=", 7))
	h.Expect(hanging.count("GET /version")).To(BeNumerically(">=", 4), "they are dialled all the time")
	h.Expect(probes.most()).To(BeNumerically("<", 6*time.Second), "twice the interval")
}

// registerMany registers targets that several servers of one store answer for, and waits until they are connected.
func (h *hub) registerMany(n int, servers ...*apiServer) []ClusterKey {
	h.t.Helper()
	keys := make([]ClusterKey, n)
	for i := range keys {
		keys[i] = h.register(fmt.Sprint("t-", i), servers[i%len(servers)].kubeconfig("token"))
	}
	for _, key := range keys {
		h.expectState(key, StateConnected)
	}
	return keys
}

// watchTimes declares so many watches in each of some targets.
func (h *hub) watchTimes(n int, keys []ClusterKey) {
	h.t.Helper()
	for _, key := range keys {
		for i := range n {
			h.watch(key, Watcher{Name: fmt.Sprint("cm-", i), Form: fmt.Sprint(i), Kind: configMapKind, MetadataOnly: true})
		}
	}
}

// gauge counts how many lists of ConfigMaps are under way, each of which it holds up for a while.
type gauge struct{ now, most, all atomic.Int32 }

func (c *gauge) fault(_ http.ResponseWriter, r *http.Request) bool {
	if strings.HasSuffix(r.URL.Path, "/configmaps") && (r.URL.Query().Get("watch") == "" || r.URL.Query().Get("sendInitialEvents") != "") {
		c.hold()
	}
	return false
}

// reopened is the same for watches that continue where others ended.
func (c *gauge) reopened(_ http.ResponseWriter, r *http.Request) bool {
	if r.URL.Query().Get("watch") != "" && r.URL.Query().Get("sendInitialEvents") == "" {
		c.hold()
	}
	return false
}

func (c *gauge) hold() {
	now := c.now.Add(1)
	most := c.most.Load()
	for now > most && !c.most.CompareAndSwap(most, now) {
		most = c.most.Load()
	}
	c.all.Add(1)
	time.Sleep(30 * time.Millisecond)
	c.now.Add(-1)
}

func TestListsOfAllTargetsAreFewAtATime(t *testing.T) {
	h := start(t, Options{Watch: WatchOptions{ListParallel: 3}})
	a := newAPIServer(t, newStore("uid-a"))
	var lists gauge
	a.setFault(lists.fault)
	keys := h.registerMany(10, a)
	var recorders []*recorder
	for _, key := range keys {
		for i := range 3 {
			r := newRecorder()
			recorders = append(recorders, r)
			w := configMaps(fmt.Sprint("cm-", i), r)
			w.Form = fmt.Sprint(i)
			h.watch(key, w)
		}
	}
	for _, r := range recorders {
		h.Eventually(r.syncs).Should(Equal(1))
	}
	h.Expect(lists.most.Load()).To(BeNumerically("<=", 3))
	h.Expect(lists.all.Load()).To(BeEquivalentTo(30))

	// The history is gone that the watches of all want to continue with.
	a.store.mute(true)
	a.store.put("configmaps", "default", "one", nil)
	a.store.mute(false)
	time.Sleep(time.Second) // or they would count as watches that never worked
	a.cut()
	for _, r := range recorders {
		h.Eventually(r.names).Should(ConsistOf("one"))
	}
	h.Expect(lists.most.Load()).To(BeNumerically("<=", 3))
	h.Eventually(h.cache.lists.Held).Should(BeZero())
}

func TestListsThatHangDoNotKeepTheSeats(t *testing.T) {
	h := start(t, Options{Watch: WatchOptions{ListParallel: 2, SyncTimeout: time.Minute}})
	hanging, a := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-b"))
	hanging.setFault(hanging.hangWatches)
	stuck := h.registerMany(2, hanging)
	key := h.register("fine", a.kubeconfig("token"))
	h.expectState(key, StateConnected)
	h.watchTimes(8, stuck)
	h.Eventually(h.cache.lists.Held).Should(Equal(2))
	h.watchConfigMaps(key)
	h.watch(key, Watcher{Name: "again", Form: "again", Kind: configMapKind, MetadataOnly: true})
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(Equal(2))
}

// All targets are back in one moment, and all of their watches are opened again.
func TestWatchesOfAllTargetsAreOpenedFewAtATime(t *testing.T) {
	h := start(t, Options{Watch: WatchOptions{OpenParallel: 3, openHold: patience}})
	a := newAPIServer(t, newStore("uid-a"))
	keys := h.registerMany(10, a)
	h.watchTimes(3, keys)
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(Equal(30))
	time.Sleep(time.Second) // or they would count as watches that never worked
	var openings gauge
	a.setFault(openings.reopened)
	a.cut()
	h.Eventually(openings.all.Load).Should(BeNumerically(">=", 30))
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(Equal(30))
	h.Expect(openings.most.Load()).To(BeNumerically("<=", 3))
	h.Eventually(h.cache.openings.Held).Should(BeZero())
}

// Targets that take the request for a watch and say nothing cannot keep others from continuing with theirs.
func TestWatchesThatHangDoNotKeepTheSeats(t *testing.T) {
	h := start(t, Options{Watch: WatchOptions{OpenParallel: 2}})
	hanging, a := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-b"))
	stuck := h.registerMany(4, hanging)
	key := h.register("fine", a.kubeconfig("token"))
	h.expectState(key, StateConnected)
	h.watchTimes(4, stuck)
	r := h.watchConfigMaps(key)
	h.Eventually(func() int { return hanging.store.watching("configmaps") }).Should(Equal(16))
	time.Sleep(time.Second) // or they would count as watches that never worked
	hanging.setFault(hanging.hangWatches)
	hanging.cut()
	h.Eventually(h.cache.openings.Held).Should(BeNumerically(">=", 2))
	a.cut()
	a.store.put("configmaps", "default", "one", nil)
	h.Eventually(r.names).Should(ConsistOf("one"))
}

func TestRotationsAreFewAtATime(t *testing.T) {
	options := patiently()
	options.Dial.RotateParallel = 2
	h := start(t, options)
	s := newStore("uid-a")
	old, next := newAPIServer(t, s), newAPIServer(t, s)
	keys := h.registerMany(8, old)
	for _, key := range keys {
		h.watchConfigMaps(key)
	}
	var lists gauge
	next.setFault(lists.fault)
	for _, key := range keys {
		h.register(key.Name, next.kubeconfig("token"))
	}
	for _, key := range keys {
		h.Eventually(func() int64 { return h.status(key).Connection }).Should(BeEquivalentTo(2))
	}
	h.Expect(lists.all.Load()).To(BeEquivalentTo(8))
	h.Expect(lists.most.Load()).To(BeNumerically("<=", 2))
	h.Expect(h.cache.rotations.Held()).To(BeZero())
}

// A hub that starts does not dial all of its targets in one moment.
func TestTargetsAreMetAtARate(t *testing.T) {
	options := patiently()
	options.Dial.ConnectRate = 20
	h := start(t, options)
	a := newAPIServer(t, newStore("uid-a"))
	began := time.Now()
	h.registerMany(30, a) // five at once, and then 20 a second
	h.Expect(time.Since(began)).To(BeNumerically(">", 1200*time.Millisecond))
}
