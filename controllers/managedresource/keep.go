package managedresource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/references"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/secretindex"
	"github.com/trellis-hub/trellis/engine/inventory"
)

const (
	// syncGrace is how long a watch may show nothing until it is said, and how often a start looks whether all of them do.
	syncGrace = 20 * time.Second
	// startGrace is how long a start says nothing of watches that have not listed yet. With a thousand targets the first lists take
	// a minute or two on a small machine, and to say so of each ManagedResource, and then that it is over, would double that.
	startGrace = 2 * time.Minute
	// listGrace is how long a start waits for watches that neither list nor fail, before it applies without knowing.
	listGrace = 10 * time.Minute
)

// keep makes and keeps the target as the ManagedResource says.
func (r *reconciler) keep(ctx context.Context, work *run) (reconcile.Result, error) {
	if !work.decision.HasTarget {
		return r.withoutTarget(ctx, work)
	}
	if err := r.takeUp(ctx, work); err != nil {
		return reconcile.Result{}, err
	}
	if wasIgnored(&work.mr.Status) { // whatever follows, it is not ignored any more
		if err := r.updateStatus(ctx, work, r.notIgnored); err != nil {
			return reconcile.Result{}, err
		}
	}
	status, _ := r.clusters.GetStatus(work.target)
	if moved, result, err := r.leaveOldTarget(ctx, work, status); moved || err != nil {
		return result, err
	}
	bound := types.UID(work.mr.Annotations[hubv1alpha1.TargetUIDAnnotation])
	if status.UID == "" || status.State == clustercache.StateRefused || bound != "" && bound != status.UID {
		return r.unreachable(ctx, work, status)
	}
	if known, err := r.identityKnown(ctx, work.target, status.UID); err != nil || !known {
		return reconcile.Result{RequeueAfter: identityRetry}, err
	}
	if err := r.tracker.Track(ctx, work.name, work.target, work.mr.Status.Resources, exact(work.mr)); err != nil && !isDown(err) {
		return reconcile.Result{}, err
	}

	if _, err := references.Of(work.mr); err != nil {
		return r.resync(), r.notApplied(ctx, work, resourcesv1alpha1.ReasonContentTooLarge, err.Error())
	}
	r.learnSecrets(ctx, work)
	input, current := r.input(work)
	if r.alwaysUpdate && r.memory.applyDue(work.name, r.clock.Now(), r.syncPeriod) {
		r.memory.demandApply(work.name)
	}
	if missing, ok := r.missingSecret(work); ok {
		return r.cannotRead(ctx, work, missing)
	}
	if current && !r.memory.applyDemanded(work.name) && work.mr.Status.ObservedGeneration == work.mr.Generation {
		done, result, err := r.unchanged(ctx, work, status, input)
		if done || err != nil {
			return result, err
		}
	}
	if wait := r.memory.backoff(work.name, input, r.clock.Now()); wait > 0 && current && status.State == clustercache.StateConnected {
		// The whole is tried again when its time comes, or when what it waits for is gone. What was right before is kept
		// right meanwhile.
		verdict := r.tracker.Compare(work.name)
		if !slices.ContainsFunc(verdict.Missing, r.memory.waitsFor(work.name)) {
			result, err := r.keepAccepted(ctx, work, status, input, verdict)
			return sooner(result, wait), err
		}
	}
	return r.applyAll(ctx, work, status)
}

// takeUp forgets what a ManagedResource that is not ours yet says about objects. Our finalizer comes before the first
// write to a target and goes after the last, so without it there is nothing of ours: an inventory is what an instance
// of another class left behind when it cleaned up its own target, and objects of the same names in our target are not
// meant by it. A Gardener resource manager of the same class has the same finalizer: what it leaves is taken over.
func (r *reconciler) takeUp(ctx context.Context, work *run) error {
	if slices.Contains(work.mr.Finalizers, work.class.Finalizer) {
		return nil
	}
	if states, _ := r.tracker.AcceptedStates(work.name); len(states) > 0 {
		return nil // somebody took the finalizer off
	}
	if err := r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) { s.Resources = nil }); err != nil {
		return err
	}
	base := work.mr.DeepCopy()
	delete(work.mr.Annotations, hubv1alpha1.TargetUIDAnnotation)
	delete(work.mr.Annotations, hubv1alpha1.AppliedAnnotation)
	if len(base.Annotations) == len(work.mr.Annotations) {
		return nil
	}
	return r.source.Patch(ctx, base, work.mr, false)
}

// unchanged handles a ManagedResource whose input is the one that was applied last. done is false if it has to be applied
// again after all.
func (r *reconciler) unchanged(ctx context.Context, work *run, status clustercache.Status, input string) (done bool, result reconcile.Result, err error) {
	applied, ok := parseApplied(work.mr.Annotations[hubv1alpha1.AppliedAnnotation])
	noted := ok && applied.Input == input
	if !noted && !r.memory.appliedHere(work.name, input) {
		return false, result, nil
	}
	if status.State != clustercache.StateConnected {
		result, err = r.unreachable(ctx, work, status)
		return true, result, err
	}
	// Somebody may have taken our marks off. Without them nobody would clean up.
	if err := r.mark(ctx, work, status.UID); err != nil {
		return true, result, err
	}
	verdict := r.tracker.Compare(work.name)
	if !r.tracker.Known(work.name) {
		if !noted {
			return false, result, nil
		}
		// A start with nothing in memory: what the watches show decides, as a whole.
		awaits := func() bool { return (!verdict.Synced || verdict.AutoscalersUnknown) && len(verdict.Failed) == 0 }
		if !awaits() {
			verdict = r.tracker.Judge(work.name)
		}
		if awaits() {
			return r.awaitLists(ctx, work, status, verdict)
		}
		same := verdict.Synced && !verdict.AutoscalersUnknown && !slices.ContainsFunc(verdict.Missing, mayNotBeDone) &&
			(tracker.Fold(verdict.Observed) == applied.Fold || tracker.Fold(tracker.WithoutAutoscalers(verdict.Observed)) == applied.Fold)
		if !same {
			return false, result, nil
		}
		r.tracker.AcceptObserved(work.name, verdict.Observed)
		r.tracker.AcceptDone(work.name, verdict.Missing, work.mr.Status.Resources)
		r.memory.settled(work.name, input)
		result, err = r.evaluateApplied(ctx, work, status)
		return true, result, err
	}
	if drifted := slices.Concat(verdict.Drifted, verdict.Missing, r.abandoned(ctx, work)); len(drifted) > 0 {
		result, err = r.correct(ctx, work, status, input, drifted)
		return true, result, err
	}
	result, err = r.evaluateApplied(ctx, work, status)
	if err == nil && appliedTrue(work.mr) {
		result, err = r.noteApplied(ctx, work, input, result)
	}
	return true, result, err
}

// awaitLists waits for watches that have not listed yet, after a start with nothing in memory. done is false if there is nothing to wait
// for: an object is missing already, or it took too long.
func (r *reconciler) awaitLists(ctx context.Context, work *run, status clustercache.Status, verdict tracker.Verdict) (done bool, result reconcile.Result, err error) {
	now := r.clock.Now()
	// A target that was away lists from when it is back.
	waited := min(r.memory.waited(work.name, now), max(now.Sub(status.Since), 0))
	switch {
	case waited < syncGrace:
		return true, reconcile.Result{RequeueAfter: syncGrace - waited}, nil
	case waited >= listGrace, slices.ContainsFunc(verdict.Missing, mayNotBeDone):
		return false, result, nil
	case waited >= startGrace:
		result, err = r.evaluate(ctx, work, status)
	}
	return true, sooner(result, syncGrace), err
}

// keepAccepted corrects objects that were right once, and leaves those alone that never were.
func (r *reconciler) keepAccepted(ctx context.Context, work *run, status clustercache.Status, input string, verdict tracker.Verdict) (reconcile.Result, error) {
	states, _ := r.tracker.AcceptedStates(work.name)
	drifted := slices.DeleteFunc(slices.Concat(verdict.Drifted, verdict.Missing), func(k inventory.Key) bool {
		_, known := states[k]
		return !known || r.memory.mayCorrect(work.name, k, r.clock.Now()) > 0
	})
	if len(drifted) > 0 {
		return r.correct(ctx, work, status, input, drifted)
	}
	return r.evaluate(ctx, work, status)
}

// input is a text over everything that decides what is applied: the generation, the versions of the Secrets and the
// settings of the hub. current is false if a Secret's version is not known or the Secret is missing.
func (r *reconciler) input(work *run) (text string, current bool) {
	names := secretNames(work.mr)
	versions := make([]secretindex.Version, 0, len(names))
	current = true
	for _, name := range names {
		version, known := r.secrets.Get(name)
		if !known || !version.Exists() {
			current = false
		}
		versions = append(versions, version)
	}
	return inputOf(work, r.managedBy, versions), current
}

// learnSecrets looks up Secrets whose versions are not known, for a ManagedResource that may be as it was applied. They came
// while this hub was standing by, after its first list: without a look, a new leader would apply again whatever changed
// since it was started.
func (r *reconciler) learnSecrets(ctx context.Context, work *run) {
	if work.mr.Annotations[hubv1alpha1.AppliedAnnotation] == "" || work.mr.Status.ObservedGeneration != work.mr.Generation {
		return
	}
	for _, name := range secretNames(work.mr) {
		if _, known := r.secrets.Get(name); known || name.Name == "" {
			continue
		}
		_, _ = r.lookAtSecret(ctx, name) // what cannot be looked up stays unknown
	}
}

// identityRetry is for a TargetCluster whose event was missed.
const identityRetry = 10 * time.Second

// identityKnown tells whether it is written down which cluster the target is. Nothing is written to a target before:
// otherwise a hub that dies in this moment would not notice that the kubeconfig leads elsewhere when it starts again.
func (r *reconciler) identityKnown(ctx context.Context, target clustercache.ClusterKey, uid types.UID) (bool, error) {
	if target.Namespace == "" {
		return true, nil
	}
	tc, err := r.targetCluster(ctx, target)
	return err == nil && tc != nil && tc.Status.ClusterUID == uid, err
}

// missingSecret returns a referenced Secret that is known not to exist. Its creation is an event, so nobody has to ask.
func (r *reconciler) missingSecret(work *run) (*secretError, bool) {
	for _, name := range secretNames(work.mr) {
		if version, known := r.secrets.Get(name); known && !version.Exists() {
			return &secretError{name: name, err: apierrors.NewNotFound(corev1.Resource("secrets"), name.Name)}, true
		}
	}
	return nil, false
}

// leaveOldTarget deals with a ManagedResource whose objects are in another cluster than the one it belongs to now: they are
// deleted there, or left if that cluster is gone. moved is true while it is not done.
func (r *reconciler) leaveOldTarget(ctx context.Context, work *run, now clustercache.Status) (moved bool, result reconcile.Result, err error) {
	bound := types.UID(work.mr.Annotations[hubv1alpha1.TargetUIDAnnotation])
	if bound == "" || now.State != clustercache.StateConnected || now.UID == bound {
		return false, result, nil
	}
	if now.PendingSecretResourceVersion != "" {
		result, err = r.awaitConnection(ctx, work, now)
		return true, result, err
	}
	old, found, err := r.claims.FindUID(ctx, work.class, work.name.Namespace, bound)
	if err != nil {
		return true, result, err
	}
	status, _ := r.clusters.GetStatus(old)
	switch {
	case len(work.mr.Status.Resources) == 0 || deref(work.mr.Spec.KeepObjects):
	case !found:
		r.leave(work, fmt.Sprintf("the cluster with UID %s is not registered any more", bound))
	case givenUp(work.mr, status):
		r.leave(work, "their deletion is forced and the old target cluster is not reachable")
	default:
		if err := r.updateStatus(ctx, work, r.pendingConditions); err != nil {
			return true, result, err
		}
		gone, result, err := r.clean(ctx, work, old, status)
		if err != nil || !gone {
			return true, result, err
		}
	}
	work.log.Info("Moving to another target", "oldTargetUID", bound, "newTargetUID", now.UID)
	r.forget(work.name)
	if err := r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) { s.Resources = nil }); err != nil {
		return true, result, err
	}
	// Bound to the new one in one step: a finalizer without a mark would be nobody's.
	base := work.mr.DeepCopy()
	work.mr.Annotations[hubv1alpha1.TargetUIDAnnotation] = string(now.UID)
	delete(work.mr.Annotations, hubv1alpha1.AppliedAnnotation)
	return false, result, r.source.Patch(ctx, base, work.mr, false)
}

// awaitConnection is for a ManagedResource that would move over a connection that its registration does not mean any more.
// The new content may lead to where its objects are, and nothing is deleted on account of what is outdated. The connection
// that follows is an event.
func (r *reconciler) awaitConnection(ctx context.Context, work *run, now clustercache.Status) (reconcile.Result, error) {
	result := reconcile.Result{RequeueAfter: identityRetry, Priority: new(dispatch.PriorityRetry)}
	if now.PendingReason == "" {
		return result, nil // it is being connected
	}
	message := fmt.Sprintf("The present content of the registration of the target cluster %s cannot be used (%s), and its former connection leads to "+
		"another cluster than the one that has the objects. They stay where they are.", work.target, now.PendingReason)
	return result, r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		r.unknownHealth(s, resourcesv1alpha1.ReasonTargetUnreachable, message)
	})
}

// mark writes the finalizer and the UID of the target, in one patch, before the first write to the target.
func (r *reconciler) mark(ctx context.Context, work *run, uid types.UID) error {
	if slices.Contains(work.mr.Finalizers, work.class.Finalizer) && work.mr.Annotations[hubv1alpha1.TargetUIDAnnotation] == string(uid) {
		return nil
	}
	base := work.mr.DeepCopy()
	if !slices.Contains(work.mr.Finalizers, work.class.Finalizer) {
		work.mr.Finalizers = append(work.mr.Finalizers, work.class.Finalizer)
	}
	if work.mr.Annotations == nil {
		work.mr.Annotations = map[string]string{}
	}
	work.mr.Annotations[hubv1alpha1.TargetUIDAnnotation] = string(uid)
	return r.source.Patch(ctx, base, work.mr, false)
}

// noteDelay is how long after a run of everything its note is written. A change that comes meanwhile saves the write, and in
// a roll-out to many targets the objects come first. A restart meanwhile costs applies that change nothing.
const noteDelay = 2 * time.Second

// noteApplied writes the note that is due, or has it written when it is.
func (r *reconciler) noteApplied(ctx context.Context, work *run, input string, result reconcile.Result) (reconcile.Result, error) {
	due := r.memory.noteDue(work.name)
	if due.IsZero() {
		return result, nil
	}
	if left := due.Sub(r.clock.Now()); left > 0 {
		if result = sooner(result, left); result.RequeueAfter == left {
			result.Priority = new(dispatch.PriorityResync)
		}
		return result, nil
	}
	return result, r.markApplied(ctx, work, input)
}

// markApplied notes on the ManagedResource what was applied and how the objects were then, so that a restart can see that
// nothing changed. Nothing is written while something is not known.
func (r *reconciler) markApplied(ctx context.Context, work *run, input string) error {
	states, complete := r.tracker.AcceptedStates(work.name)
	if !complete {
		return nil
	}
	value := applied{Input: input, Fold: tracker.Fold(states)}.String()
	if work.mr.Annotations[hubv1alpha1.AppliedAnnotation] != value {
		base := work.mr.DeepCopy()
		metav1.SetMetaDataAnnotation(&work.mr.ObjectMeta, hubv1alpha1.AppliedAnnotation, value)
		if err := r.source.Patch(ctx, base, work.mr, false); err != nil {
			return err
		}
	}
	r.memory.note(work.name, time.Time{})
	return nil
}

func keysOf(refs []resourcesv1alpha1.ObjectReference) map[inventory.Key]bool {
	keys := make(map[inventory.Key]bool, len(refs))
	for _, ref := range refs {
		keys[inventory.KeyOf(ref)] = true
	}
	return keys
}

func isDown(err error) bool {
	return errors.Is(err, clustercache.ErrClusterNotConnected) || errors.Is(err, clustercache.ErrClusterUnknown)
}

func sooner(result reconcile.Result, after time.Duration) reconcile.Result {
	if result.RequeueAfter == 0 || after < result.RequeueAfter {
		result.RequeueAfter, result.Priority = after, nil
	}
	return result
}

func deref(b *bool) bool { return b != nil && *b }
