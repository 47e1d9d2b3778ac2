package targetcluster_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/targetcluster"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

// tally counts what is done for targets.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// take returns what was counted, and begins again.
func (c *tally) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	c.counts = map[string]int{}
	return counts
}

// Eventf implements events.EventRecorder.
func (c *tally) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	c.add("event " + reason)
}

// lateCache has TargetClusters read as where the informer sees every change later by a pause.
type lateCache struct {
	cache.Cache
	pause time.Duration

	mu  sync.Mutex
	old map[client.ObjectKey][]outdated // the oldest first
}

// outdated is a TargetCluster as it was until a moment.
type outdated struct {
	tc    *hubv1alpha1.TargetCluster
	until time.Time
}

func newLateCache(t *testing.T, of cache.Cache, pause time.Duration) *lateCache {
	g := NewWithT(t)
	c := &lateCache{Cache: of, pause: pause, old: map[client.ObjectKey][]outdated{}}
	informer, err := of.GetInformer(t.Context(), &hubv1alpha1.TargetCluster{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, _ any) {
		tc, ok := before.(*hubv1alpha1.TargetCluster)
		if !ok {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		key := client.ObjectKeyFromObject(tc)
		c.old[key] = append(c.old[key], outdated{tc, time.Now()})
	}})
	g.Expect(err).NotTo(HaveOccurred())
	return c
}

func (c *lateCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Cache.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	tc, ok := obj.(*hubv1alpha1.TargetCluster)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.old[key] = slices.DeleteFunc(c.old[key], func(o outdated) bool { return time.Since(o.until) > c.pause })
	if old := c.old[key]; len(old) > 0 {
		old[0].tc.DeepCopyInto(tc)
	}
	return nil
}

// TestALossCostsFewLooksAndWrites has many targets lost at once, as a clustercache reports it: a probe that fails, a
// connection that is held, and an attempt to continue with it that fails. Nearly all have to wait for their turn, with
// their status and with their label, and the informer is late to see what was written.
func TestALossCostsFewLooksAndWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	const targets, late = 150, time.Second
	g := NewWithT(t)
	cp := controlplane.StartForTest(t, controlplane.Options{})
	source := newSource(t, cp)
	done := &tally{counts: map[string]int{}}
	plain, err := client.NewWithWatch(cp.RESTConfig(), client.Options{Scheme: source.client.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	source.client = interceptor.NewClient(plain, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			done.add("label")
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			done.add("status")
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	h := newHub(t, source, func(o *Options) {
		o.SyncPeriod, o.MonitorPeriod, o.Events = time.Hour, time.Hour, done // so nothing is due but by an event
		o.Thresholds = map[string]time.Duration{hubv1alpha1.ConditionAPIServerAvailable: time.Hour}
		o.Cache = newLateCache(t, o.Cache, late)
		o.Facts = onLook(func() {
			done.add("look")
		}).term()
	})
	var keys []clustercache.ClusterKey
	for i := range targets {
		keys = append(keys, h.key(fmt.Sprint("t", i)))
	}
	h.createMR(g, "mr", "", map[string]string{hubv1alpha1.ClusterNameLabel: keys[0].Name})
	h.setMR(g, "mr", h.uid(keys[0].Name), resourcesv1alpha1.ConditionTrue, "fine")
	labelled := func() map[string]int {
		list := &hubv1alpha1.TargetClusterList{}
		g.Expect(plain.List(t.Context(), list, client.InNamespace(h.namespace))).To(Succeed())
		found := map[string]int{}
		for _, tc := range list.Items {
			found[tc.Labels[hubv1alpha1.StatusLabel]]++
		}
		return found
	}
	each := func(do func(clustercache.ClusterKey)) {
		for _, key := range keys {
			do(key)
		}
	}
	// lost has a status as clustercache sets it while a connection is held.
	lost := func(reason, message string) {
		each(func(key clustercache.ClusterKey) {
			status, _ := h.clusters.GetStatus(key)
			status.State, status.Reason, status.Message, status.InGrace = clustercache.StateDisconnected, reason, message, true
			h.clusters.SetStatus(status)
		})
	}
	connect := func() { each(func(key clustercache.ClusterKey) { h.connect(key, h.uid(key.Name)) }) }
	g.Expect(labelled()).To(BeEmpty())
	connect()
	g.Eventually(labelled, 3*time.Minute, often).Should(Equal(map[string]int{"healthy": targets}))
	time.Sleep(aWhile + late) // what is under way
	done.take()

	t.Log("a probe fails")
	each(func(key clustercache.ClusterKey) {
		h.clusters.SetHealth(key, clustercache.HealthCheckingState{ConsecutiveFailures: 1})
		h.clusters.Emit(key, clustercache.EventProbed)
	})
	looked := func() int { // it waits for a moment
		done.mu.Lock()
		defer done.mu.Unlock()
		return done.counts["look"]
	}
	g.Eventually(looked, 3*time.Minute, often).Should(BeNumerically(">=", targets))
	time.Sleep(aWhile + late)
	g.Expect(done.take()).To(Equal(map[string]int{"look": targets}))

	t.Log("they are lost")
	lost(clustercache.ReasonProbeFailed, "no answer")
	g.Eventually(labelled, 3*time.Minute, often).Should(Equal(map[string]int{"unhealthy": targets}))
	time.Sleep(aWhile + late)
	// once has everything done once for each target, and a bit more for what is tried again where all is slow. That the
	// informer is late is no reason.
	once := func(event string, things ...string) {
		t.Helper()
		counts := done.take()
		t.Logf("%d targets: %v", targets, counts)
		for _, thing := range things {
			g.Expect(counts).To(HaveKeyWithValue(thing, And(BeNumerically(">=", targets), BeNumerically("<=", targets*5/4))))
			delete(counts, thing)
		}
		if event != "" {
			g.Expect(counts).To(HaveKeyWithValue("event "+event, targets))
			delete(counts, "event "+event)
		}
		g.Expect(counts).To(BeEmpty())
	}
	once(clustercache.ReasonProbeFailed, "look", "status", "label")

	t.Log("an attempt fails")
	lost(clustercache.ReasonUnreachable, "no answer, in other words")
	g.Eventually(looked, 3*time.Minute, often).Should(BeNumerically(">=", targets))
	time.Sleep(aWhile + late)
	once("", "look")
	g.Expect(h.get(g, keys[0])).To(haveCondition("Ready", "False", "ProbeFailed"), "nothing has changed")

	t.Log("one is held no more")
	h.connectionGone(keys[0])
	h.eventually(g, keys[0], SatisfyAll(haveCondition("Ready", "False", "Unreachable"), haveMessage("Ready", "in other words")))
	time.Sleep(aWhile + late)
	done.take()

	t.Log("they are back")
	each(func(key clustercache.ClusterKey) { h.clusters.SetHealth(key, clustercache.HealthCheckingState{}) })
	connect()
	g.Eventually(labelled, 3*time.Minute, often).Should(Equal(map[string]int{"healthy": targets}))
	time.Sleep(aWhile + late)
	once(hubv1alpha1.ReasonReady, "look", "status", "label")
}

// connectionGone has a connection held no more.
func (h *hub) connectionGone(key clustercache.ClusterKey) {
	status, _ := h.clusters.GetStatus(key)
	status.InGrace = false
	h.clusters.SetStatus(status)
}
