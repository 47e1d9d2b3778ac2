package status

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

// NoteDelay is how long after a run of everything its note is written. A change that comes meanwhile saves the write,
// and in a roll-out to many targets the objects come first. A restart meanwhile costs applies that change nothing.
const NoteDelay = 2 * time.Second

// Applied is the content of the applied annotation: what was applied and how the objects were afterwards. It is
// compared, never trusted: a wrong one costs an apply that changes nothing.
type Applied struct {
	Input, Fingerprint string
}

// String renders the annotation.
func (a Applied) String() string { return a.Input + "." + a.Fingerprint }

// ParseApplied reads the annotation; false if it is none of ours.
func ParseApplied(s string) (Applied, bool) {
	input, fingerprint, ok := strings.Cut(s, ".")
	return Applied{Input: input, Fingerprint: fingerprint}, ok && input != "" && fingerprint != ""
}

// AppliedWriter writes the applied annotation, so that a restart can see that nothing changed.
type AppliedWriter struct {
	Store   *store.Store
	Tracker *tracker.Tracker
}

// WriteWhenDue writes the note of an input if it is due, and otherwise has a run come when it is.
func (n *AppliedWriter) WriteWhenDue(
	ctx context.Context, s *run.Subject, input string, result reconcile.Result,
) (reconcile.Result, error) {
	due := s.State.NoteDue
	if due.IsZero() {
		return result, nil
	}
	if left := due.Sub(s.Clock.Now()); left > 0 {
		if result = run.Sooner(result, left); result.RequeueAfter == left {
			result.Priority = new(dispatch.PriorityResync)
		}
		return result, nil
	}
	return result, n.Write(ctx, s, input)
}

// Write notes what was applied and how the objects were then. Nothing is written while something is not known.
func (n *AppliedWriter) Write(ctx context.Context, s *run.Subject, input string) error {
	states, complete := n.Tracker.AcceptedStates(s.Name)
	if !complete {
		return nil
	}
	value := Applied{Input: input, Fingerprint: tracker.Fingerprint(states)}.String()
	if s.MR.Annotations[hubv1alpha1.AppliedAnnotation] != value {
		base := s.MR.DeepCopy()
		metav1.SetMetaDataAnnotation(&s.MR.ObjectMeta, hubv1alpha1.AppliedAnnotation, value)
		if err := n.Store.Patch(ctx, base, s.MR, false); err != nil {
			return err
		}
	}
	s.State.NoteDue = time.Time{}
	return nil
}

// TakeBack removes the note of an input, after a run that failed with the same input.
func (n *AppliedWriter) TakeBack(ctx context.Context, s *run.Subject, input string) error {
	s.State.NoteDue = time.Time{}
	noted, ok := ParseApplied(s.MR.Annotations[hubv1alpha1.AppliedAnnotation])
	if !ok || noted.Input != input {
		return nil
	}
	base := s.MR.DeepCopy()
	delete(s.MR.Annotations, hubv1alpha1.AppliedAnnotation)
	return n.Store.Patch(ctx, base, s.MR, false)
}

// conditionApplied returns the condition ResourcesApplied, nil if there is none.
func conditionApplied(mr *resourcesv1alpha1.ManagedResource) *resourcesv1alpha1.Condition {
	return resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
}

// AppliedTrue reports whether a ManagedResource says that it is applied.
func AppliedTrue(mr *resourcesv1alpha1.ManagedResource) bool {
	c := conditionApplied(mr)
	return c != nil && c.Status == resourcesv1alpha1.ConditionTrue
}

// AppliedReason is the reason of the condition ResourcesApplied; empty if there is none.
func AppliedReason(mr *resourcesv1alpha1.ManagedResource) string {
	if c := conditionApplied(mr); c != nil {
		return c.Reason
	}
	return ""
}
