package app_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

var heartbeatName = types.NamespacedName{Namespace: testbed.HubNamespace, Name: "trellis-heartbeat"}

// beats returns the Lease of the heartbeat, nil if there is none.
func (e *env) beats() *coordinationv1.Lease {
	e.t.Helper()
	lease := &coordinationv1.Lease{}
	err := source.Client.Get(e.ctx, heartbeatName, lease)
	e.Expect(client.IgnoreNotFound(err)).To(Succeed())
	if err != nil {
		return nil
	}
	return lease
}

func (e *env) renewed() time.Time {
	e.t.Helper()
	if lease := e.beats(); lease != nil {
		return lease.Spec.RenewTime.Time
	}
	return time.Time{}
}

// condition is one of the target's, as status and reason.
func (e *env) condition(conditionType string) string {
	e.t.Helper()
	tc := &hubv1alpha1.TargetCluster{}
	e.Expect(client.IgnoreNotFound(source.Client.Get(e.ctx, types.NamespacedName{Namespace: e.name, Name: "target"}, tc))).To(Succeed())
	for _, c := range tc.Status.Conditions {
		if c.Type == conditionType {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return "none"
}

// quickly has the heart beat faster than it may.
func quickly(c *configv1alpha1.HubConfiguration) {
	h := &c.Controllers.Heartbeat
	h.RenewInterval.Duration, h.MonitorPeriod.Duration, h.LivenessStuckAfter.Duration = 200*time.Millisecond, 2*time.Second, 5*time.Second
	c.ClusterCache.ProbeInterval.Duration, c.ClusterCache.ProbeTimeout.Duration = 500*time.Millisecond, 500*time.Millisecond
}

func TestB1_HeartbeatOfTheLeader(t *testing.T) {
	e := newEnv(t)
	first := e.startHub(quickly)
	e.expectWork()
	e.Eventually(e.holder).ShouldNot(BeEmpty())
	leader := e.holder()
	e.Eventually(func() string { return *e.beats().Spec.HolderIdentity }).Should(Equal(leader))
	before := e.renewed()
	e.Eventually(e.renewed).Should(BeTemporally(">", before))
	e.Eventually(func() string { return e.condition("HubReady") }).Should(Equal("True/HubReady"))
	e.Eventually(func() string { return e.condition("SystemComponentsHealthy") }).Should(Equal("True/ManagedResourcesHealthy"))

	second := e.startHub(quickly)
	e.stop(first)
	e.Eventually(func() string { return *e.beats().Spec.HolderIdentity }).ShouldNot(Equal(leader))

	// A leader that lost its Lease beats no more, and the Lease of the heartbeat stays as it is.
	e.takeLease()
	e.Eventually(termGoroutines).Should(BeEmpty())
	last := &coordinationv1.Lease{}
	e.Eventually(func() bool { // a beat that was given up may be written nevertheless
		before := last
		last = e.beats()
		return last.Spec.RenewTime.Equal(before.Spec.RenewTime)
	}).WithPolling(time.Second).Should(BeTrue())
	e.Consistently(e.renewed, 2*time.Second).Should(Equal(last.Spec.RenewTime.Time))
	e.Expect(last.Spec.HolderIdentity).NotTo(HaveValue(BeEmpty()))

	// The next leader reports for how long no hub watched.
	time.Sleep(time.Until(last.Spec.RenewTime.Add(4 * time.Second)))
	e.deleteLease()
	e.Eventually(func() string { return second.Log.About("No hub has watched the targets") }).ShouldNot(BeEmpty())
	e.Eventually(e.renewed).Should(BeTemporally(">", last.Spec.RenewTime.Time))
	e.expectWork()
	e.stop(second)
}

// hanging does not answer writes to TargetClusters, even if their contexts end.
type hanging struct {
	next http.RoundTripper
	mu   *sync.Mutex
	gate *chan struct{}
}

func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	gate := *h.gate
	h.mu.Unlock()
	if gate != nil && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/targetclusters/") {
		<-gate
	}
	return h.next.RoundTrip(r)
}

func TestB1_StuckLoopStopsTheHeartbeatAndThenTheHub(t *testing.T) {
	e := newEnv(t)
	probes, _, set := e.ports()
	var mu sync.Mutex
	var gate chan struct{}
	hub := e.startHubWith(testbed.HubOptions{WrapSource: func(next http.RoundTripper) http.RoundTripper {
		return hanging{next: next, mu: &mu, gate: &gate}
	}}, quickly, set)
	e.expectWork()
	e.Eventually(func() string { return e.condition("HubReady") }).Should(Equal("True/HubReady"))

	mu.Lock()
	gate = make(chan struct{})
	mu.Unlock()
	release := sync.OnceFunc(func() {
		mu.Lock()
		close(gate)
		gate = nil
		mu.Unlock()
	})
	t.Cleanup(release)
	e.Expect(source.Client.Patch(e.ctx, &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: "target"}},
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`)))).To(Succeed())

	e.Eventually(func() time.Duration { return time.Since(e.renewed()) }, 90*time.Second).Should(BeNumerically(">", 3*time.Second), "the heartbeat stops")
	e.Expect(e.holder()).NotTo(BeEmpty(), "the leader election notices nothing")
	e.Eventually(func() int { return e.code(probes, "/healthz") }).Should(Equal(http.StatusInternalServerError))
	e.Expect(hub.Log.About("The heartbeat stops")).To(ContainSubstring("targetcluster"))

	release()
	e.Eventually(func() time.Duration { return time.Since(e.renewed()) }).Should(BeNumerically("<", time.Second))
	e.Eventually(func() int { return e.code(probes, "/healthz") }).Should(Equal(http.StatusOK))
	e.Eventually(func() string { return e.condition("Ready") }).Should(Equal("False/Paused"))
	e.stop(hub)
}

func TestB2_DeadTargetIsDistinguishedFromADeadHub(t *testing.T) {
	e := newEnv(t)
	probes, _, set := e.ports()
	hub := e.startHub(quickly, set, func(c *configv1alpha1.HubConfiguration) { // it must not be lost by chance, too
		c.ClusterCache.ProbeInterval.Duration, c.ClusterCache.ProbeTimeout.Duration = 2*time.Second, 2*time.Second
		c.Controllers.Heartbeat.MonitorPeriod.Duration = 8 * time.Second
	})
	e.expectWork()
	e.Eventually(func() string { return e.condition("HubReady") }).Should(Equal("True/HubReady"))
	t.Cleanup(func() { e.Expect(target.Thaw()).To(Succeed()) })

	// The target is dead: its conditions say so, and the heart beats.
	e.Expect(target.Freeze()).To(Succeed())
	e.Eventually(func() string { return e.condition("HubReady") }).Should(Equal("Unknown/TargetUnreachable"))
	e.Expect(e.condition("Connected")).To(HavePrefix("False/"))
	e.Expect(e.condition("SystemComponentsHealthy")).To(Equal("Unknown/TargetUnreachable"))
	dead := e.renewed()
	e.Eventually(e.renewed).Should(BeTemporally(">", dead.Add(2*time.Second)))
	e.Expect(e.code(probes, "/healthz")).To(Equal(http.StatusOK))
	e.Expect(target.Thaw()).To(Succeed())
	e.Eventually(func() string { return e.condition("HubReady") }).Should(Equal("True/HubReady"))

	// The hub is dead: the conditions stay as they are, and the heartbeat is stale.
	e.stop(hub)
	e.Eventually(func() time.Duration { return time.Since(e.renewed()) }).Should(BeNumerically(">", 2*time.Second))
	e.Expect(e.condition("HubReady")).To(Equal("True/HubReady"))
	e.Expect(e.condition("Connected")).To(Equal("True/Connected"))
}

func TestARestartLeavesTheConditionsOfTargetsAsTheyAre(t *testing.T) {
	e := newEnv(t)
	conditions := func() []metav1.Condition {
		tc := &hubv1alpha1.TargetCluster{}
		e.Expect(source.Client.Get(e.ctx, types.NamespacedName{Namespace: e.name, Name: "target"}, tc)).To(Succeed())
		return tc.Status.Conditions
	}
	first := e.startHub()
	e.expectWork()
	e.Eventually(func() string { return e.condition("SystemComponentsHealthy") }).Should(Equal("True/ManagedResourcesHealthy"))
	e.stop(first)
	before := conditions()
	e.edit("drift")
	t.Cleanup(func() { e.Expect(target.Thaw()).To(Succeed()) })
	e.Expect(target.Freeze()).To(Succeed())                         // so that it takes a moment to connect
	second := e.startHub(func(c *configv1alpha1.HubConfiguration) { // and that its first attempt is not given up meanwhile
		c.ClusterCache.ProbeInterval.Duration, c.ClusterCache.ProbeTimeout.Duration = 9*time.Second, 9*time.Second
	})
	e.Eventually(e.holder).ShouldNot(BeEmpty())
	e.Consistently(conditions, 2*time.Second).Should(Equal(before))
	e.Expect(target.Thaw()).To(Succeed())
	e.Eventually(func(g Gomega) string {
		g.Expect(conditions()).To(Equal(before))
		return e.value()
	}).Should(Equal("1"))
	e.Consistently(conditions, 3*time.Second).Should(Equal(before), "no target is unknown for a moment")
	e.stop(second)
}
