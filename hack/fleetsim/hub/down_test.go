package hub_test

import (
	"maps"
	"net/http"
	"path"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// sample returns what a counter, a gauge or the count of a histogram of the hub is, over all labels.
func (w *world) sample(registry prometheus.Gatherer, name string) (sum float64) {
	w.t.Helper()
	families, err := registry.Gather()
	w.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// vanish has targets answer nothing any longer.
func (w *world) vanish(targets ...*fleetsim.Target) {
	w.t.Helper()
	for _, target := range targets {
		_, err := target.Faults().Set(fault.Fault{Kind: fault.BlackHole})
		w.Expect(err).NotTo(HaveOccurred())
	}
}

// comeBack ends what vanish began.
func (w *world) comeBack(targets ...*fleetsim.Target) {
	w.t.Helper()
	for _, target := range targets {
		_, err := target.Faults().Clear()
		w.Expect(err).NotTo(HaveOccurred())
	}
}

// up counts the targets that are said to be connected.
func (w *world) up() (n int) {
	w.t.Helper()
	list := &hubv1alpha1.TargetClusterList{}
	w.Expect(source.Client.List(w.ctx, list)).To(Succeed())
	for _, tc := range list.Items {
		if w.has(tc.Namespace) && meta.IsStatusConditionTrue(tc.Status.Conditions, hubv1alpha1.ConditionConnected) {
			n++
		}
	}
	return n
}

// versions are those of all ManagedResources.
func (w *world) versions() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, mr := range w.managedResources() {
		out[mr.Namespace+"/"+mr.Name] = mr.ResourceVersion
	}
	return out
}

// Once it is said that a target is not there, its ManagedResources are parked: however often it is dialled, no worker
// looks at them. They come back with it.
func TestNothingRunsForATargetThatIsDown(t *testing.T) {
	w := newWorld(t, "parked-", 1)
	hub := testbed.StartHubForTest(t, source, testbed.HubOptions{})
	target := w.fleet.Targets()[0]
	w.install()
	w.Eventually(w.managedResources).Should(HaveLen(20))
	w.eventually(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue)

	w.vanish(target)
	w.eventually(resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionUnknown)
	dialled := func() float64 { return w.sample(hub.Registry, "trellis_clustercache_connects_total") }
	runs := func() float64 { return w.sample(hub.Registry, "trellis_reconcile_duration_seconds") }
	before, versions, dials := runs(), w.versions(), dialled()
	w.Eventually(func() float64 {
		if now := runs(); now != before { // the last ones end after what they write is seen
			before, versions, dials = now, w.versions(), dialled()
		}
		return dialled() - dials
	}).Should(BeNumerically(">=", 4), "attempts in a row to reach it, during which nothing ran")
	w.Expect(w.versions()).To(Equal(versions))

	sent := w.change("while it is down")
	w.comeBack(target)
	w.eventuallyEverywhere(sent)
	w.eventually(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue)
	w.Expect(runs()).To(BeNumerically(">", before))
}

// A standby that takes over while a target is down has what waits for it, too.
func TestSuccessorTakesUpWhatIsParked(t *testing.T) {
	w := newWorld(t, "handover-", 2)
	leader := testbed.StartHubForTest(t, source, testbed.HubOptions{})
	w.install()
	w.Eventually(w.managedResources).Should(HaveLen(40))
	w.eventually(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue)
	successor := testbed.StartHubForTest(t, source, testbed.HubOptions{})
	down := w.fleet.Targets()[0]

	w.vanish(down)
	w.Eventually(w.up).Should(Equal(1))
	w.Eventually(func() (n int) {
		for _, mr := range w.managedResources() {
			c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesHealthy)
			if mr.Namespace == namespace(down) && c != nil && c.Status == resourcesv1alpha1.ConditionUnknown {
				n++
			}
		}
		return n
	}).Should(Equal(20))
	sent := w.change("while it is down")
	w.Eventually(func() []string { return w.journal.Reached(sent).Missing }).Should(ConsistOf(down.Name()))
	leader.Stop()
	w.Expect(leader.Err()).NotTo(HaveOccurred())
	ended := time.Now()
	again := w.change("by the successor")
	w.Eventually(func() []string { return w.journal.Reached(again).Missing }).Should(ConsistOf(down.Name()))

	w.comeBack(down)
	w.eventuallyEverywhere(again)
	w.Eventually(w.up).Should(Equal(2))
	w.eventually(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue)
	w.nothingWorse(ended)
	successor.Stop()
	w.Expect(successor.Err()).NotTo(HaveOccurred())
}

// A hub that loses all targets at once has most likely lost its own network. It says that it is not connected, and
// nothing of the ManagedResources; when the network is back, watches continue where they were, and what happened
// meanwhile is found.
func TestHubThatLosesItsNetworkKeepsWhatItKnows(t *testing.T) {
	const targets = 4
	w := newWorld(t, "network-", targets)
	var lists atomic.Int64
	hub := testbed.StartHubForTest(t, source, testbed.HubOptions{
		Config: func(c *configv1alpha1.HubConfiguration) {
			c.ClusterCache.MassDisconnectPercent = 50
			// Probes find the losses one after the other, within seconds. The first ones are held until it is known that they
			// are many.
			c.ClusterCache.DisconnectGrace.Duration = time.Minute
		},
		WrapTarget: func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				query := r.URL.Query()
				probe := path.Base(r.URL.Path) == "leases" // shows whether the cluster went back in time
				if !probe && (query.Get("sendInitialEvents") == "true" || query.Has("limit")) {
					lists.Add(1)
				}
				return next.RoundTrip(r)
			})
		},
	})
	w.install()
	w.Eventually(w.managedResources).Should(HaveLen(20 * targets))
	w.eventually(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue)
	w.Expect(lists.Load()).To(BeNumerically(">", targets), "this is how a list is recognised")

	versions, before := w.versions(), lists.Load()
	still := time.Now()
	w.Eventually(func() time.Duration { // what is healthy is said after what is applied
		if now, listed := w.versions(), lists.Load(); listed != before || !maps.Equal(now, versions) {
			versions, before, still = now, listed, time.Now()
		}
		return time.Since(still)
	}).WithPolling(time.Second).Should(BeNumerically(">", 10*time.Second))
	w.vanish(w.fleet.Targets()...)
	w.Eventually(w.up).Should(BeZero())
	w.Expect(w.sample(hub.Registry, "trellis_clustercache_mass_disconnect")).To(Equal(1.0))
	sent := w.change("while there is no network")
	w.Expect(w.versions()).To(Equal(versions))

	w.comeBack(w.fleet.Targets()...)
	w.Eventually(w.up).Should(Equal(targets))
	w.eventuallyEverywhere(sent)
	w.Expect(lists.Load()).To(Equal(before), "no watch was started again")
	w.Eventually(func() float64 { return w.sample(hub.Registry, "trellis_clustercache_mass_disconnect") }).Should(BeZero())
}

// roundTrip is a transport that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
