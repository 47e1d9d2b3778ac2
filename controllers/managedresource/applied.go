package managedresource

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/store"
)

// noteDelay is how long after a run of everything its note is written. A change that comes meanwhile saves the write,
// and in a roll-out to many targets the objects come first. A restart meanwhile costs applies that change nothing.
const noteDelay = 2 * time.Second

// applied is the content of the applied annotation: what was applied and how the objects were afterwards. It is
// compared, never trusted: a wrong one costs an apply that changes nothing.
type applied struct {
	Input, Fingerprint string
}

// String renders the annotation.
func (a applied) String() string { return a.Input + "." + a.Fingerprint }

func parseApplied(s string) (applied, bool) {
	input, fingerprint, ok := strings.Cut(s, ".")
	return applied{Input: input, Fingerprint: fingerprint}, ok && input != "" && fingerprint != ""
}

// appliedNotes writes the applied annotation, so that a restart can see that nothing changed.
type appliedNotes struct {
	store   *store.Store
	tracker *tracker.Tracker
}

// writeWhenDue writes the note of an input if it is due, and otherwise has a run come when it is.
func (n *appliedNotes) writeWhenDue(
	ctx context.Context, s *run.Subject, input string, result reconcile.Result,
) (reconcile.Result, error) {
	due := s.State.NoteDue
	if due.IsZero() {
		return result, nil
	}
	if left := due.Sub(s.Clock.Now()); left > 0 {
		if result = sooner(result, left); result.RequeueAfter == left {
			result.Priority = new(dispatch.PriorityResync)
		}
		return result, nil
	}
	return result, n.write(ctx, s, input)
}

// write notes what was applied and how the objects were then. Nothing is written while something is not known.
func (n *appliedNotes) write(ctx context.Context, s *run.Subject, input string) error {
	states, complete := n.tracker.AcceptedStates(s.Name)
	if !complete {
		return nil
	}
	value := applied{Input: input, Fingerprint: tracker.Fingerprint(states)}.String()
	if s.MR.Annotations[hubv1alpha1.AppliedAnnotation] != value {
		base := s.MR.DeepCopy()
		metav1.SetMetaDataAnnotation(&s.MR.ObjectMeta, hubv1alpha1.AppliedAnnotation, value)
		if err := n.store.Patch(ctx, base, s.MR, false); err != nil {
			return err
		}
	}
	s.State.NoteDue = time.Time{}
	return nil
}

// takeBack removes the note of an input, after a run that failed with the same input.
func (n *appliedNotes) takeBack(ctx context.Context, s *run.Subject, input string) error {
	s.State.NoteDue = time.Time{}
	noted, ok := parseApplied(s.MR.Annotations[hubv1alpha1.AppliedAnnotation])
	if !ok || noted.Input != input {
		return nil
	}
	base := s.MR.DeepCopy()
	delete(s.MR.Annotations, hubv1alpha1.AppliedAnnotation)
	return n.store.Patch(ctx, base, s.MR, false)
}

// conditionApplied returns the condition ResourcesApplied, nil if there is none.
func conditionApplied(mr *resourcesv1alpha1.ManagedResource) *resourcesv1alpha1.Condition {
	return resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
}

// appliedTrue reports whether a ManagedResource says that it is applied.
func appliedTrue(mr *resourcesv1alpha1.ManagedResource) bool {
	c := conditionApplied(mr)
	return c != nil && c.Status == resourcesv1alpha1.ConditionTrue
}

// appliedReason is the reason of the condition ResourcesApplied; empty if there is none.
func appliedReason(mr *resourcesv1alpha1.ManagedResource) string {
	if c := conditionApplied(mr); c != nil {
		return c.Reason
	}
	return ""
}
