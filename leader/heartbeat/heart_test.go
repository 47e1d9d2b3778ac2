package heartbeat_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	. "github.com/trellis-hub/trellis/leader/heartbeat"
)

// body is a heart with what is around it.
type body struct {
	*WithT
	*Heart
	clock  *clocktesting.FakeClock
	source *fake.Clientset
	events *events.FakeRecorder
	loops  *Loops
	stuck  atomic.Bool
	broken atomic.Bool // the source takes no writes
	stop   func()
	// registrations is what the next replica selects.
	registrations string
}

func newBody(t *testing.T, leases ...runtime.Object) *body {
	b := &body{
		WithT: NewWithT(t), clock: clocktesting.NewFakeClock(start), source: fake.NewClientset(leases...), events: events.NewFakeRecorder(10),
	}
	b.loops = NewLoops(b.clock)
	b.loops.Add("a loop", func(now time.Time) time.Time {
		if b.stuck.Load() {
			return now.Add(-time.Second)
		}
		return time.Time{}
	})
	for _, verb := range []string{"create", "update"} {
		b.source.PrependReactor(verb, "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return b.broken.Load(), nil, errors.New("no")
		})
	}
	b.become(t, "hub-0")
	return b
}

// become lets another replica take the place of the present one.
func (b *body) become(t *testing.T, identity string) {
	heart, err := New(Options{
		Leases: b.source.CoordinationV1().Leases("hub"), Namespace: "hub", Name: "trellis-heartbeat", Identity: identity,
		Interval: 10 * time.Second, Validity: 40 * time.Second, Loops: b.loops, Events: b.events, Clock: b.clock, Logger: logr.Discard(),
		Registerer: prometheus.NewRegistry(), Version: "v-" + identity, Registrations: b.registrations,
	})
	b.Expect(err).NotTo(HaveOccurred())
	b.Heart = heart
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- heart.Start(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		b.Expect(<-done).To(Succeed())
	})
	t.Cleanup(b.stop)
	b.rest()
}

// rest returns when a beat is over.
func (b *body) rest() {
	b.Eventually(b.clock.HasWaiters, 2*time.Minute, time.Millisecond).Should(BeTrue())
}

// beat lets the time of one interval pass.
func (b *body) beat() {
	b.clock.Step(10 * time.Second)
	b.rest()
}

// TestTheLeaseHasTheVersionOfTheLeader: also after another one has taken over.
func TestTheLeaseHasTheVersionOfTheLeader(t *testing.T) {
	b := newBody(t)
	says := func() string {
		lease, err := b.source.CoordinationV1().Leases("hub").Get(t.Context(), "trellis-heartbeat", metav1.GetOptions{})
		b.Expect(err).NotTo(HaveOccurred())
		return lease.Annotations[hubv1alpha1.VersionAnnotation]
	}
	b.Expect(says()).To(Equal("v-hub-0"))
	b.stop()
	b.become(t, "hub-1")
	b.Expect(says()).To(Equal("v-hub-1"))
}

// TestTheLeaseHasTheSelectorOfRegistrations: that of the leader, and none if that has none.
func TestTheLeaseHasTheSelectorOfRegistrations(t *testing.T) {
	b := newBody(t)
	annotations := func() map[string]string {
		lease, err := b.source.CoordinationV1().Leases("hub").Get(t.Context(), "trellis-heartbeat", metav1.GetOptions{})
		b.Expect(err).NotTo(HaveOccurred())
		return lease.Annotations
	}
	b.Expect(annotations()).NotTo(HaveKey(hubv1alpha1.RegistrationSelectorAnnotation))
	b.stop()
	b.registrations = "a=b"
	b.become(t, "hub-1")
	b.Expect(annotations()).To(HaveKeyWithValue(hubv1alpha1.RegistrationSelectorAnnotation, "a=b"))
	b.stop()
	b.registrations = ""
	b.become(t, "hub-2")
	b.Expect(annotations()).NotTo(HaveKey(hubv1alpha1.RegistrationSelectorAnnotation))
}

func (b *body) lease() *coordinationv1.LeaseSpec {
	lease, err := b.source.CoordinationV1().Leases("hub").Get(context.Background(), "trellis-heartbeat", metav1.GetOptions{})
	b.Expect(err).NotTo(HaveOccurred())
	return &lease.Spec
}

// age is how old the Lease is.
func (b *body) age() time.Duration { return b.clock.Since(b.lease().RenewTime.Time) }

func (b *body) writes() int {
	count := 0
	for _, action := range b.source.Actions() {
		if action.GetVerb() != "get" {
			count++
		}
	}
	return count
}

func leaseOf(holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hub", Name: "trellis-heartbeat"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: new(metav1.NewMicroTime(renewed)), LeaseTransitions: new(int32(4))},
	}
}

func TestB1_TheLeaseIsRenewedOnceAnInterval(t *testing.T) {
	b := newBody(t)
	b.Expect(*b.lease().HolderIdentity).To(Equal("hub-0"))
	b.Expect(*b.lease().LeaseDurationSeconds).To(Equal(int32(40)))
	for range 60 {
		b.beat()
		b.Expect(b.age()).To(BeZero())
	}
	b.Expect(b.writes()).To(Equal(61), "one write in each ten seconds, and the first one")
	b.Expect(b.WatchedUntil()).To(BeZero(), "there was no leader before")
	b.Expect(b.events.Events).To(BeEmpty())
}

func TestB1_AStuckHubStopsRenewing(t *testing.T) {
	b := newBody(t)
	b.stuck.Store(true)
	for range 5 {
		b.beat()
	}
	b.Expect(b.age()).To(Equal(50 * time.Second))
	b.stuck.Store(false)
	b.beat()
	b.Expect(b.age()).To(BeZero())
}

func TestB1_WhatTheSourceDoesNotTakeIsTriedInTheNextInterval(t *testing.T) {
	b := newBody(t)
	b.broken.Store(true)
	before := b.writes()
	for range 3 {
		b.beat()
	}
	b.Expect(b.writes()-before).To(Equal(3), "the interval stays the same after a failure")
	b.Expect(b.age()).To(Equal(30 * time.Second))
	b.broken.Store(false)
	b.beat()
	b.Expect(b.age()).To(BeZero())
}

func TestB1_TheEndOfATermLeavesTheLeaseAsItIs(t *testing.T) {
	b := newBody(t)
	b.clock.Step(3 * time.Second)
	b.stop()
	writes := b.writes()
	b.clock.Step(time.Minute)
	b.Expect(b.writes()).To(Equal(writes))
	b.Expect(*b.lease().HolderIdentity).To(Equal("hub-0"))
	b.Expect(b.lease().RenewTime.Time.Equal(start)).To(BeTrue())
}

func TestB2_NewLeaderReportsForHowLongNoHubWatched(t *testing.T) {
	tests := map[string]struct {
		age   time.Duration
		event string
	}{
		"the predecessor has just gone":       {12 * time.Second, ""},
		"it has gone for as long as it may":   {40 * time.Second, ""},
		"it has gone for longer":              {7*time.Minute + 3*time.Second, "Warning TargetsWereNotWatched no hub has watched the targets for 7m3s, since 2026-03-01T11:52:57Z"},
		"its clock was ahead of that of ours": {-time.Minute, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBody(t, leaseOf("hub-1", start.Add(-test.age)))
			b.Expect(b.WatchedUntil()).To(BeTemporally("==", start.Add(-test.age)))
			if test.event == "" {
				b.Expect(b.events.Events).To(BeEmpty())
			} else {
				b.Expect(b.events.Events).To(Receive(Equal(test.event)))
			}
			b.Expect(b.lease()).To(And(
				HaveField("HolderIdentity", HaveValue(Equal("hub-0"))), HaveField("LeaseTransitions", HaveValue(Equal(int32(5)))),
				HaveField("AcquireTime.Time", BeTemporally("==", start)), HaveField("RenewTime.Time", BeTemporally("==", start)),
			))
			b.beat()
			b.Expect(b.events.Events).To(BeEmpty())
			b.Expect(b.WatchedUntil()).To(BeTemporally("==", start.Add(-test.age)), "in this term nothing else is before it")
		})
	}
}

func TestB2_TheSameReplicaMayLeadAgain(t *testing.T) {
	b := newBody(t, leaseOf("hub-1", start.Add(-time.Second)))
	b.broken.Store(true)
	b.beat()
	b.broken.Store(false)
	b.beat()
	b.beat() // after a failure the Lease is read again, and it is its own
	b.Expect(b.WatchedUntil()).To(BeTemporally("==", start.Add(-time.Second)))
	b.stop()

	b.clock.Step(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	b.rest()
	b.Expect(b.WatchedUntil()).To(BeTemporally("==", start.Add(30*time.Second)))
	b.Expect(b.events.Events).To(Receive(ContainSubstring("for 1h0m0s")))
	cancel()
	b.Expect(<-done).To(Succeed())
}

func TestB2_FirstTermHasNoPredecessor(t *testing.T) {
	b := newBody(t)
	b.stuck.Store(true)
	for range 6 {
		b.beat() // long enough for its own Lease to run out
	}
	b.stuck.Store(false)
	b.broken.Store(true)
	b.beat()
	b.broken.Store(false)
	b.beat() // after a failure the Lease is read again, and it is its own
	b.Expect(b.WatchedUntil()).To(BeZero())
	b.Expect(b.events.Events).To(BeEmpty())
}

func TestANewTermBeginsWithWhatTheLastOneLeft(t *testing.T) {
	b := newBody(t)
	b.beat()
	b.stop()
	b.clock.Step(2 * time.Minute)
	b.become(t, "hub-1")
	b.Expect(b.WatchedUntil()).To(BeTemporally("==", start.Add(10*time.Second)))
	b.Expect(b.events.Events).To(Receive(ContainSubstring("for 2m0s")))
	b.Expect(*b.lease().LeaseTransitions).To(Equal(int32(1)))
}

func TestMetricIsTheTimeOfTheLastBeat(t *testing.T) {
	g := NewWithT(t)
	b := newBody(t)
	registry := prometheus.NewRegistry()
	b.stop()
	heart, err := New(Options{
		Leases: b.source.CoordinationV1().Leases("hub"), Namespace: "hub", Name: "other", Identity: "me", Interval: time.Second, Validity: time.Minute,
		Loops: b.loops, Events: b.events, Clock: b.clock, Registerer: registry,
	})
	g.Expect(err).NotTo(HaveOccurred())
	expect := func(value string) {
		text := "# HELP trellis_hub_heartbeat_timestamp_seconds When this replica last renewed the heartbeat, " +
			"in seconds since 1970. Only the leader does; zero if it never did.\n" +
			"# TYPE trellis_hub_heartbeat_timestamp_seconds gauge\ntrellis_hub_heartbeat_timestamp_seconds " + value + "\n"
		g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(text))).To(Succeed())
	}
	expect("0")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- heart.Start(ctx) }()
	b.rest()
	expect(fmt.Sprint(start.Unix()))
	cancel()
	g.Expect(<-done).To(Succeed())
}
