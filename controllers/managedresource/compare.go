package managedresource

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/references"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
	"github.com/trellis-hub/trellis/engine/inventory"
)

const (
	// startGrace is how long a start says nothing of watches that have not listed yet. With a thousand targets the first
	// lists take a minute or two on a small machine, and to say so of each ManagedResource, and then that it is over,
	// would double that.
	startGrace = 2 * time.Minute
	// listGrace is how long a start waits for watches that neither list nor fail, before it applies without knowing.
	listGrace = 10 * time.Minute
)

var jobKind = schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}

// mayNotBeDone reports whether an object that does not exist after a start may have to be created again. A Job may have
// been removed after it had succeeded. If so, the last note shows that: it does not count the Job.
func mayNotBeDone(k inventory.Key) bool { return k.GroupKind() != jobKind }

// findInput finds out what is to be applied, from what is in memory. A Secret that is known not to exist ends the run:
// its creation is an event.
func (r *reconciler) findInput(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if _, err := references.Of(s.MR); err != nil {
		return endWith(s.resync(), r.health.notApplied(ctx, s, resourcesv1alpha1.ReasonContentTooLarge, err.Error()))
	}
	if s.MR.Annotations[hubv1alpha1.AppliedAnnotation] != "" && s.MR.Status.ObservedGeneration == s.MR.Generation {
		r.content.Learn(ctx, &s.Subject)
	}
	s.input, s.current = r.content.Input(&s.Subject)
	if r.alwaysUpdate && s.State.ApplyDue(r.clock.Now(), r.syncPeriod) {
		s.State.Demanded = true
	}
	if missing, ok := r.content.Missing(&s.Subject); ok {
		return endWith(r.health.cannotRead(ctx, s, r.content, missing))
	}
	return goOn()
}

// compare looks whether the objects are as they were applied, if the input is. It ends the run if they are, and
// otherwise leaves what drifted to be corrected, or everything to be applied.
func (r *reconciler) compare(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if !s.current || s.State.Demanded || s.MR.Status.ObservedGeneration != s.MR.Generation {
		return goOn()
	}
	noted, ok := status.ParseApplied(s.MR.Annotations[hubv1alpha1.AppliedAnnotation])
	isNoted := ok && noted.Input == s.input
	if !isNoted && (s.State.Input == "" || s.State.Input != s.input) {
		return goOn()
	}
	if s.targetStatus.State != clustercache.StateConnected {
		return endWith(r.health.unreachable(ctx, s))
	}
	// Another client may have removed our marks. Without them no run would clean up.
	if done, result, err := r.mark(ctx, s); done || err != nil {
		return done, result, err
	}
	s.seen.Compared = r.tracker.Judge(s.Name)
	if !r.tracker.Known(s.Name) {
		if !isNoted {
			return goOn()
		}
		// A start with nothing in memory: what the watches show decides, as a whole.
		v := &s.seen.Compared
		if (!v.Synced || v.AutoscalersUnknown) && len(v.Failed) == 0 {
			return r.health.awaitLists(ctx, s)
		}
		same := v.Synced && !v.AutoscalersUnknown && !slices.ContainsFunc(v.Missing, mayNotBeDone) &&
			(tracker.Fingerprint(v.Observed) == noted.Fingerprint ||
				tracker.Fingerprint(tracker.WithoutAutoscalers(v.Observed)) == noted.Fingerprint)
		if !same {
			return goOn()
		}
		r.tracker.AcceptObserved(s.Name, v.Observed)
		r.tracker.AcceptDone(s.Name, v.Missing, s.MR.Status.Resources)
		s.succeed(s.input)
		s.seen.Compared = r.tracker.Judge(s.Name)
		return endWith(r.health.evaluateApplied(ctx, s))
	}
	abandoned := r.neighbours.Of(ctx, &s.Subject).Abandoned(s.State.Yields)
	s.limitCorrections(slices.Concat(s.seen.Compared.Drifted, s.seen.Compared.Missing, abandoned))
	switch {
	case len(s.todo) > 0:
		return goOn()
	case s.wait > 0: // it is the turn of none of those that drifted
		result, err := r.health.evaluate(ctx, s)
		return endWith(run.Sooner(result, s.wait), err)
	}
	result, err := r.health.evaluateApplied(ctx, s)
	if err == nil && status.AppliedTrue(s.MR) {
		result, err = r.notes.WriteWhenDue(ctx, &s.Subject, s.input, result)
	}
	return endWith(result, err)
}

// backOff ends the run while the pause after a failure with the same input lasts. The whole is tried again when its
// time comes, or when what it waits for is gone. What was right before is kept right meanwhile.
func (r *reconciler) backOff(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	pause := s.State.Backoff(s.input, r.clock.Now())
	if len(s.todo) > 0 || pause == 0 || !s.current || s.targetStatus.State != clustercache.StateConnected {
		return goOn()
	}
	s.seen.Compared = r.tracker.Judge(s.Name)
	if slices.ContainsFunc(s.seen.Compared.Missing, func(k inventory.Key) bool { return s.State.Awaited[k] }) {
		return goOn()
	}
	// Objects that never were right are left alone.
	now := r.clock.Now()
	drifted := slices.DeleteFunc(slices.Concat(s.seen.Compared.Drifted, s.seen.Compared.Lost), func(k inventory.Key) bool {
		return s.State.MayCorrect(k, now) > 0
	})
	s.pause = pause
	if len(drifted) > 0 {
		s.todo = drifted
		return goOn()
	}
	return endWith(r.health.evaluate(ctx, s))
}

// limitCorrections leaves those objects to be corrected whose turn it is, and notes when it is that of the others.
func (s *scope) limitCorrections(drifted []inventory.Key) {
	now := s.Clock.Now()
	for _, key := range drifted {
		if wait := s.State.MayCorrect(key, now); wait == 0 {
			s.todo = append(s.todo, key)
		} else {
			s.waitAtMost(wait)
		}
	}
}
