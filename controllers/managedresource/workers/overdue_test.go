package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/fairqueue"
)

// supervisedRuns is a supervisor whose runs end when they are released, whatever their contexts say.
type supervisedRuns struct {
	*WithT
	*supervisor
	clock    *clocktesting.FakeClock
	registry *prometheus.Registry
	class    *telemetry.ClassMetrics

	mu       sync.Mutex
	log      strings.Builder
	begun    int
	released chan struct{}
	wg       sync.WaitGroup
}

func newSupervisedRuns(t *testing.T) *supervisedRuns {
	s := &supervisedRuns{WithT: NewWithT(t), clock: clocktesting.NewFakeClock(time.Now()),
		registry: prometheus.NewRegistry(), released: make(chan struct{})}
	log := funcr.New(func(prefix, args string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.log.WriteString(args + "\n")
	}, funcr.Options{})
	s.class = telemetry.NewMetrics(s.registry, false).Of("")
	s.supervisor = newSupervisor(s.ignoreContext, s.clock, log)
	s.employ(s.class.Label, 3)
	return s
}

// ignoreContext is the run that does not end.
func (s *supervisedRuns) ignoreContext(context.Context, dispatch.Request) (reconcile.Result, error) {
	s.mu.Lock()
	s.begun++
	released := s.released
	s.mu.Unlock()
	<-released
	return reconcile.Result{RequeueAfter: time.Hour}, nil
}

func (s *supervisedRuns) runs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

func (s *supervisedRuns) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func requestFor(target, name string) dispatch.Request {
	return dispatch.Request{
		Target:         clustercache.ClusterKey{Namespace: "ns", Name: target},
		NamespacedName: types.NamespacedName{Namespace: "ns", Name: name},
	}
}

// hang runs a request whose context has ended, and returns where its result comes.
func (s *supervisedRuns) hang(ctx context.Context, req dispatch.Request) <-chan reconcile.Result {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	results := make(chan reconcile.Result, 1)
	s.wg.Go(func() {
		result, err := s.Reconcile(ctx, req, s.class)
		if err != nil {
			panic(err)
		}
		results <- result
	})
	return results
}

// overrun hangs, and has the grace end.
func (s *supervisedRuns) overrun(ctx context.Context, req dispatch.Request) <-chan reconcile.Result {
	before := s.runs()
	results := s.hang(ctx, req)
	s.Eventually(s.runs, 2*time.Minute).Should(Equal(before + 1))
	s.Eventually(s.clock.HasWaiters, 2*time.Minute).Should(BeTrue())
	s.Expect(s.overdueRuns()).To(BeEquivalentTo(before), "there is a grace")
	s.clock.Step(overdueGrace)
	s.Eventually(s.overdueRuns, 2*time.Minute).Should(BeEquivalentTo(before + 1))
	return results
}

// overdueRuns is what metrics say of the class.
func (s *supervisedRuns) overdueRuns() float64 {
	return s.gauges("trellis_reconcile_overdue")[s.class.Label]
}

// overdueByTarget is what metrics say of each target.
func (s *supervisedRuns) overdueByTarget() map[string]float64 {
	return s.gauges("trellis_target_reconcile_overdue")
}

// gauges are the values of a metric by its first label.
func (s *supervisedRuns) gauges(metric string) map[string]float64 {
	families, err := s.registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == metric {
				values[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return values
}

func (s *supervisedRuns) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.released)
	s.released = make(chan struct{})
}

// A run that does not end keeps no seat, so that others compute, and is logged once with its stack.
func TestARunThatDoesNotEndIsLoggedAndGivesUpItsSeat(t *testing.T) {
	s := newSupervisedRuns(t)
	queue := fairqueue.New("", fairqueue.Options[dispatch.Request]{Seats: 1, Workers: 3})
	defer queue.ShutDown()
	bad := requestFor("bad", "a")
	queue.Add(bad)
	queue.Add(requestFor("good", "b"))
	_, _ = queue.Get()
	first := s.overrun(queue.Context(t.Context(), bad), bad)
	s.Expect(testutil.ToFloat64(s.class.OverdueTotal)).To(Equal(1.0))
	s.Eventually(s.logged, 2*time.Minute).Should(ContainSubstring("ignoreContext"), "its stack")
	next, _ := queue.Get()
	s.Expect(next).To(Equal(requestFor("good", "b")))

	second := s.overrun(t.Context(), requestFor("bad", "c"))
	s.Eventually(func() int { return strings.Count(s.logged(), "does not end") }, 2*time.Minute).Should(Equal(2))
	s.Expect(strings.Count(s.logged(), "ignoreContext")).To(Equal(1), "one stack a minute")
	s.Eventually(s.overdueByTarget, 30*time.Second).Should(Equal(map[string]float64{"ns/bad": 2}))
	s.Expect(first).NotTo(Receive())
	s.release()
	for _, results := range []<-chan reconcile.Result{first, second} {
		s.Eventually(results, 2*time.Minute).Should(Receive(Equal(reconcile.Result{RequeueAfter: time.Hour})))
	}
	s.Expect(s.overdueRuns()).To(BeZero())
	s.Expect(s.overdueByTarget()).To(BeEmpty())
	s.wg.Wait()
}

// Liveness fails only if no worker of a class is left.
func TestAClassIsStuckOnceAllItsWorkersHaveOverdueRuns(t *testing.T) {
	s := newSupervisedRuns(t)
	var stuck []<-chan reconcile.Result
	for i := range 3 {
		s.Expect(s.occupiedSince()).To(BeZero())
		stuck = append(stuck, s.overrun(t.Context(), requestFor(fmt.Sprint("bad-", i), fmt.Sprint(i))))
	}
	s.Eventually(s.occupiedSince, 2*time.Minute).ShouldNot(BeZero())
	s.release()
	for _, results := range stuck {
		s.Eventually(results, 2*time.Minute).Should(Receive())
	}
	s.Expect(s.occupiedSince()).To(BeZero())
	s.wg.Wait()
}

func TestWhatARunReturnsIsReturned(t *testing.T) {
	s := newSupervisedRuns(t)
	failure := errors.New("no")
	s.run = func(context.Context, dispatch.Request) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: 1}, failure
	}
	result, err := s.Reconcile(t.Context(), requestFor("a", "b"), s.class)
	s.Expect(err).To(Equal(failure))
	s.Expect(result.RequeueAfter).To(BeEquivalentTo(1))

	s.run = func(context.Context, dispatch.Request) (reconcile.Result, error) { panic("what a pity") }
	s.Expect(func() { _, _ = s.Reconcile(t.Context(), requestFor("a", "b"), s.class) }).To(PanicWith("what a pity"))
}
