package status

import (
	"context"
	"slices"
	"time"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/objects"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/view"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
)

// SyncGrace is how long a watch may show nothing until it is said, and how often a start looks whether all of them do.
const SyncGrace = 20 * time.Second

// Assessor says in the conditions about health what the watches show. It sends nothing to a target.
type Assessor struct {
	Targets *objects.Targets
	Viewer  *view.Viewer
}

// Seen is what a run has seen of the objects, and what their assessment found.
type Seen struct {
	// Compared is how the watches show the objects, compared with how they were applied.
	Compared tracker.Comparison
	// Unjudged is true if conditions were left pending because the watches did not show everything yet.
	Unjudged bool
	// Explained is true if the target's events explain unhealthy objects.
	Explained bool

	partial bool // the health of those objects alone was judged that are applied
}

// Assess sets ResourcesHealthy and ResourcesProgressing from what was observed. Until the watches have shown the last
// write of every object, they stay as they are: nothing is claimed that was not seen.
func (a *Assessor) Assess(ctx context.Context, d *Draft, s *run.Subject, seen *Seen) {
	snapshot := a.snapshot(ctx, d, s, seen)
	if snapshot == nil {
		return
	}
	if c, known := snapshot.Healthy(); known {
		setAssessed(d, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionTrue, c, seen.partial)
	}
	if c, known := snapshot.Rollout(); known {
		setAssessed(d, resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse, c, seen.partial)
	}
}

const messagePartial = "Some objects are not applied; their checks are pending. Nothing is wrong with the others."

// setAssessed sets a condition about health. While some objects are not applied, what is wrong with the others is said,
// but not that all is well: that is unknown of the rest. What was said to be well before they failed stays so, as H-3
// has it.
func setAssessed(d *Draft, t resourcesv1alpha1.ConditionType, good resourcesv1alpha1.ConditionStatus,
	c conditions.Condition, partial bool) {
	if partial && c.Status == good {
		if before := d.get(t); before != nil && before.Status == good {
			return
		}
		c = conditions.Condition{
			Status: resourcesv1alpha1.ConditionUnknown, Reason: resourcesv1alpha1.ReasonChecksPending, Message: messagePartial,
		}
	}
	d.Set(t, c)
}

// AssessFailure is for a run that failed, before it says so: unless it is for objects that could not be applied, health
// is not judged from then on, and what it found to be wrong must not be left to read as healthy.
func (a *Assessor) AssessFailure(ctx context.Context, d *Draft, s *run.Subject, seen *Seen) {
	if snapshot := a.snapshot(ctx, d, s, seen); snapshot != nil {
		if c, known := snapshot.Healthy(); known && c.Status == resourcesv1alpha1.ConditionFalse {
			d.Set(resourcesv1alpha1.ConditionResourcesHealthy, c)
		}
	}
}

// snapshot returns what the watches show of the objects of a ManagedResource; nil if its health is not to be judged.
func (a *Assessor) snapshot(ctx context.Context, d *Draft, s *run.Subject, seen *Seen) *conditions.Snapshot {
	if !a.Askable(ctx, d, s) {
		return nil
	}
	subject := view.Subject{
		ManagedResource: s.Name, Cluster: s.Target, Resources: d.Resources, Comparison: seen.Compared,
		Late: func(blind bool) bool { return s.State.BlindFor(blind, d.now) >= SyncGrace },
	}
	seen.partial = false
	switch c := d.get(resourcesv1alpha1.ConditionResourcesApplied); {
	case c == nil:
		d.AnswersAgain()
		return nil
	case c.Status == resourcesv1alpha1.ConditionTrue:
		subject.Applied = true
	case c.Reason == resourcesv1alpha1.ReasonDecodingFailed, c.Reason == resourcesv1alpha1.ReasonOwnedByOther:
	case c.Status == resourcesv1alpha1.ConditionFalse && c.Reason == resourcesv1alpha1.ReasonApplyFailed:
		d.AnswersAgain()
		seen.partial, subject.Partial, subject.Resources = true, true, onceApplied(d.Resources)
		if len(subject.Resources) == 0 {
			return nil
		}
	default:
		d.AnswersAgain()
		return nil // only what was applied is assessed
	}
	shown := a.Viewer.Collect(subject)
	seen.Unjudged, seen.Explained, d.reading = shown.Unjudged, len(shown.Explained) > 0, shown.Reading
	return &shown.Snapshot
}

// onceApplied are the entries of objects that were applied, if not as they should be now. Others may never have been
// created.
func onceApplied(refs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	return slices.DeleteFunc(slices.Clone(refs), func(ref resourcesv1alpha1.ObjectReference) bool { return ref.UID == "" })
}

// Askable reports whether the target can be asked about the objects. If it cannot although it should, it sets the
// conditions. Those of a target that is meant to be away stay as they are, as soon as that is said and until it is
// over: its nodes go before its API server does, and come after it.
func (a *Assessor) Askable(ctx context.Context, d *Draft, s *run.Subject) bool {
	status, registered := a.Targets.Clusters.GetStatus(s.Target) // the one that a run began with may be over
	switch {
	case !registered, a.Targets.Hibernated(ctx, s.Target), status.InGrace,
		status.State == clustercache.StateConnecting, status.State == clustercache.StateHibernated:
		return false
	case status.State != clustercache.StateConnected:
		d.Unreachable(s.Target, status)
		return false
	}
	return status.UID == s.BoundUID()
}
