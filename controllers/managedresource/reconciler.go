package managedresource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/pacing"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/objects"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/notes"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/view"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/content"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/store"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
)

// A run goes through phases. The first list decides whether and how a ManagedResource is worked on. Then one that goes
// is cleaned up, and any other is compared with its target, corrected or applied. Which writes come first is what keeps
// objects safe: the marks and the inventory are written before the target is.
var (
	gates = []phase{
		(*reconciler).fetch, (*reconciler).assign, (*reconciler).pause, (*reconciler).dryRun,
		(*reconciler).avoidManager, (*reconciler).takeOperation, (*reconciler).ignore,
	}
	reconcileDelete = []phase{(*reconciler).announceDeletion, (*reconciler).cleanUp, (*reconciler).letGo}
	reconcileNormal = []phase{
		(*reconciler).adopt, (*reconciler).migrate, (*reconciler).identify, (*reconciler).findInput, (*reconciler).compare,
		(*reconciler).backOff, (*reconciler).read, (*reconciler).connect, (*reconciler).planObjects, (*reconciler).correct,
		(*reconciler).mark, (*reconciler).storeInventory, (*reconciler).write, (*reconciler).conclude,
	}
)

// reconciler works on ManagedResources. One serves the queues of all classes.
type reconciler struct {
	store      *store.Store
	targets    *objects.Targets
	content    *content.Reader
	assigner   *assignment.Assigner
	tracker    *tracker.Tracker
	objects    *objects.Writer
	neighbours *objects.Neighbours
	warnings   *notes.Reader
	status     *status.Writer
	assessor   *status.Assessor
	health     *health
	notes      *status.AppliedWriter
	events     *telemetry.Recorder
	metrics    *telemetry.Metrics
	clock      clock.Clock
	log        logr.Logger

	syncPeriod   time.Duration
	timeout      time.Duration // of a run
	callsTimeout time.Duration // of its calls to the target, which end early enough for the result to be written
	alwaysUpdate bool          // once in each period

	enqueue func(name types.NamespacedName)
	forward func(decision assignment.Decision, name types.NamespacedName, priority int)

	states      *run.States
	interrupted run.Interrupted
	lacks       run.Lacks
	dryRuns     run.DryRuns
	drifts      *run.Latencies // since a watch showed drift
	changes     *run.Latencies // since a watch showed that a Secret changed
}

// newReconciler returns the reconciler of a controller, whose other parts are there.
func newReconciler(o Options, c *Controller, source *store.Store) *reconciler {
	targets := &objects.Targets{Clusters: o.Clusters, Reader: o.Cache}
	writer := status.NewWriter(source, o.Clock, pacing.New(status.OutagesPerSecond))
	assessor := &status.Assessor{
		Targets: targets, Viewer: &view.Viewer{Tracker: c.tracker, Warnings: c.warnings},
	}
	return &reconciler{
		store:      source,
		targets:    targets,
		assigner:   c.assigner,
		tracker:    c.tracker,
		warnings:   c.warnings,
		neighbours: &objects.Neighbours{Index: c.shared, Assigner: c.assigner},
		content: &content.Reader{
			Live: o.Client, Secrets: o.Secrets, Bundles: o.Bundles, ManagedBy: o.ManagedBy, Parallel: o.ParallelObjects,
		},
		objects: &objects.Writer{
			Tracker:                c.tracker,
			Applier:                &apply.Applier{FieldManager: hubv1alpha1.FieldManager, Parallel: o.ParallelObjects},
			KeepGarbageCollectable: o.KeepGarbageCollectable,
		},
		status:   writer,
		assessor: assessor,
		health:   &health{tracker: c.tracker, targets: targets, status: writer, assessor: assessor},
		notes:    &status.AppliedWriter{Store: source, Tracker: c.tracker},
		events:   telemetry.NewRecorder(o.Events, o.Clock, o.Metrics),
		metrics:  o.Metrics,
		clock:    o.Clock,
		log:      o.Logger,

		syncPeriod:   o.SyncPeriod,
		timeout:      o.RunTimeout,
		callsTimeout: o.RunTimeout * 4 / 5,
		alwaysUpdate: o.AlwaysUpdate,

		enqueue: func(name types.NamespacedName) { c.notify(name, tracker.CauseHealth) },
		forward: c.dispatcher.Forward,

		states:  run.NewStates(),
		drifts:  run.NewLatencies(),
		changes: run.NewLatencies(),
	}
}

// Reconcile works on one request.
func (r *reconciler) Reconcile(ctx context.Context, request dispatch.Request) (reconcile.Result, error) {
	state, free := r.states.Take(request.NamespacedName)
	if !free {
		return reconcile.Result{RequeueAfter: busyRetry}, nil
	}
	s := &scope{
		Subject: run.Subject{Name: request.NamespacedName, State: state, Clock: r.clock},
		request: request, syncPeriod: r.syncPeriod,
	}
	defer func() {
		s.EndSession()
		r.drifts.Ended(s.Name)
		r.changes.Ended(s.Name)
		r.states.Give(s.Name, s.forgotten)
	}()
	if r.lacks.Take(s.Name) {
		state.RetryNow(r.clock.Now())
	}
	done, result, err := execute(ctx, r, s, gates)
	switch {
	case done || err != nil:
	case s.Goes():
		_, result, err = execute(ctx, r, s, reconcileDelete)
	default:
		_, result, err = execute(ctx, r, s, reconcileNormal)
	}
	if s.pause > 0 {
		result = run.Sooner(result, s.pause)
	}
	result, err = r.settle(ctx, s, result, err)
	if s.concluded || s.cut || state.Demanded {
		r.interrupted.Set(s.Name, s.cut || state.Demanded)
	}
	return result, err
}

// settle decides when a run is followed by another one. Errors that it returns are those of the source.
func (r *reconciler) settle(
	ctx context.Context, s *scope, result reconcile.Result, err error,
) (reconcile.Result, error) {
	need, busy := bundle.IsBusy(err)
	if err != nil && !objects.IsDown(err) && !s.forgotten {
		r.changes.Resume(s.Name, s.changed) // it is not applied yet, however long runs take
	}
	switch {
	case err == nil:
		return result, nil
	case busy: // other bundles are in memory; meanwhile this run keeps no worker
		r.drifts.Resume(s.Name, s.drifted)
		return reconcile.Result{RequeueAfter: s.State.PutOff(need), Priority: new(dispatch.PriorityRetry)}, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return reconcile.Result{}, fmt.Errorf("a run took longer than %s: %w", r.timeout, err) // tried again, later
	case ctx.Err() != nil:
		return reconcile.Result{}, nil //nolint:nilerr // leadership ends; the successor starts from the source
	case objects.IsDown(err):
		s.cut = true
		return reconcile.Result{}, nil // the connect event brings it back
	case errors.Is(err, clustercache.ErrConnectionReplaced), apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: busyRetry}, nil
	}
	return result, err
}

// forget drops everything in memory about a ManagedResource that is gone or not ours.
func (r *reconciler) forget(s *scope) {
	s.forgotten = true
	s.State.Forget()
	r.tracker.Forget(s.Name)
	r.warnings.Forget(s.Name)
	r.status.Forget(s.Name)
	r.interrupted.Set(s.Name, false)
	r.lacks.Forget(s.Name)
	r.dryRuns.Forget(s.Name)
	r.drifts.Stop(s.Name)
	r.changes.Stop(s.Name)
}
