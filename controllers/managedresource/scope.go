package managedresource

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/objects"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/notes"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

// busyRetry is the pause before another look at what is about to be over: another run, a conflict, a deletion.
const busyRetry = 50 * time.Millisecond

// scope is one run over one ManagedResource: what it is about, and what its phases found out. Only the goroutine of the
// run uses it. Later fields are set by later phases.
type scope struct {
	run.Subject
	request    dispatch.Request
	syncPeriod time.Duration
	forgotten  bool // nothing is to be remembered
	concluded  bool // the run succeeded or failed, and is not just over
	cut        bool // it had something to do, and ended because its target went

	// drifted and changed are since when the watches showed drift or another Secret; zero if there was none.
	drifted, changed time.Time

	targetStatus clustercache.Status
	input        string      // what is to be applied, see content.Reader
	current      bool        // the versions of all Secrets are known
	seen         status.Seen // of the objects by the watches
	// todo are the objects that are to be corrected; none: everything is to be applied.
	todo []inventory.Key
	wait time.Duration // until the next of them may be corrected; zero if none has to wait
	// pause is the rest of the pause after a failed run, during which only drift is corrected; zero if there is none.
	pause time.Duration

	bundle *bundle.Bundle
	plan   *objects.Plan

	before   []resourcesv1alpha1.ObjectReference // the inventory before the run
	listed   inventory.Lookup                    // that finds what it lists
	old      []resourcesv1alpha1.ObjectReference // of them, what is to be deleted
	released []objects.Orphan                    // and what is to stay
	present  map[inventory.Key]tracker.Accepted  // what the watches showed when the run began to write
	applied  []apply.Outcome                     // of the plan's objects, in their order
	pruned   []prune.Outcome                     // of the old ones
	kept     map[inventory.Key]error             // why released ones still bear marks, by the keys of their entries
}

// phase is a step of a run. done ends the run with the result, and so does an error.
type phase func(r *reconciler, ctx context.Context, s *scope) (done bool, result reconcile.Result, err error)

// execute runs phases until one of them ends the run.
func execute(
	ctx context.Context, r *reconciler, s *scope, phases []phase,
) (done bool, result reconcile.Result, err error) {
	for _, p := range phases {
		if done, result, err = p(r, ctx, s); done || err != nil {
			return done, result, err
		}
	}
	return false, reconcile.Result{}, nil
}

// Results of phases.
func goOn() (bool, reconcile.Result, error)         { return false, reconcile.Result{}, nil }
func end(err error) (bool, reconcile.Result, error) { return true, reconcile.Result{}, err }
func endAfter(pause time.Duration) (bool, reconcile.Result, error) {
	return endWith(reconcile.Result{RequeueAfter: pause}, nil)
}
func endWith(r reconcile.Result, err error) (bool, reconcile.Result, error) { return true, r, err }

// succeed notes that an input was applied.
func (s *scope) succeed(input string) {
	s.State.Succeeded(input)
	s.concluded = true
}

// fail notes that the run failed, and is the result of one that is tried again after a pause.
func (s *scope) fail(input string) reconcile.Result {
	s.concluded = true
	return reconcile.Result{RequeueAfter: s.State.Failed(input, s.Clock.Now()), Priority: new(dispatch.PriorityRetry)}
}

// resync is the result of a run with nothing left to do: the safety net, with a tenth of jitter either way.
func (s *scope) resync() reconcile.Result {
	pause := time.Duration(float64(s.syncPeriod) * (0.9 + 0.2*rand.Float64()))
	return reconcile.Result{RequeueAfter: pause, Priority: new(dispatch.PriorityResync)}
}

// settled is the result of a run that leaves things as the watches show them: resync, or another look when the watches
// should have shown the last writes.
func (s *scope) settled() reconcile.Result {
	result, now := s.resync(), s.Clock.Now()
	if _, until := s.State.Contested(now); !until.IsZero() {
		result = run.Sooner(result, until.Sub(now)+time.Second)
	}
	if s.seen.Explained {
		result = run.Sooner(result, notes.Pause)
	}
	result = s.withDrift(result)
	switch v := &s.seen.Compared; {
	case v.Unseen > 0:
		return run.Sooner(result, tracker.UnseenGrace+time.Second)
	case !v.Synced || v.PodsUnknown: // the sync is an event; that it takes too long is none
		if blind := s.State.BlindFor(true, now); blind < status.SyncGrace {
			return run.Sooner(result, status.SyncGrace-blind)
		}
		return result
	case s.seen.Unjudged && len(v.Outdated) == 0: // an event came while the objects were looked through
		return run.Sooner(result, busyRetry)
	default:
		return result
	}
}

// withDrift is a result with a look at each object that drifted as soon as it may be corrected. Objects that never were
// right wait for the next attempt at everything, and so do those that the run failed at.
func (s *scope) withDrift(result reconcile.Result, failures ...apply.Outcome) reconcile.Result {
	now := s.Clock.Now()
	for _, key := range slices.Concat(s.seen.Compared.Drifted, s.seen.Compared.Lost) {
		if !slices.ContainsFunc(failures, func(o apply.Outcome) bool { return o.Key == key }) {
			result = run.ForDrift(result, s.correctable(key, now))
		}
	}
	return result
}

// correctable is how long to wait before an object that drifted is looked at again.
func (s *scope) correctable(key inventory.Key, now time.Time) time.Duration {
	return max(s.State.MayCorrect(key, now), s.State.Left(key, now), busyRetry)
}
