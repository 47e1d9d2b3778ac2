package targetcluster_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/targetcluster"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

// BenchmarkSteadyTarget shows what a look costs at a target of 20 ManagedResources with 15 objects each, of which
// nothing changed: when there is an event, and when nothing but a sync period has passed.
func BenchmarkSteadyTarget(b *testing.B) {
	source := newSource(b, controlplane.StartForTest(b, controlplane.Options{}))
	b.Run("event", func(b *testing.B) {
		h, key, looked := steadyTarget(b, source, time.Hour)
		for b.Loop() {
			h.clusters.Emit(key, clustercache.EventProbed)
			<-looked
		}
	})
	b.Run("time", func(b *testing.B) {
		_, _, looked := steadyTarget(b, source, 10*time.Millisecond)
		for b.Loop() {
			<-looked
		}
	})
}

// BenchmarkLostTarget shows what a look costs at such a target that is lost, when that is written already.
func BenchmarkLostTarget(b *testing.B) {
	g := NewWithT(b)
	h, key, looked := steadyTarget(b, newSource(b, controlplane.StartForTest(b, controlplane.Options{})), time.Hour)
	h.clusters.SetState(key, clustercache.StateDisconnected, clustercache.ReasonProbeFailed, "no answer")
	h.eventually(g, key, HaveField("Labels", HaveKeyWithValue(hubv1alpha1.StatusLabel, "unhealthy")))
	time.Sleep(aWhile) // what is under way
	select {
	case <-looked:
	default:
	}
	for b.Loop() {
		h.clusters.Emit(key, clustercache.EventProbed)
		<-looked
	}
}

// steadyTarget returns a target whose status does not change, and a channel that receives a value at each look.
func steadyTarget(b *testing.B, source *source, period time.Duration) (*hub, clustercache.ClusterKey, <-chan struct{}) {
	g := NewWithT(b)
	looked := make(chan struct{}, 1)
	h := newHub(b, source, func(o *Options) {
		o.SyncPeriod, o.MonitorPeriod = period, time.Hour
		o.Facts = onLook(func() {
			select {
			case looked <- struct{}{}:
			default:
			}
		}).term()
	})
	key := h.key("a")
	for i := range 20 {
		name := fmt.Sprint("mr-", i)
		h.createMR(g, name, "", nil)
		h.setMR(g, name, h.uid("a"), resourcesv1alpha1.ConditionTrue, "fine")
		mr := &resourcesv1alpha1.ManagedResource{}
		g.Expect(h.client.Get(b.Context(), clustercache.ClusterKey{Namespace: h.namespace, Name: name}, mr)).To(Succeed())
		mr.Status.Resources = nil
		for n := range 15 {
			mr.Status.Resources = append(mr.Status.Resources, resourcesv1alpha1.ObjectReference{
				ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: fmt.Sprint(name, "-", n)},
			})
		}
		g.Expect(h.client.Status().Update(b.Context(), mr)).To(Succeed())
	}
	g.Eventually(func() int { // figures wait for a sync period, so they are to be right from the beginning
		known, list := 0, &resourcesv1alpha1.ManagedResourceList{}
		g.Expect(h.cache.List(b.Context(), list, client.InNamespace(h.namespace))).To(Succeed())
		for _, mr := range list.Items {
			known += len(mr.Status.Resources)
		}
		return known
	}, soon, often).Should(Equal(20 * 15))
	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.eventually(g, key, SatisfyAll(HaveField("Status.Objects", int64(300)), HaveField("Status.ManagedResources", Equal(&hubv1alpha1.ManagedResourceCounts{Total: 20, Ready: 20})),
		HaveField("Labels", HaveKeyWithValue(hubv1alpha1.StatusLabel, "healthy"))))
	time.Sleep(aWhile) // what is under way
	select {
	case <-looked:
	default:
	}
	b.ReportAllocs()
	return h, key, looked
}
