package clustercache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/hack/fleetsim"
)

// descriptors counts the open files of this process.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// liveHeap is what is in use after all garbage is gone.
func liveHeap() uint64 {
	for range 3 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A token changes again and again under load, with each older one revoked a moment later. No write may fail, and no
// watch may end.
func TestTokenThatChangesAllTheTimeFailsNoWrite(t *testing.T) {
	options := patiently()
	options.Limits = func(ClusterKey) Limits { return Limits{QPS: -1} }
	h, target, key := simulated(t, options)
	r := h.watchConfigMaps(key)
	watches := opened(target)
	c := h.writer(key)
	ctx, stop := context.WithCancel(context.Background())
	var writers errgroup.Group
	var written atomic.Int64
	for i := range 4 {
		writers.Go(func() error {
			for n := 0; ctx.Err() == nil; n++ {
				if err := write(context.Background(), c, fmt.Sprint("cm-", i), fmt.Sprint(n)); err != nil {
					return err
				}
				written.Add(1)
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		})
	}
	const rotations = 100
	for range rotations {
		h.Expect(target.RotateToken(fleetsim.Rotation{})).To(Succeed())
		h.register(target.Name(), target.Kubeconfig())
		version := fmt.Sprint(h.secrets.latest())
		h.Eventually(func() string { return h.status(key).SecretResourceVersion }).Should(Equal(version))
		target.Revoke()
	}
	stop()
	h.Expect(writers.Wait()).To(Succeed())
	h.Expect(written.Load()).To(BeNumerically(">", rotations))
	h.Expect(opened(target)).To(Equal(watches), "no watch was opened again")
	h.Expect(r.syncs()).To(Equal(1))
	h.Expect(r.faults).To(BeEmpty())
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(1))
}

// A caller that asks for a connection while it is replaced gets the old one or the new one, never none.
func TestConnectionThatIsReplacedIsAlwaysThere(t *testing.T) {
	options := patiently()
	options.Limits = func(ClusterKey) Limits { return Limits{Timeout: 100 * time.Millisecond} }
	h := start(t, options)
	s := newStore("uid-a")
	servers := []*apiServer{newAPIServer(t, s), newAPIServer(t, s)}
	key := h.register("a", servers[0].kubeconfig("token-0"))
	h.expectState(key, StateConnected)
	ctx, stop := context.WithCancel(context.Background())
	var askers errgroup.Group
	var asked atomic.Int64
	for range 4 {
		askers.Go(func() error {
			for ctx.Err() == nil {
				_, err := h.cache.GetClient(ctx, key)
				_, err2 := h.cache.GetRESTMapper(ctx, key)
				status, known := h.cache.GetStatus(key)
				if err := errors.Join(err, err2); err != nil || !known || status.State != StateConnected {
					return fmt.Errorf("in state %q: %w", status.State, err)
				}
				asked.Add(1)
				time.Sleep(100 * time.Microsecond)
			}
			return nil
		})
	}
	const rotations = 1000
	for i := 1; i <= rotations; i++ {
		h.register("a", servers[i/10%2].kubeconfig(fmt.Sprint("token-", i))) // each tenth leads to the other server
		if i%7 != 0 {
			version := fmt.Sprint(h.secrets.latest())
			h.Eventually(func() string { return h.status(key).SecretResourceVersion }).WithPolling(time.Millisecond).Should(Equal(version))
		}
	}
	stop()
	h.Expect(askers.Wait()).To(Succeed())
	h.Expect(asked.Load()).To(BeNumerically(">", rotations))
	h.Expect(h.status(key).Connection).To(BeNumerically(">=", rotations/10-1))
}

// A target that comes and goes costs what one costs that stays.
func TestTargetThatFlapsLeavesNothing(t *testing.T) {
	h, a, key := connected(t, Options{
		Dial:  DialOptions{RetryMax: 10 * time.Millisecond},
		Grace: GraceOptions{Disconnect: -1},
		Probe: ProbeOptions{
			Interval:     10 * time.Millisecond,
			Timeout:      time.Second,
			Failures:     1,
			PingInterval: 200 * time.Millisecond,
			PingTimeout:  300 * time.Millisecond,
		},
	})
	for i := range 50 {
		a.store.put("configmaps", "default", fmt.Sprint("cm-", i), nil)
	}
	r := h.watchConfigMaps(key)
	cycle := func() {
		syncs := r.syncs()
		a.setFault(answer(503, ""))
		a.cut()
		h.expectState(key, StateDisconnected)
		a.setFault(nil)
		h.cache.Recheck(key)
		h.expectState(key, StateConnected)
		h.Eventually(r.syncs).Should(BeNumerically(">", syncs))
		a.forgetRequests()
	}
	for range 20 {
		cycle()
	}
	goroutines, files, heap := settle(), descriptors(), liveHeap()
	for range 200 {
		cycle()
	}
	h.Eventually(settle).Should(BeNumerically("<=", goroutines+2))
	h.Eventually(descriptors).Should(BeNumerically("<=", files+2))
	h.Eventually(liveHeap).WithPolling(100*time.Millisecond).Should(BeNumerically("<", heap+heap/20+256<<10), "5 percent, and what the test itself notes")
	h.Expect(r.faults).To(BeEmpty())
}

// Several consumers subscribe and unsubscribe all the time.
func TestWatchesThatComeAndGoAllTheTime(t *testing.T) {
	h, a, key := connected(t, Options{Limits: func(ClusterKey) Limits { return Limits{QPS: -1} }})
	a.store.put("configmaps", "default", "one", nil)
	stays := h.watchConfigMaps(key)
	before := settle()
	var consumers sync.WaitGroup
	for i := range 4 {
		consumers.Go(func() {
			for n := range 250 {
				r := newRecorder()
				// Two share a stream.
				w := configMaps(fmt.Sprint("cm-", i), r)
				w.Form = fmt.Sprint(i % 2)
				s, err := h.cache.Watch(context.Background(), key, w)
				if err != nil {
					t.Error(err)
					return
				}
				if n%10 == 0 {
					time.Sleep(5 * time.Millisecond)
				}
				s.Close()
				if len(r.faultsNow()) > 0 {
					t.Error(r.faultsNow())
				}
			}
		})
	}
	consumers.Wait()
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(Equal(1))
	h.Eventually(settle).Should(BeNumerically("<=", before+2))
	a.store.put("configmaps", "default", "two", nil)
	h.Eventually(stays.names).Should(ConsistOf("one", "two"), "the one that stays goes on")
	h.Expect(stays.syncs()).To(Equal(1))
	last := newRecorder()
	h.watch(key, Watcher{Name: "cm-0", Form: "0", Kind: configMapKind, MetadataOnly: true, Handler: last})
	h.Eventually(last.names).Should(ConsistOf("one", "two"), "no handler is stranded")
}

func TestSeriesOfManyTargetsGoWithThem(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := start(t, Options{
		Registerer:       registry,
		TargetHistograms: true,
		Dial:             DialOptions{ConnectTimeout: time.Minute},
		Probe:            ProbeOptions{Interval: time.Hour, Timeout: time.Minute},
	})
	a := newAPIServer(t, newStore("uid-a"))
	of := func() map[string]int {
		families, err := registry.Gather()
		h.Expect(err).NotTo(HaveOccurred())
		counts := map[string]int{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				for _, label := range m.GetLabel() {
					if label.GetName() == "target" {
						counts[label.GetValue()]++
					}
				}
			}
		}
		return counts
	}
	const n = 60
	keys := make([]ClusterKey, n)
	for i := range keys {
		keys[i] = h.register(fmt.Sprint("t-", i), a.kubeconfig("token"))
	}
	for _, key := range keys {
		h.expectState(key, StateConnected)
	}
	h.Eventually(of).Should(HaveLen(n))
	for target, series := range of() {
		h.Expect(series).To(BeNumerically("<=", 15), target)
	}
	for _, key := range keys[1:] {
		h.unregister(key)
	}
	h.Eventually(of).Should(And(HaveLen(1), HaveKey("garden/t-0")))
	h.Eventually(a.sockets).Should(Equal(1))
}
