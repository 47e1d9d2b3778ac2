package managedresource

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/notes"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/view"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/secretindex"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/sharing"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/store"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/metrics"
)

// busyRetry is the pause before a request is tried again whose ManagedResource another queue is working on.
const busyRetry = 50 * time.Millisecond

// reconciler works on ManagedResources. One serves the queues of all classes.
type reconciler struct {
	source   *store.Store
	reader   client.Reader // informers of the source
	live     client.Reader // the source itself
	clusters clustercache.ClusterCache
	claims   *assignment.Claims
	secrets  *secretindex.Index
	bundles  *bundle.Cache
	tracker  *tracker.Tracker
	shared   *sharing.Index
	warnings *notes.Reader
	viewer   *view.Viewer
	applier  *apply.Applier
	events   *recorder
	metrics  *Metrics
	memory   *memory
	clock    clock.Clock
	log      logr.Logger

	managedBy    string
	syncPeriod   time.Duration
	timeout      time.Duration // of a run
	alwaysUpdate bool          // once in each period
	// parallelObjects is how many objects of a ManagedResource are applied at the same time.
	parallelObjects int
	// keepGarbageCollectable leaves ConfigMaps and Secrets with the garbage collector's label to it.
	keepGarbageCollectable bool

	enqueue func(name types.NamespacedName)
	forward func(decision assignment.Decision, name types.NamespacedName, priority int)

	drifts  *stopwatches // since a watch showed drift
	changes *stopwatches // since a watch showed that a Secret changed

	busy sync.Map // types.NamespacedName -> struct{}: in the hands of a worker
}

// run is the work on one ManagedResource.
type run struct {
	name     types.NamespacedName
	decision assignment.Decision
	class    *assignment.Class
	target   clustercache.ClusterKey
	log      logr.Logger
	// mr is the state that the next write is based on. It is replaced by what the server answers.
	mr *resourcesv1alpha1.ManagedResource
	// unjudged is true if the conditions were left pending because the watches did not show everything yet.
	unjudged bool
	// partial is true if the health of those objects alone was judged that are applied.
	partial bool
	// explained is true if the target's events tell more about unhealthy objects, and reading, if they are being read.
	explained, reading bool
	// present are the objects that the watches showed when the run began to write to the target.
	present map[inventory.Key]tracker.Accepted
	// drifted and changed are since when there was drift or another Secret, as the watches showed it; zero if there was none.
	drifted, changed time.Time
	// session is the use of a bundle, nil if there is none.
	session *bundle.Session
}

func (r *run) origin() string { return r.class.Origin(r.name) }

// clusterUID is that of the cluster which the ManagedResource is bound to.
func (r *run) clusterUID() types.UID {
	return types.UID(r.mr.Annotations[hubv1alpha1.TargetUIDAnnotation])
}

// Reconcile works on one request.
func (r *reconciler) Reconcile(ctx context.Context, req dispatch.Request) (reconcile.Result, error) {
	if _, taken := r.busy.LoadOrStore(req.NamespacedName, struct{}{}); taken {
		return reconcile.Result{RequeueAfter: busyRetry}, nil
	}
	defer r.busy.Delete(req.NamespacedName)

	result, err := r.reconcile(ctx, req)
	need, busy := bundle.IsBusy(err)
	switch {
	case err == nil:
		return result, nil
	case busy: // other bundles are in memory; meanwhile this run takes no place from others
		pause := r.memory.putOff(req.NamespacedName, need)
		return reconcile.Result{RequeueAfter: pause, Priority: new(dispatch.PriorityRetry)}, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return reconcile.Result{}, fmt.Errorf("a run took longer than %s: %w", r.timeout, err) // tried again, later
	case ctx.Err() != nil:
		return reconcile.Result{}, nil // leadership or the process ends; the successor starts from the source
	case isDown(err):
		r.memory.cutOff(req.NamespacedName)
		return reconcile.Result{}, nil // the connect event brings it back
	case errors.Is(err, clustercache.ErrConnectionReplaced):
		return reconcile.Result{RequeueAfter: busyRetry}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: busyRetry}, nil
	}
	return result, err
}

func (r *reconciler) reconcile(ctx context.Context, req dispatch.Request) (result reconcile.Result, err error) {
	mr, err := r.source.Get(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if mr == nil {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if mr.Annotations[resourcesv1alpha1.OperationAnnotation] == resourcesv1alpha1.OperationWaitForState {
		return reconcile.Result{}, nil
	}

	decision, err := r.claims.Decide(ctx, mr)
	if err != nil {
		return reconcile.Result{}, err
	}
	if decision.Class == nil {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if decision.HasTarget && decision.Target != req.Target || !decision.HasTarget && req.Target != (clustercache.ClusterKey{}) {
		// It moved since it was queued: its new target's lane is where it waits its turn.
		r.forward(decision, req.NamespacedName, dispatch.PriorityRetry)
		return reconcile.Result{}, nil
	}
	work := &run{
		name: req.NamespacedName, decision: decision, class: decision.Class, target: decision.Target, mr: mr,
		drifted: r.drifts.stop(req.NamespacedName), changed: r.changes.stop(req.NamespacedName),
		log: r.log.WithValues("class", classLabel(decision.Class.Name), "target", metrics.TargetName(decision.Target), "managedResource", req.String()),
	}
	defer func() {
		work.endSession()
		if _, busy := bundle.IsBusy(err); busy {
			r.resumeStopwatches(work)
		}
	}()
	r.followRewinds(work)
	if !decision.ElsewhereUntil.IsZero() && !work.class.DryRun { // whoever is there is not disturbed by a plan
		r.forget(work.name)
		return reconcile.Result{RequeueAfter: decision.ElsewhereUntil.Sub(r.clock.Now()) + time.Second}, nil
	}
	paused, err := r.paused(ctx, work.target)
	if err != nil {
		return reconcile.Result{}, err
	}
	if paused && !work.needsNoTarget() {
		return reconcile.Result{}, r.sayPaused(ctx, work)
	}
	if work.class.DryRun {
		return r.dryRun(ctx, work)
	}
	if mr.Annotations[hubv1alpha1.TargetUIDAnnotation] == "" {
		// Nothing of it is ours yet. A resource manager that has just come must not meet us.
		until, err := r.claims.ManagedElsewhereNow(ctx, r.live, work.class, work.name.Namespace)
		if err != nil {
			return reconcile.Result{}, err
		}
		if !until.IsZero() {
			r.forget(work.name)
			return reconcile.Result{RequeueAfter: until.Sub(r.clock.Now()) + time.Second}, nil
		}
	}
	// From here on it may be written to.
	if mr.Annotations[resourcesv1alpha1.OperationAnnotation] == resourcesv1alpha1.OperationReconcile {
		base := mr.DeepCopy()
		delete(mr.Annotations, resourcesv1alpha1.OperationAnnotation)
		if err := r.source.Patch(ctx, base, mr, false); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		r.memory.demandApply(req.NamespacedName)
	}
	deleting := mr.DeletionTimestamp != nil
	switch {
	case resourcesv1alpha1.IsTruthy(mr.Annotations[resourcesv1alpha1.IgnoreAnnotation]) && !deleting:
		r.tracker.Forget(work.name)
		r.memory.read(work.name, "", nil)
		return reconcile.Result{}, r.ignored(ctx, work)
	case deleting || decision.Leaving:
		return r.delete(ctx, work)
	case decision.AwaitFinalizer != "":
		work.log.V(1).Info("Waiting for another instance to finish", "finalizer", decision.AwaitFinalizer)
		return reconcile.Result{}, nil
	default:
		return r.keep(ctx, work)
	}
}

// resumeStopwatches continues measuring for the next run, because this one did nothing.
func (r *reconciler) resumeStopwatches(work *run) {
	if !work.drifted.IsZero() {
		r.drifts.start(work.name, work.drifted)
	}
	if !work.changed.IsZero() {
		r.changes.start(work.name, work.changed)
	}
}

// needsNoTarget tells whether all that is left to do is to let go of the ManagedResource.
func (r *run) needsNoTarget() bool {
	return (r.mr.DeletionTimestamp != nil || r.decision.Leaving) && (len(r.mr.Status.Resources) == 0 || deref(r.mr.Spec.KeepObjects))
}

// followRewinds forgets what is known of the objects of a ManagedResource if its target went back in time. What its
// watches show decides then, as after a start.
func (r *reconciler) followRewinds(work *run) {
	status, _ := r.clusters.GetStatus(work.target)
	if !r.memory.rewound(work.name, status.Rewinds) {
		return
	}
	r.tracker.Unlearn(work.name)
	r.warnings.Forget(work.name)
	r.memory.forget(work.name)
	r.memory.rewound(work.name, status.Rewinds)
}

// forget drops everything in memory about a ManagedResource that is gone or not ours.
func (r *reconciler) forget(name types.NamespacedName) {
	r.tracker.Forget(name)
	r.warnings.Forget(name)
	r.memory.forget(name)
	r.drifts.stop(name)
	r.changes.stop(name)
}

// paused tells whether the operator stopped all work on a target.
func (r *reconciler) paused(ctx context.Context, target clustercache.ClusterKey) (bool, error) {
	tc, err := r.targetCluster(ctx, target)
	if err != nil || tc == nil {
		return false, err
	}
	return tc.Spec.Paused, nil
}

// hibernated tells whether the target is meant to be away.
func (r *reconciler) hibernated(ctx context.Context, work *run) bool {
	tc, err := r.targetCluster(ctx, work.target)
	return err == nil && tc != nil && resourcesv1alpha1.IsTruthy(tc.Annotations[hubv1alpha1.HibernatedAnnotation])
}

// targetCluster returns the TargetCluster of a registration, nil if there is none (yet). It belongs to the informer.
func (r *reconciler) targetCluster(ctx context.Context, key clustercache.ClusterKey) (*hubv1alpha1.TargetCluster, error) {
	if key.Namespace == "" {
		return nil, nil
	}
	tc := &hubv1alpha1.TargetCluster{}
	if err := r.reader.Get(ctx, key, tc, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading TargetCluster %s: %w", key, err)
	}
	return tc, nil
}

// access returns the clients of a target that is known to be the cluster with a UID. If it is another one meanwhile, it
// counts as not connected.
func (r *reconciler) access(ctx context.Context, key clustercache.ClusterKey, uid types.UID) (apply.Target, error) {
	metadataClient, err := r.clusters.GetMetadataClient(ctx, key)
	if err != nil {
		return apply.Target{}, err
	}
	uncached, err := r.clusters.GetUncachedClient(ctx, key)
	if err != nil {
		return apply.Target{}, err
	}
	mapper, err := r.clusters.GetRESTMapper(ctx, key)
	if err != nil {
		return apply.Target{}, err
	}
	if status, _ := r.clusters.GetStatus(key); status.UID != uid {
		return apply.Target{}, fmt.Errorf("target %s is not the cluster with UID %s any more: %w", key, uid, clustercache.ErrConnectionReplaced)
	}
	return apply.Target{Metadata: metadataClient, Client: uncached, Mapper: mapper, Hold: clustercache.HoldAnswers}, nil
}

// resync is the result of a run with nothing left to do: the safety net, with a tenth of jitter either way.
func (r *reconciler) resync() reconcile.Result {
	jitter := 0.9 + 0.2*rand.Float64()
	return reconcile.Result{RequeueAfter: time.Duration(float64(r.syncPeriod) * jitter), Priority: new(dispatch.PriorityResync)}
}

// begin has what happens to all objects noted instead of told until tracker.End.
func (r *reconciler) begin(work *run) {
	work.present = r.tracker.Judge(work.name).Observed
	r.tracker.Begin(work.name)
}

// wentMeanwhile tells whether one of some objects went since the run began, which nobody was told. An object that the
// watches do not show because somebody took its label off did not.
func (r *reconciler) wentMeanwhile(work *run, waitsFor map[inventory.Key]bool) bool {
	for key := range waitsFor {
		if _, was := work.present[key]; !was {
			continue
		}
		if _, found, synced := r.tracker.Observed(work.name, key); synced && !found {
			return true
		}
	}
	return false
}

// withDrift has a ManagedResource looked at again as soon as the drift that a verdict shows may be corrected. Objects that never
// were right wait for the next attempt at everything, and so do those that the run failed at.
func (r *reconciler) withDrift(result reconcile.Result, work *run, v tracker.Verdict, failures ...apply.Outcome) reconcile.Result {
	drifted := slices.Concat(v.Drifted, v.Missing)
	if len(drifted) == 0 {
		return result
	}
	states, _ := r.tracker.AcceptedStates(work.name)
	now := r.clock.Now()
	failed := make(map[inventory.Key]bool, len(failures))
	for i := range failures {
		failed[failures[i].Key] = true
	}
	for _, key := range drifted {
		if _, known := states[key]; known && !failed[key] {
			result = forDrift(result, r.correctable(work.name, key, now))
		}
	}
	return result
}

// correctable is how long to wait with another look at an object that is not as it should be.
func (r *reconciler) correctable(name types.NamespacedName, key inventory.Key, now time.Time) time.Duration {
	return max(r.memory.mayCorrect(name, key, now), r.memory.left(name, key, now), busyRetry)
}

// forDrift is a result with a look at drift after some time, if that is sooner.
func forDrift(result reconcile.Result, after time.Duration) reconcile.Result {
	if result.RequeueAfter == 0 || after < result.RequeueAfter {
		result.RequeueAfter, result.Priority = after, new(dispatch.PriorityDrift)
	}
	return result
}

// settled is the result of a run after which the watches have to show the last writes: resync, or a look when they should
// have shown them. Nobody is notified of what a verdict already has, so if the watches caught up between the verdict behind
// the conditions and this one, the next look is due now; and so it is if this is the first verdict that shows drift.
func (r *reconciler) settled(work *run, v tracker.Verdict) reconcile.Result {
	result := r.resync()
	now := r.clock.Now()
	if _, until := r.memory.contested(work.name, now); !until.IsZero() {
		result = sooner(result, until.Sub(now)+time.Second)
	}
	if work.explained {
		result = sooner(result, notes.Pause)
	}
	result = r.withDrift(result, work, v)
	switch {
	case v.Unseen > 0:
		return sooner(result, tracker.UnseenGrace+time.Second)
	case !v.Synced || v.PodsUnknown: // the sync is an event; that it takes too long is none
		if blind := r.memory.blindFor(work.name, true, now); blind < syncGrace {
			return sooner(result, syncGrace-blind)
		}
		return result
	case work.unjudged && len(v.Outdated) == 0:
		return sooner(result, busyRetry)
	default:
		return result
	}
}
