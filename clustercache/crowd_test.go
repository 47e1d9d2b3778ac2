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

// A crowd of targets that nobody can reach waits for places of its own. With their timeouts of a second each, two places,
// and one for probes, a probe that had to queue behind them would come ten seconds late.
func TestProbesDoNotQueueBehindUnreachableTargets(t *testing.T) {
	h := start(t, Options{DialParallel: 2, ProbeParallel: 1, ProbeInterval: time.Second})
	var mu sync.Mutex
	var last time.Time
	var longest time.Duration
	probes := 0
	a := newAPIServer(t, newStore("uid-a"))
	a.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == identityPath {
			mu.Lock()
			defer mu.Unlock()
			if probes++; probes > 1 {
				longest = max(longest, time.Since(last))
			}
			last = time.Now()
		}
		return false
	})
	key := h.register("a", a.kubeconfig("token"))
	h.expectState(key, StateConnected)
	hanging := newAPIServer(t, newStore("uid-b"))
	hanging.setFault(hanging.hangAll)
	for i := range 20 {
		h.register(fmt.Sprint("hanging-", i), hanging.kubeconfig("token"))
	}
	h.Eventually(func() int { mu.Lock(); defer mu.Unlock(); return probes }).Should(BeNumerically(">=", 7))
	h.Expect(hanging.count("GET /version")).To(BeNumerically(">=", 4), "they are dialled all the time")
	mu.Lock()
	defer mu.Unlock()
	h.Expect(longest).To(BeNumerically("<", 2*time.Second), "twice the interval")
}

// crowd registers targets that several servers of one store answer for, and waits until they are connected.
func (h *hub) crowd(n int, servers ...*apiServer) []ClusterKey {
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

// gauge counts how many lists of ConfigMaps are under way, each of which it holds up for a while.
type gauge struct{ now, most, all atomic.Int32 }

func (c *gauge) fault(_ http.ResponseWriter, r *http.Request) bool {
	if strings.HasSuffix(r.URL.Path, "/configmaps") && (r.URL.Query().Get("watch") == "" || r.URL.Query().Get("sendInitialEvents") != "") {
		now := c.now.Add(1)
		most := c.most.Load()
		for now > most && !c.most.CompareAndSwap(most, now) {
			most = c.most.Load()
		}
		c.all.Add(1)
		time.Sleep(30 * time.Millisecond)
		c.now.Add(-1)
	}
	return false
}

func TestListsOfAllTargetsAreFewAtATime(t *testing.T) {
	h := start(t, Options{ListParallel: 3})
	a := newAPIServer(t, newStore("uid-a"))
	var lists gauge
	a.setFault(lists.fault)
	keys := h.crowd(10, a)
	var recorders []*recorder
	for _, key := range keys {
		for i := range 3 {
			r := newRecorder()
			recorders = append(recorders, r)
			h.Expect(h.cache.Watch(t.Context(), key, Watcher{Name: fmt.Sprint("cm-", i), Kind: configMapKind, MetadataOnly: true, Handler: r})).To(Succeed())
		}
	}
	for _, r := range recorders {
		h.Eventually(r.syncs).Should(Equal(1))
	}
	h.Expect(lists.most.Load()).To(BeNumerically("<=", 3))
	h.Expect(lists.all.Load()).To(BeEquivalentTo(30))

	// The history is gone that the watches of all want to go on with.
	a.store.mute(true)
	a.store.put("configmaps", "default", "one", nil)
	a.store.mute(false)
	time.Sleep(time.Second) // or they would count as watches that never worked
	a.cut()
	for _, r := range recorders {
		h.Eventually(r.names).Should(ConsistOf("one"))
	}
	h.Expect(lists.most.Load()).To(BeNumerically("<=", 3))
	h.Expect(h.cache.lists.Taken()).To(BeZero())
}

func TestListsThatHangDoNotKeepThePlaces(t *testing.T) {
	h := start(t, Options{ListParallel: 2, SyncTimeout: time.Minute})
	hanging, a := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-b"))
	hanging.setFault(hanging.hangWatches)
	stuck := h.crowd(2, hanging)
	key := h.register("fine", a.kubeconfig("token"))
	h.expectState(key, StateConnected)
	for _, key := range stuck {
		for i := range 8 {
			h.Expect(h.cache.Watch(t.Context(), key, Watcher{Name: fmt.Sprint("cm-", i), Kind: configMapKind, MetadataOnly: true})).To(Succeed())
		}
	}
	h.Eventually(h.cache.lists.Taken).Should(Equal(2))
	h.watchConfigMaps(key)
	h.Expect(h.cache.Watch(t.Context(), key, Watcher{Name: "again", Kind: configMapKind, MetadataOnly: true})).To(Succeed())
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(Equal(2))
}

func TestRotationsAreFewAtATime(t *testing.T) {
	h := start(t, Options{RotateParallel: 2})
	s := newStore("uid-a")
	old, next := newAPIServer(t, s), newAPIServer(t, s)
	keys := h.crowd(8, old)
	for _, key := range keys {
		h.watchConfigMaps(key)
	}
	var lists gauge
	next.setFault(lists.fault)
	for _, key := range keys {
		h.register(key.Name, next.kubeconfig("token"))
	}
	for _, key := range keys {
		h.Eventually(func() int64 { return h.status(key).Generation }).Should(BeEquivalentTo(2))
	}
	h.Expect(lists.all.Load()).To(BeEquivalentTo(8))
	h.Expect(lists.most.Load()).To(BeNumerically("<=", 2))
	h.Expect(h.cache.rotations.Taken()).To(BeZero())
}

// A hub that starts does not dial all of its targets in one moment. Whoever is known already is not held up.
func TestTargetsAreMetAtARate(t *testing.T) {
	h := start(t, Options{ConnectRate: 20})
	a := newAPIServer(t, newStore("uid-a"))
	began := time.Now()
	h.crowd(30, a) // five at once, and then 20 a second
	h.Expect(time.Since(began)).To(BeNumerically(">", 1200*time.Millisecond))
}
