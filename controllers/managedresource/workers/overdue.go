package workers

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/fairqueue"
	"github.com/trellis-hub/trellis/metrics"
)

// overdueGrace is how long after the end of its context a run may take to return.
const overdueGrace = 10 * time.Second

// stackPause is the least time between two stacks in the log, maxStack how many bytes of one are shown.
const stackPause, maxStack = time.Minute, 16 << 10

// runFunc works on a request.
type runFunc func(context.Context, dispatch.Request) (reconcile.Result, error)

// supervisor watches for runs that do not return after their context has ended. A run that respects its context never
// does that; if one does, because of a fault of the hub that a target may have triggered, it is logged and counted. It
// keeps its goroutine and its place among the runs of its target, and nothing that others need. Only if all workers of
// a class are occupied by such runs is the process stuck.
type supervisor struct {
	run   runFunc
	clock clock.Clock
	log   logr.Logger

	mu       sync.Mutex
	runs     int64
	classes  map[string]occupied // by label
	lastDump time.Time
}

// occupied is how many workers of a class overdue runs occupy.
type occupied struct {
	workers, overdue int
	since            time.Time // since when all of them are occupied; zero if they are not
}

func newSupervisor(run runFunc, c clock.Clock, log logr.Logger) *supervisor {
	return &supervisor{run: run, clock: c, log: log, classes: map[string]occupied{}}
}

// employ notes how many workers a class has.
func (s *supervisor) employ(label string, workers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.classes[label] = occupied{workers: workers}
}

// Reconcile runs, and returns when the run does.
func (s *supervisor) Reconcile(
	ctx context.Context, req dispatch.Request, class *telemetry.ClassMetrics) (result reconcile.Result, err error) {
	id := s.number()
	ended, watched := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(watched)
		s.watch(ctx, req, class, id, ended)
	})
	defer func() {
		close(ended)
		if !stop() {
			<-watched
		}
	}()
	pprof.Do(ctx, pprof.Labels("run", id), func(ctx context.Context) { result, err = s.run(ctx, req) })
	return result, err
}

// number returns the number of a new run.
func (s *supervisor) number() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	return strconv.FormatInt(s.runs, 10)
}

// watch follows a run whose context has ended until it has ended, too.
func (s *supervisor) watch(
	ctx context.Context, req dispatch.Request, class *telemetry.ClassMetrics, id string, ended <-chan struct{},
) {
	grace := s.clock.NewTimer(overdueGrace)
	defer grace.Stop()
	select {
	case <-ended:
		return
	case <-grace.C():
	}
	fairqueue.Yield(ctx)
	class.OverdueTotal.Inc()
	class.OverdueBy(req.Target, 1)
	s.count(class, 1)
	log := s.log.WithValues(
		"class", class.Label, "target", metrics.TargetName(req.Target), "managedResource", req.String(),
	)
	log.Info("A run does not end after its deadline", "stack", s.stack(id))
	<-ended
	s.count(class, -1)
	class.OverdueBy(req.Target, -1)
	log.Info("An overdue run has ended")
}

// count notes that a worker of a class became occupied by an overdue run, or free again.
func (s *supervisor) count(class *telemetry.ClassMetrics, overdue int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.classes[class.Label]
	o.overdue += overdue
	switch {
	case o.overdue < o.workers:
		o.since = time.Time{}
	case o.since.IsZero():
		o.since = s.clock.Now()
	}
	s.classes[class.Label] = o
}

// occupiedSince returns since when all workers of a class have been occupied by overdue runs; zero if there is no such
// class.
func (s *supervisor) occupiedSince() (since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.classes {
		if !o.since.IsZero() && (since.IsZero() || o.since.Before(since)) {
			since = o.since
		}
	}
	return since
}

// stack returns the stacks of the goroutines of a run, unless those of another run were logged recently.
func (s *supervisor) stack(id string) string {
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
	label := fmt.Sprintf("%q:%q", "run", id)
	for goroutines := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(goroutines, label) && own.Len() < maxStack {
			own.WriteString(goroutines[:min(len(goroutines), maxStack-own.Len())])
			own.WriteString("\n\n")
		}
	}
	return own.String()
}
