package criticalcomponents

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
)

// waitingNodes returns how many Nodes wait and how long the first one has, by target.
func waitingNodes(t *testing.T, registry *prometheus.Registry) func() map[string][2]float64 {
	t.Helper()
	g := NewWithT(t)
	return func() map[string][2]float64 {
		found := map[string][2]float64{}
		families, err := registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		for i, name := range []string{"trellis_target_nodes_waiting", "trellis_target_nodes_waiting_oldest_seconds"} {
			for _, family := range families {
				for _, series := range family.GetMetric() {
					if family.GetName() == name {
						values := found[series.GetLabel()[0].GetValue()]
						values[i] = series.GetGauge().GetValue()
						found[series.GetLabel()[0].GetValue()] = values
					}
				}
			}
		}
		return found
	}
}

func TestNodesWaitSinceTheyWereSeenOrTainted(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	g.Expect(err).NotTo(HaveOccurred())
	now := clocktesting.NewFakePassiveClock(time.Now())
	later := func(d time.Duration) { now.SetTime(now.Now().Add(d)) }
	get := waitingNodes(t, registry)
	key := clustercache.ClusterKey{Namespace: "shoot--a", Name: "a"}
	node := func(name string, added ...time.Time) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}}
		for _, at := range added {
			node.Spec.Taints[0].TimeAdded = &metav1.Time{Time: at}
		}
		return node
	}
	m.waits(key, node("early"))
	g.Expect(get()).To(BeEmpty(), "the target is not engaged")
	m.engage(key, now)
	g.Expect(get()).To(Equal(map[string][2]float64{"shoot--a/a": {0, 0}}))
	m.waits(key, node("seen"))
	later(time.Minute)
	m.waits(key, node("seen"))
	g.Expect(get()).To(Equal(map[string][2]float64{"shoot--a/a": {1, 60}}))
	m.waits(key, node("future", now.Now().Add(time.Hour)))
	g.Expect(get()).To(Equal(map[string][2]float64{"shoot--a/a": {2, 60}}))
	m.waits(key, node("tainted", now.Now().Add(-time.Hour)))
	g.Expect(get()).To(Equal(map[string][2]float64{"shoot--a/a": {3, 3600}}))
	m.done(key, "tainted")
	m.done(key, "future")
	g.Expect(get()).To(Equal(map[string][2]float64{"shoot--a/a": {1, 60}}))
	m.forget(key)
	g.Expect(get()).To(BeEmpty())
}

func TestNodesThatWaitAreCountedAndExplained(t *testing.T) {
	b := newBench(t)
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	b.Expect(err).NotTo(HaveOccurred())
	controller, err := New(Options{
		Environment: multicluster.Environment{Clusters: shared.Clusters, Events: b.events}, Metrics: m,
		Settings: func(status clustercache.Status) (Settings, bool) { return settings, status.Cluster == shared.A.Key },
	})
	b.Expect(err).NotTo(HaveOccurred())
	stop := twins.Run(t, controller.Start)
	get := waitingNodes(t, registry)
	target := shared.A.Key.String()

	d := newDaemonSet("counted")
	shared.A.Create(t, d)
	node := b.node(shared.A, "counted")
	b.Eventually(get).Should(HaveKeyWithValue(target, HaveExactElements(1.0, BeNumerically(">", 0))))
	explain := func() (reason, note string, err error) {
		b.Expect(shared.A.Client.Get(context.Background(), client.ObjectKeyFromObject(node), node)).To(Succeed())
		return Explain(context.Background(), shared.A.Client, node)
	}
	reason, note, err := explain()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(reason).To(Equal(reasonUnscheduled))
	b.Expect(note).To(HaveSuffix(": counted"))
	b.Expect(Waits(node)).To(BeTrue())

	shared.A.Delete(t, d)
	b.becomesReady(shared.A, "counted")
	b.Eventually(get).Should(HaveKeyWithValue(target, [2]float64{0, 0}))
	reason, _, err = explain()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(reason).To(BeEmpty())
	b.Expect(Waits(node)).To(BeFalse())
	b.Expect(get()).To(HaveLen(1), "the other target is not engaged")
	stop()
	b.Expect(get()).To(BeEmpty(), "nothing is left of a term")
}
