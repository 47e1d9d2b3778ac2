package managedresource

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
)

// supervisedRuns is a supervisor whose runs end when they are released, whatever their contexts say.
type supervisedRuns struct {
	*WithT
	*supervisor
	clock *clocktesting.FakeClock
	class *classMetrics

	mu       sync.Mutex
	log      strings.Builder
	begun    int
	released chan struct{}
	wg       sync.WaitGroup
}

func newSupervisedRuns(t *testing.T) *supervisedRuns {
	s := &supervisedRuns{WithT: NewWithT(t), clock: clocktesting.NewFakeClock(time.Now()), released: make(chan struct{})}
	log := funcr.New(func(prefix, args string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.log.WriteString(args + "\n")
	}, funcr.Options{})
	s.class = NewMetrics(prometheus.NewRegistry(), false).of("")
	s.supervisor = newSupervisor(s.ignoreContext, s.clock, log)
	s.employ(s.class.label, 3)
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

// lookedAtLater is the result of a run that was given up, or not begun.
var lookedAtLater = reconcile.Result{RequeueAfter: overdueRetry}

// hang runs a request whose context has ended, and returns where its result comes.
func (s *supervisedRuns) hang(req dispatch.Request) <-chan reconcile.Result {
	ctx, cancel := context.WithCancel(context.Background())
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
func (s *supervisedRuns) overrun(req dispatch.Request) <-chan reconcile.Result {
	before := s.runs()
	results := s.hang(req)
	s.Eventually(s.runs, 30*time.Second).Should(Equal(before + 1))
	s.Eventually(s.clock.HasWaiters, 30*time.Second).Should(BeTrue())
	s.Consistently(results, 20*time.Millisecond).ShouldNot(Receive())
	s.clock.Step(overdueGrace)
	return results
}

func (s *supervisedRuns) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.released)
	s.released = make(chan struct{})
}

func TestTheWorkerOfARunThatDoesNotEndIsGivenToOthers(t *testing.T) {
	s := newSupervisedRuns(t)
	s.Eventually(s.overrun(requestFor("bad", "a")), 30*time.Second).Should(Receive(Equal(lookedAtLater)))
	s.Expect(testutil.ToFloat64(s.class.overdue)).To(Equal(1.0))
	s.Expect(testutil.ToFloat64(s.class.overdueTotal)).To(Equal(1.0))
	s.Expect(s.logged()).To(ContainSubstring("ignoreContext"), "its stack")

	// It holds its ManagedResource.
	s.Eventually(s.hang(requestFor("bad", "a")), 30*time.Second).Should(Receive(Equal(lookedAtLater)))
	s.Expect(s.runs()).To(Equal(1))

	// Its target gets no more workers than that.
	s.Eventually(s.overrun(requestFor("bad", "b")), 30*time.Second).Should(Receive())
	s.Eventually(s.hang(requestFor("bad", "c")), 30*time.Second).Should(Receive(Equal(lookedAtLater)))
	s.Expect(s.runs()).To(Equal(2))
	s.Expect(strings.Count(s.logged(), "ignoreContext")).To(Equal(1), "one stack a minute")

	// Others are served, and nothing is stuck.
	good := s.hang(requestFor("good", "d"))
	s.Eventually(s.runs, 30*time.Second).Should(Equal(3))
	s.Expect(s.lostSince()).To(BeZero())

	s.release()
	s.Eventually(good, 30*time.Second).Should(Receive(Equal(reconcile.Result{RequeueAfter: time.Hour})))
	s.Eventually(func() float64 { return testutil.ToFloat64(s.class.overdue) }, 30*time.Second).Should(BeZero())
	again := s.hang(requestFor("bad", "a"))
	s.Eventually(s.runs, 30*time.Second).Should(Equal(4), "it is worked on again")
	s.release()
	s.Eventually(again, 30*time.Second).Should(Receive())
	s.wg.Wait()
}

// Liveness fails only if no worker of a class is left.
func TestWorkersAreReplacedUpToABound(t *testing.T) {
	s := newSupervisedRuns(t)
	for i := range maxOverdue {
		s.Eventually(s.overrun(requestFor(fmt.Sprint("bad-", i), fmt.Sprint(i))), 30*time.Second).Should(Receive())
	}
	s.Expect(s.lostSince()).To(BeZero())
	var lost []<-chan reconcile.Result
	for i := range 3 {
		s.Expect(s.lostSince()).To(BeZero())
		lost = append(lost, s.overrun(requestFor(fmt.Sprint("worse-", i), fmt.Sprint("worse-", i))))
		s.Eventually(func() int { return strings.Count(s.logged(), "is not replaced") }, 30*time.Second).Should(Equal(i + 1))
	}
	s.Eventually(s.lostSince, 30*time.Second).ShouldNot(BeZero())
	s.release()
	for _, results := range lost {
		s.Eventually(results, 30*time.Second).Should(Receive(Equal(reconcile.Result{RequeueAfter: time.Hour})))
	}
	s.Expect(s.lostSince()).To(BeZero())
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
	s.Expect(func() { _, _ = s.Reconcile(t.Context(), requestFor("a", "b"), s.class) }).To(PanicWith(
		WithTransform(func(value any) string { return fmt.Sprint(value) }, And(
			ContainSubstring("what a pity"), ContainSubstring("TestWhatARunReturnsIsReturned"),
		))))
}
