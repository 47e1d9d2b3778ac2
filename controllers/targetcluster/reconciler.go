package targetcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/controllers/internal/pacing"
	"github.com/trellis-hub/trellis/controllers/targetcluster/care"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
	"github.com/trellis-hub/trellis/controllers/targetcluster/nodes"
)

const (
	// detailsPause is how long changes wait that are only details, after the last write.
	detailsPause = time.Minute
	// flapPause is how long a check waits that begins or ceases to fail for less than its threshold, and what
	// ManagedResources turn, after the last write. A check that begins to fail also waits for as long since then, so that
	// what is over by then is never written.
	flapPause = 5 * time.Second
	// soonest is the shortest pause before a target is looked at again although nothing happened.
	soonest = 100 * time.Millisecond
	// conflictRetry is the pause before a write is repeated that was based on an outdated TargetCluster.
	conflictRetry = 200 * time.Millisecond
)

// reconciler brings one TargetCluster at a time in line with what is known of its target.
type reconciler struct {
	Options
	nodes      *nodes.Nodes
	identities *identity.Index
	revisions  *revisions
	events     *recorder
	started    time.Time
	rules      rules

	changes, details, labels *pacing.Pacer // of writes

	mu      sync.Mutex
	runs    map[*run]struct{}                                      // under way
	written map[clustercache.ClusterKey]time.Time                  // when a status was written last in this term
	failing map[clustercache.ClusterKey][]hubv1alpha1.FailingCheck // as of the last look in this term, written or not
	settled map[clustercache.ClusterKey]settled                    // targets whose status is up to date
	drafts  map[clustercache.ClusterKey]draft                      // what waits to be written
}

func newReconciler(o Options) *reconciler {
	return &reconciler{
		Options:    o,
		identities: identity.NewIndex(),
		revisions:  newRevisions(),
		events:     newRecorder(o.Events, o.Clock),
		started:    o.Clock.Now(),
		rules: rules{
			thresholds: o.Thresholds, progressingLimit: o.ProgressingLimit,
			monitor: o.MonitorPeriod, targetMonitor: o.TargetMonitorPeriod, termBegan: o.Clock.Now(),
		},
		changes: pacing.New(changesPerSecond), details: pacing.New(detailsPerSecond), labels: pacing.New(labelsPerSecond),
		runs:    map[*run]struct{}{},
		written: map[clustercache.ClusterKey]time.Time{},
		failing: map[clustercache.ClusterKey][]hubv1alpha1.FailingCheck{},
		settled: map[clustercache.ClusterKey]settled{},
		drafts:  map[clustercache.ClusterKey]draft{},
	}
}

// run is a reconciliation under way.
type run struct{ began time.Time }

// begin notes that a reconciliation begins; the returned function notes that it ended.
func (r *reconciler) begin() (end func()) {
	this := &run{began: r.Clock.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[this] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.runs, this)
	}
}

// stuckSince returns since when the longest run should have ended, zero if none should have.
func (r *reconciler) stuckSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	var oldest time.Time
	for run := range r.runs {
		if oldest.IsZero() || run.began.Before(oldest) {
			oldest = run.began
		}
	}
	if oldest.IsZero() {
		return oldest
	}
	return oldest.Add(RunTimeout)
}

func (r *reconciler) logFor(request *reconcile.Request) logr.Logger {
	logger := r.Logger.WithValues("controller", ControllerName)
	if request != nil {
		logger = logger.WithValues("target", request.String())
	}
	return logger
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	defer r.begin()()
	result, err := r.reconcile(ctx, request.NamespacedName)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		if err == nil {
			err = ctx.Err()
		}
		return reconcile.Result{}, fmt.Errorf("it took longer than %s: %w", RunTimeout, err)
	case ctx.Err() != nil:
		return reconcile.Result{}, nil // the term ends, and what it could not do its successor does
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	default:
		return result, err
	}
}

func (r *reconciler) reconcile(ctx context.Context, key clustercache.ClusterKey) (reconcile.Result, error) {
	revision := r.revisions.of(key)
	tc := &hubv1alpha1.TargetCluster{} // it is only read; what is to be changed is copied
	if err := r.Cache.Get(ctx, key, tc, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		tc = nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot read the TargetCluster: %w", err)
	}
	switch d, now := r.takeDraft(key), r.Clock.Now(); {
	case d.isAhead(tc, now):
		r.keepDraft(key, d)
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case d.standsFor(tc, revision, now) && r.asSeen(key, d):
		return r.write(ctx, tc, d, now)
	}

	status, registered := r.Clusters.GetStatus(key)
	switch {
	case tc != nil && tc.DeletionTimestamp != nil:
		return reconcile.Result{}, nil // its end brings it back, if there still is a registration
	case !registered:
		return r.unregistered(ctx, key, tc)
	case tc == nil:
		return reconcile.Result{}, r.create(ctx, key, status.SecretName) // its appearance brings it back
	}
	r.events.rewound(tc, status.Rewinds)
	o := r.observe(ctx, tc, status)
	o.revision = revision
	return r.update(ctx, tc, r.withMembers(ctx, tc, o))
}

func (r *reconciler) create(ctx context.Context, key clustercache.ClusterKey, secretName string) error {
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name,
		// From the first moment on it can be distinguished from one that a user made in advance.
		Annotations: map[string]string{hubv1alpha1.RegistrationAnnotation: secretName},
	}}
	err := r.Client.Create(ctx, tc)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the Secret goes in a moment, too
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("cannot create the TargetCluster: %w", err)
	}
	return nil
}

// unregistered deals with a target that the clustercache does not know. tc is nil if it has no TargetCluster either.
func (r *reconciler) unregistered(ctx context.Context, key clustercache.ClusterKey, tc *hubv1alpha1.TargetCluster) (
	reconcile.Result, error) {
	if tc == nil {
		r.Guard.Forget(key)
		r.forget(key)
		return reconcile.Result{}, nil
	}
	secretName := cmp.Or(tc.Status.SecretName, tc.Annotations[hubv1alpha1.RegistrationAnnotation])
	if secretName == "" {
		return reconcile.Result{}, nil // it never had a registration
	}
	exists, err := r.registrationExists(ctx, key, secretName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if exists {
		return reconcile.Result{RequeueAfter: r.SyncPeriod}, nil // the clustercache will know it in a moment, and says so
	}
	if r.Facts.WorksIn(key) || r.Members != nil && r.Members.InUse(ctx, key) || hasWebhooks(tc) {
		return r.update(ctx, tc, r.withMembers(ctx, tc, r.look(tc, observation{now: r.Clock.Now()})))
	}

	log.FromContext(ctx).Info("Deleting the TargetCluster, its registration is gone")
	err = r.Client.Delete(ctx, tc, client.Preconditions{UID: &tc.UID})
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("cannot delete the TargetCluster: %w", err)
	}
	return reconcile.Result{}, nil
}

// hasWebhooks reports whether the API server of the target may still call the hub. Package webhookregistration sees to
// it that the condition goes when that is not so, and says on it what is to be done if it cannot.
func hasWebhooks(tc *hubv1alpha1.TargetCluster) bool {
	return meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered) != nil
}

// registrationExists asks the API server, because a clustercache that was just started does not know all registrations.
func (r *reconciler) registrationExists(ctx context.Context, key clustercache.ClusterKey, secretName string) (
	bool, error) {
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: secretName}, secret)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot find out whether the registration still exists: %w", err)
	}
	return kubeconfig.IsRegistration(secret) && r.Registrations.Matches(labels.Set(secret.Labels)), nil
}

// observe returns what is known of a registered target, but for its ManagedResources.
func (r *reconciler) observe(ctx context.Context, tc *hubv1alpha1.TargetCluster,
	status clustercache.Status) observation {
	key := client.ObjectKeyFromObject(tc)
	o := r.look(tc, observation{
		now:        r.Clock.Now(),
		registered: true,
		status:     withStableReason(status),
		health:     r.Clusters.GetHealthCheckingState(ctx, key),
		nodes:      r.nodes.Summarize(key),
		roundTrip:  coarseRoundTrip(tc.Status.RoundTripMilliseconds, status.RoundTrip),
		paused:     tc.Spec.Paused,
	})
	o.others, o.elsewhereToo = r.sameCluster(key, status)
	//nolint:contextcheck // it reads a cache in memory
	o.holder = r.holderBefore(key, cmp.Or(tc.Status.ClusterUID, status.UID))
	if known := tc.Status.ClusterUID; known != "" && o.connected() && status.UID != known &&
		!identity.Confirmed(status.Annotations, status.UID) {
		o.conflict = identity.Changed(known, status.UID)
	}
	return o
}

// sameCluster returns the other targets of the namespace that are the same cluster, and whether there are some in other
// namespaces. Those count only if they lead to the same API server, for any server can claim to be any cluster.
func (r *reconciler) sameCluster(key clustercache.ClusterKey,
	status clustercache.Status) (here []clustercache.ClusterKey, elsewhere bool) {
	for _, other := range r.identities.Others(key) {
		if other.Namespace == key.Namespace {
			here = append(here, other)
		} else if !elsewhere && status.Server != "" {
			st, ok := r.Clusters.GetStatus(other)
			elsewhere = ok && st.UID == status.UID && st.Server == status.Server
		}
	}
	return here, elsewhere
}

// holderBefore returns for which other target of a cluster controllers work, zero if there is none.
func (r *reconciler) holderBefore(key clustercache.ClusterKey, uid types.UID) clustercache.ClusterKey {
	if holder, held := r.Holders.Of(uid); held && holder != key {
		return holder
	}
	return clustercache.ClusterKey{}
}

// withStableReason returns a status with the reason that was reported at first. During the grace period, an attempt
// to restore it fails for another reason than the probes did: each of hundreds of targets that are lost together would
// write its status and an event again.
func withStableReason(status clustercache.Status) clustercache.Status {
	if status.InGrace && status.State == clustercache.StateDisconnected &&
		status.Reason == clustercache.ReasonUnreachable {
		status.Reason = clustercache.ReasonProbeFailed
	}
	return status
}

// look completes an observation by what does not depend on whether the target is registered, but for ManagedResources.
func (r *reconciler) look(tc *hubv1alpha1.TargetCluster, o observation) observation {
	key := client.ObjectKeyFromObject(tc)
	o.namespace, o.facts, o.rules = key.Namespace, r.Facts.Of(key), r.rules
	o.sign = o.signOfWork(r.WatchedUntil())
	if manager, elsewhere := r.Facts.ManagedElsewhere(key.Namespace); elsewhere {
		o.elsewhere = manager
	}
	return o
}

// withMembers completes an observation by the ManagedResources of the target.
func (r *reconciler) withMembers(ctx context.Context, tc *hubv1alpha1.TargetCluster, o observation) observation {
	if r.Members == nil {
		return o
	}
	key := client.ObjectKeyFromObject(tc)
	uid := tc.Status.ClusterUID
	if uid == "" {
		uid = o.status.UID
	}
	found, err := r.Members.Of(ctx, key, uid, r.identities.Others(key), o.elsewhere != "")
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot assess the health of the ManagedResources")
		return o
	}
	o.members, o.membersKnown = found, true
	return o
}

// requeue has a target looked at again after a sync period, or at next unless that is zero.
func (r *reconciler) requeue(now, next time.Time) reconcile.Result {
	result := reconcile.Result{RequeueAfter: r.nextLook()}
	if !next.IsZero() {
		result.RequeueAfter = min(result.RequeueAfter, max(next.Sub(now), soonest))
	}
	return result
}

// nextLook is the pause until a target is looked at again to which nothing happens.
func (r *reconciler) nextLook() time.Duration { return r.SyncPeriod - rand.N(r.SyncPeriod/4+1) }

// update writes what was observed into the status and its summary into the label, if it makes a difference to what it
// was.
func (r *reconciler) update(ctx context.Context, base *hubv1alpha1.TargetCluster, o observation) (
	reconcile.Result, error) {
	tc, key := base.DeepCopy(), client.ObjectKeyFromObject(base)
	r.unsettle(key)
	if wait := o.tooEarly(&tc.Status); wait > 0 {
		result := r.requeue(o.now, time.Time{})
		result.RequeueAfter = min(result.RequeueAfter, wait)
		return result, nil
	}
	o.failing = r.lastFailing(tc)
	next, failing := record(&tc.Status, tc.Generation, o, resourcesv1alpha1.IsTruthy(
		tc.Annotations[hubv1alpha1.HibernatedAnnotation]))
	r.setFailing(key, failing)
	again := o.now.Add(r.requeue(o.now, next).RequeueAfter)
	return r.write(ctx, base, draft{tc: tc, seen: o, fails: len(failing) > 0, next: next, again: again}, o.now)
}

// write writes a draft, as far as it need not wait, and keeps the rest of it.
func (r *reconciler) write(ctx context.Context, base *hubv1alpha1.TargetCluster, d draft, now time.Time) (
	reconcile.Result, error) {
	key, result := client.ObjectKeyFromObject(base), reconcile.Result{RequeueAfter: max(d.again.Sub(now), soonest)}
	shown := d.tc
	wait, err := r.writeStatus(ctx, base, d.tc, now)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("cannot write the status of the TargetCluster: %w", err)
	case wait > 0:
		result.RequeueAfter = min(result.RequeueAfter, wait)
		shown = base
	}
	version, labelled, err := r.writeLabel(ctx, shown, r.Clock.Now())
	switch {
	case err != nil:
		return result, err
	case labelled > 0:
		result.RequeueAfter = min(result.RequeueAfter, max(labelled, soonest)) // by then, the informer has the status
	case wait <= 0 && !d.fails && r.settle(key, version, shown.Status.Conditions, d.seen, d.next):
		return reconcile.Result{}, nil // sweep looks after it
	}
	if version == shown.ResourceVersion && (wait > 0 || labelled > 0) && (r.Members == nil || d.seen.membersKnown) {
		d.version, d.before = version, base.ResourceVersion
		r.keepDraft(key, d)
	}
	return result, nil
}

// writeStatus writes a status that has changed, or returns for how long that has to wait.
func (r *reconciler) writeStatus(ctx context.Context, base, tc *hubv1alpha1.TargetCluster, now time.Time) (
	time.Duration, error) {
	key := client.ObjectKeyFromObject(tc)
	if equality.Semantic.DeepEqual(base.Status, tc.Status) {
		return 0, nil
	}
	if wait := r.wait(base.Status, tc.Status, r.lastWrite(key), now); wait > 0 {
		return wait, nil
	}
	if wait := r.pace(key, base.Status, tc.Status, now); wait > 0 {
		return wait, nil
	}
	r.claim(base, tc, now) //nolint:contextcheck // it reads a cache in memory
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, tc, patch); err != nil {
		return 0, err
	}
	r.wrote(key, now)
	r.changes.Written(key, now)
	r.details.Written(key, now)
	r.events.statusChanged(tc, base.Status)
	return 0, nil
}

// claim notes since when a target is its cluster, if it was not before. It is done right before the write: what waited
// for its write is not earlier than what was written meanwhile.
func (r *reconciler) claim(base, tc *hubv1alpha1.TargetCluster, now time.Time) {
	before, is := identity.ClaimOf(base), identity.ClaimOf(tc)
	if is.UID == "" || is.UID == before.UID && (is.Released || !before.Released) {
		return
	}
	since := r.Holders.After(is.UID, now)
	tc.Status.ClusterUIDSince = &since
}

// writeLabel brings the status label in line with the conditions that are written. It returns the version that the
// TargetCluster has then, and how long the label has to wait for its turn.
func (r *reconciler) writeLabel(ctx context.Context, tc *hubv1alpha1.TargetCluster, now time.Time) (
	version string, wait time.Duration, err error) {
	value, key := summary(tc.Status.Conditions), client.ObjectKeyFromObject(tc)
	if value == "" || tc.Labels[hubv1alpha1.StatusLabel] == value {
		return tc.ResourceVersion, 0, nil
	}
	if wait := r.labels.Delay(key, now); wait > 0 {
		return tc.ResourceVersion, wait, nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{%q:%q}}}`, tc.UID, hubv1alpha1.StatusLabel, value)
	labelled := tc.DeepCopy()
	if err := r.Client.Patch(ctx, labelled, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(
		err) != nil {
		return "", 0, fmt.Errorf("cannot label the TargetCluster: %w", err)
	}
	r.labels.Written(key, now)
	return labelled.ResourceVersion, 0, nil
}

// record puts an observation into a status. It returns when it may become another one although nothing happens, zero if
// it will not, and the checks to be remembered until the next look. When a target wakes from hibernation, all its
// thresholds start again, so nothing is remembered of one that sleeps.
func record(status *hubv1alpha1.TargetClusterStatus, generation int64, o observation, hibernated bool) (
	next time.Time, failing []hubv1alpha1.FailingCheck) {
	status.ObservedGeneration = generation
	status.FailingChecks = nil
	if !hibernated {
		j := judge(status, generation, o)
		status.Conditions, status.FailingChecks, next, failing = j.conditions, j.failing, j.next, j.remembered
	}
	if o.membersKnown {
		status.ManagedResources, status.Objects = count(o.members)
	}
	if facts := o.facts; facts != nil {
		status.DriftLastHour, status.DryRun = facts.DriftLastHour, facts.DryRun
	}
	if !o.registered {
		return next, failing
	}

	status.SecretName = o.status.SecretName
	status.CredentialExpiry = nil
	if end, ends := o.credentialEnds(); ends {
		expiry := metav1.NewTime(end.Truncate(time.Second))
		status.CredentialExpiry = &expiry
	}
	if !o.connected() || o.conflict != nil {
		return next, failing // what is known of the target itself stays
	}
	if o.status.UID != "" {
		status.ClusterUID = o.status.UID
	}
	if o.status.KubernetesVersion != "" {
		status.KubernetesVersion = o.status.KubernetesVersion
	}
	status.RoundTripMilliseconds = o.roundTrip
	if is := o.nodes; is.Known {
		status.NodeCounts = &hubv1alpha1.NodeCounts{Total: is.Total, Ready: is.Ready}
		if is.Cloud != "" {
			status.CloudType, status.Region = is.Cloud, is.Region
		}
	}
	return next, failing
}

// count counts the ManagedResources that are applied to the target, and their objects.
func count(members []care.Member) (*hubv1alpha1.ManagedResourceCounts, int64) {
	counts, objects := &hubv1alpha1.ManagedResourceCounts{}, int64(0)
	for _, m := range members {
		if m.OnSource {
			continue
		}
		objects += int64(len(m.Status.Resources))
		counts.Total++
		ready := resourcesv1alpha1.GetCondition(m.Status.Conditions, resourcesv1alpha1.ConditionReady)
		switch {
		case ready != nil && ready.Status == resourcesv1alpha1.ConditionTrue:
			counts.Ready++
		case ready != nil && ready.Status == resourcesv1alpha1.ConditionFalse:
			counts.NotReady++
		default:
			counts.Unknown++
		}
	}
	return counts, objects
}

// wait returns for how much longer a status is not worth a write.
func (r *reconciler) wait(before, after hubv1alpha1.TargetClusterStatus, last, now time.Time) time.Duration {
	begun, rest := withoutBegun(before, after)
	if begun.IsZero() {
		return r.pause(before, after) - now.Sub(last)
	}
	wait := flapPause - min(now.Sub(last), now.Sub(begun))
	if pause := r.pause(before, rest); pause <= flapPause {
		return min(wait, pause-now.Sub(last))
	}
	return wait // details and figures can do so, too: they are often about what is over in a moment
}

// withoutBegun returns since when checks fail that did not before, zero if there are none, and the status without that.
func withoutBegun(before, after hubv1alpha1.TargetClusterStatus) (
	begun time.Time, rest hubv1alpha1.TargetClusterStatus) {
	rest = *after.DeepCopy()
	rest.FailingChecks = slices.DeleteFunc(rest.FailingChecks, func(check hubv1alpha1.FailingCheck) bool {
		known := slices.ContainsFunc(before.FailingChecks, func(
			old hubv1alpha1.FailingCheck) bool {
			return old.Type == check.Type
		})
		is, was := meta.FindStatusCondition(rest.Conditions, check.Type),
			meta.FindStatusCondition(before.Conditions, check.Type)
		if known || is == nil || was == nil {
			return false
		}
		*is = *was
		if begun.IsZero() || check.Since.Time.Before(begun) {
			begun = check.Since.Time
		}
		return true
	})
	return begun, rest
}

// pause is how long a status waits after the last write, by what is new in it: details such as the wording of messages
// and the round trip for long, figures for a sync period, checks that come and go within their thresholds and what
// ManagedResources turn for a moment, and everything else not at all.
func (r *reconciler) pause(before, after hubv1alpha1.TargetClusterStatus) time.Duration {
	a, b := *before.DeepCopy(), *after.DeepCopy()
	both := []*hubv1alpha1.TargetClusterStatus{&a, &b}
	for _, status := range both {
		status.RoundTripMilliseconds = 0
		for i := range status.Conditions {
			status.Conditions[i].Message = ""
		}
	}
	if equality.Semantic.DeepEqual(a, b) {
		return detailsPause
	}
	for _, status := range both {
		status.ManagedResources, status.Objects, status.DriftLastHour, status.DryRun = nil, 0, 0, nil
	}
	if equality.Semantic.DeepEqual(a, b) {
		return r.SyncPeriod
	}
	for i := range b.Conditions {
		is := &b.Conditions[i]
		was := meta.FindStatusCondition(a.Conditions, is.Type)
		switch {
		case was == nil:
		case care.Concerns(is.Type):
			*is = *was
		case was.Status == is.Status && (isFailing(was.Reason) || isFailing(is.Reason)):
			is.Reason = was.Reason
		}
	}
	a.FailingChecks, b.FailingChecks = nil, nil
	if equality.Semantic.DeepEqual(a, b) {
		return flapPause
	}
	return 0
}

// lastWrite returns when a status was written last, in this term or, for all that is known, just before it.
func (r *reconciler) lastWrite(key clustercache.ClusterKey) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if written, ok := r.written[key]; ok {
		return written
	}
	return r.started
}

func (r *reconciler) wrote(key clustercache.ClusterKey, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[key] = now
}

func (r *reconciler) forget(key clustercache.ClusterKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, key)
	delete(r.failing, key)
	delete(r.settled, key)
	delete(r.drafts, key)
	for _, c := range []*pacing.Pacer{r.changes, r.details, r.labels} {
		c.Forget(key)
	}
	r.revisions.forget(key)
	r.events.forget(key)
}

// lastFailing returns what failed at the last look in this term, written or not. The first look has only what is
// written.
func (r *reconciler) lastFailing(tc *hubv1alpha1.TargetCluster) []hubv1alpha1.FailingCheck {
	r.mu.Lock()
	defer r.mu.Unlock()
	if checks, ok := r.failing[client.ObjectKeyFromObject(tc)]; ok {
		return checks
	}
	return tc.Status.FailingChecks
}

func (r *reconciler) setFailing(key clustercache.ClusterKey, checks []hubv1alpha1.FailingCheck) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing[key] = checks
}

var _ reconcile.Reconciler = &reconciler{}
