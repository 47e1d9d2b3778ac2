package managedresource

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/metrics"
)

// Bounds of runs that go on although their context has ended.
const (
	// overdueGrace is how long after the end of its context a run may take to return.
	overdueGrace = 10 * time.Second
	// overdueRetry is the pause before the next attempt for a request whose ManagedResource or target has overdue runs.
	overdueRetry = time.Minute
	// maxOverdue is how many runs may be overdue whose workers were replaced, maxOverdueOfLane how many of them for
	// one target.
	maxOverdue, maxOverdueOfLane = 64, 2
	// stackPause is the least time between two stacks in the log, maxStack how many bytes of one are shown.
	stackPause, maxStack = time.Minute, 16 << 10
)

// runFunc works on a request.
type runFunc func(context.Context, dispatch.Request) (reconcile.Result, error)

// supervisor gives the worker of a run to others if the run does not return after its context has ended. A run that
// respects its context is never overdue; if one is, because of a fault of the hub that a target may have triggered,
// then neither other targets nor the liveness of the process are affected.
//
// The run continues in the background. It holds its ManagedResource, and counts for its target, which gets no worker
// while it has too many such runs. If there are too many in all, workers are no longer replaced.
type supervisor struct {
	run   runFunc
	clock clock.Clock
	log   logr.Logger

	mu       sync.Mutex
	runs     int64
	overdue  int
	lanes    map[string]int // overdue runs of each
	names    map[types.NamespacedName]bool
	lost     map[string]lost // by class
	lastDump time.Time
}

// lost are the workers of a class that were not replaced.
type lost struct {
	workers, of int
	// since is the time since which all of them have been lost; zero if they are not.
	since time.Time
}

// supervised is a run with its outcome.
type supervised struct {
	id       string
	done     chan struct{} // closed after the rest is set
	result   reconcile.Result
	err      error
	panicked any // what it panicked with, and the stack
	// abandoned is true if no worker waits for it any more. Guarded by supervisor.mu.
	abandoned bool
}

func newSupervisor(run runFunc, c clock.Clock, log logr.Logger) *supervisor {
	return &supervisor{
		run: run, clock: c, log: log,
		lanes: map[string]int{}, names: map[types.NamespacedName]bool{}, lost: map[string]lost{},
	}
}

// Reconcile runs, and returns when the run does, or overdueGrace after the end of its context.
func (s *supervisor) Reconcile(
	ctx context.Context, req dispatch.Request, class *classMetrics,
) (reconcile.Result, error) {
	r, refused := s.begin(req)
	if refused {
		return reconcile.Result{RequeueAfter: overdueRetry}, nil
	}
	go pprof.Do(ctx, pprof.Labels("run", r.id), func(ctx context.Context) { s.do(ctx, r, req, class) })
	select {
	case <-r.done:
		return r.outcome()
	case <-ctx.Done():
	}
	grace := s.clock.NewTimer(overdueGrace)
	defer grace.Stop()
	select {
	case <-r.done:
		return r.outcome()
	case <-grace.C():
	}
	log := s.logFor(req, class)
	abandoned, ended := s.abandon(r, req, class)
	switch {
	case ended:
		return r.outcome()
	case !abandoned:
		class.overdueTotal.Inc()
		log.Info("A run does not end after its deadline, and its worker is not replaced: there are too many",
			"stack", s.stack(r))
		s.lose(class, 1)
		<-r.done
		s.lose(class, -1)
		return r.outcome()
	}
	class.overdueTotal.Inc()
	log.Info("A run does not end after its deadline; its worker is replaced", "stack", s.stack(r))
	return reconcile.Result{RequeueAfter: overdueRetry}, nil
}

func (s *supervisor) logFor(req dispatch.Request, class *classMetrics) logr.Logger {
	return s.log.WithValues(
		"class", class.label, "target", metrics.TargetName(req.Target), "managedResource", req.String(),
	)
}

// begin returns a run, unless those of the request's ManagedResource or target are overdue.
func (s *supervisor) begin(req dispatch.Request) (r *supervised, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overdue > 0 && (s.names[req.NamespacedName] || s.lanes[laneOf(req)] >= maxOverdueOfLane) {
		return nil, true
	}
	s.runs++
	return &supervised{id: strconv.FormatInt(s.runs, 10), done: make(chan struct{})}, false
}

// do runs, and reverts the accounting of the run if it was abandoned.
func (s *supervisor) do(ctx context.Context, r *supervised, req dispatch.Request, class *classMetrics) {
	defer func() {
		if value := recover(); value != nil {
			r.panicked = panicked{value, debug.Stack()}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.abandoned {
			s.forget(req, class)
			s.logFor(req, class).Info("An overdue run has ended", "panic", r.panicked)
		}
		close(r.done)
	}()
	r.result, r.err = s.run(ctx, req)
}

// outcome returns what the run returned, or panics as it did.
func (r *supervised) outcome() (reconcile.Result, error) {
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.result, r.err
}

// panicked is what a run panicked with, and where.
type panicked struct {
	value any
	stack []byte
}

// String returns the text for the log.
func (p panicked) String() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// abandon stops waiting for a run, unless it has just ended, or too many are overdue.
func (s *supervisor) abandon(r *supervised, req dispatch.Request, class *classMetrics) (abandoned, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-r.done:
		return false, true
	default:
	}
	if s.overdue >= maxOverdue {
		return false, false
	}
	r.abandoned = true
	s.overdue++
	s.lanes[laneOf(req)]++
	s.names[req.NamespacedName] = true
	class.overdue.Inc()
	return true, false
}

// laneOf identifies the target of a request, separately for each namespace that uses it.
func laneOf(req dispatch.Request) string { return dispatch.Tenant(req) + " " + dispatch.Lane(req) }

// forget reverts the accounting of abandon. The caller holds mu.
func (s *supervisor) forget(req dispatch.Request, class *classMetrics) {
	lane := laneOf(req)
	s.overdue--
	if s.lanes[lane]--; s.lanes[lane] == 0 {
		delete(s.lanes, lane)
	}
	delete(s.names, req.NamespacedName)
	class.overdue.Dec()
}

// employ notes how many workers a class has.
func (s *supervisor) employ(label string, workers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[label] = lost{of: workers}
}

// lose notes that a worker was lost, or came back.
func (s *supervisor) lose(class *classMetrics, workers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lost[class.label]
	l.workers += workers
	switch {
	case l.workers < l.of:
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = s.clock.Now()
	}
	s.lost[class.label] = l
}

// lostSince returns since when all workers of a class have been lost; zero if there is no such class.
func (s *supervisor) lostSince() (since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lost {
		if !l.since.IsZero() && (since.IsZero() || l.since.Before(since)) {
			since = l.since
		}
	}
	return since
}

// stack returns the stacks of the goroutines of a run, unless those of another run were logged recently.
func (s *supervisor) stack(r *supervised) string {
	now := s.clock.Now()
	s.mu.Lock()
	tooEarly := !s.lastDump.IsZero() && now.Sub(s.lastDump) < stackPause
	if !tooEarly {
		s.lastDump = now
	}
	s.mu.Unlock()
	if tooEarly {
		return ""
	}
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	var own strings.Builder
	label := fmt.Sprintf("%q:%q", "run", r.id)
	for goroutines := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(goroutines, label) && own.Len() < maxStack {
			own.WriteString(goroutines[:min(len(goroutines), maxStack-own.Len())])
			own.WriteString("\n\n")
		}
	}
	return own.String()
}
