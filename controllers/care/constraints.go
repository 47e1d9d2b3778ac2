package care

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

// maxMessage bounds the message of a constraint, in bytes.
const maxMessage = 2 << 10

// finding is what was found out about a constraint.
type finding struct {
	constraint string
	// keep is true if nothing was found out: what was known stays.
	keep bool
	// status is empty if there is nothing to be reported.
	status          metav1.ConditionStatus
	reason, message string
}

// apply returns what constraints become by findings. It does not change what it is given.
func apply(before []metav1.Condition, findings []finding, generation int64, now time.Time) []metav1.Condition {
	after := slices.DeleteFunc(slices.Clone(before), func(c metav1.Condition) bool {
		return !slices.Contains(constraintTypes, c.Type) // no check has this type any longer
	})
	for _, f := range findings {
		switch {
		case f.keep:
		case f.status == "":
			meta.RemoveStatusCondition(&after, f.constraint)
		default:
			meta.SetStatusCondition(&after, metav1.Condition{
				Type: f.constraint, Status: f.status, Reason: f.reason, ObservedGeneration: generation,
				Message:            untrusted.Text(f.message, maxMessage),
				LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
			})
		}
	}
	slices.SortFunc(after, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return after
}

// write writes what was found out about a target into its TargetCluster, if that says something new.
func (r *reconciler) write(ctx context.Context, target *multicluster.Target, findings []finding) error {
	r.Metrics.set(target.Key(), findings)
	if r.about(target) == nil {
		r.logNew(target, findings)
		return nil
	}
	tc := &hubv1alpha1.TargetCluster{}
	err := r.Environment.Source.Get(ctx, target.Key(), tc, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil // it is made in a moment
	case err != nil:
		return fmt.Errorf("reading the TargetCluster: %w", err)
	case tc.DeletionTimestamp != nil:
		return nil
	}
	before := tc.Status.Constraints
	after := apply(before, findings, tc.Generation, r.clock.Now())
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	if err := target.Valid(); err != nil {
		return err //nolint:wrapcheck // it names the target
	}
	if err := r.patch(ctx, tc, after); err != nil {
		return err
	}
	for i := range after {
		was := meta.FindStatusCondition(before, after[i].Type)
		if after[i].Status == metav1.ConditionFalse && (was == nil || was.Status != metav1.ConditionFalse) {
			target.Warn(tc, after[i].Reason, action, untrusted.Message(after[i].Message))
		}
	}
	return nil
}

// patch writes the constraints, and nothing else, if the TargetCluster is as it was read.
func (r *reconciler) patch(ctx context.Context, tc *hubv1alpha1.TargetCluster, constraints []metav1.Condition) error {
	changed := tc.DeepCopy()
	changed.Status.Constraints = constraints
	patch := client.MergeFromWithOptions(tc, client.MergeFromWithOptimisticLock{})
	if err := r.Source.Status().Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the constraints of the TargetCluster: %w", err)
	}
	return nil
}

// logNew logs the new findings about a target that has no TargetCluster.
func (r *reconciler) logNew(target *multicluster.Target, findings []finding) {
	m := r.memoryOf(target.Key())
	for _, f := range findings {
		if f.keep || m.said[f.constraint] == f.message {
			continue
		}
		m.said[f.constraint] = f.message
		target.Log.Info("Looked after a target without a TargetCluster", "constraint", f.constraint,
			"status", string(cmp.Or(f.status, metav1.ConditionTrue)), "message", untrusted.Message(f.message))
	}
}

// sweep updates the constraints of targets in which the controller does not work, until ctx ends.
func (r *reconciler) sweep(ctx context.Context) error {
	ticker := time.NewTicker(r.sweepPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := r.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			r.logger.Error(err, "Cannot update the constraints of targets in which the controller does not work")
		}
	}
}

func (r *reconciler) sweepOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	list := &hubv1alpha1.TargetClusterList{}
	if err := r.Environment.Source.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing TargetClusters: %w", err)
	}
	var errs []error
	for i := range list.Items {
		tc := &list.Items[i]
		before := tc.Status.Constraints
		if len(before) == 0 || tc.DeletionTimestamp != nil {
			continue
		}
		after := r.unattended(tc)
		if equality.Semantic.DeepEqual(before, after) {
			continue
		}
		err := r.patch(ctx, tc, after)
		if err != nil && !apierrors.IsConflict(err) { // the next sweep sees what it is then
			errs = append(errs, fmt.Errorf("target %s: %w", client.ObjectKeyFromObject(tc), err))
		}
		if len(errs) == mostNamed {
			break
		}
	}
	return errors.Join(errs...)
}

// unattended returns what the constraints of a target become if the controller does not work in it.
func (r *reconciler) unattended(tc *hubv1alpha1.TargetCluster) []metav1.Condition {
	before := tc.Status.Constraints
	status, registered := r.Environment.Clusters.GetStatus(client.ObjectKeyFromObject(tc))
	if !registered {
		return before // it goes in a moment, or the hub has just been started
	}
	if _, on := r.Settings(status); !on {
		return nil
	}
	if !isAway(status, r.clock.Now()) {
		return before
	}
	var findings []finding
	for _, c := range before {
		if c.Reason != hubv1alpha1.ReasonTargetUnreachable {
			findings = append(findings, finding{
				constraint: c.Type, status: metav1.ConditionUnknown, reason: hubv1alpha1.ReasonTargetUnreachable,
				message: "The hub has not reached the target since " + status.Since.UTC().Format(time.RFC3339) + ".",
			})
		}
	}
	return apply(before, findings, tc.Generation, r.clock.Now())
}
