package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/pacing"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/notes"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/store"
	"github.com/trellis-hub/trellis/engine/inventory"
)

var semantic = equality.Semantic

// Writer is the only one that writes the status of ManagedResources: by patch, and only what changed.
//
// Two kinds of writes are paced. Health changes with each pod of a roll-out, so writes about health alone are debounced
// for each ManagedResource. And when a network goes, thousands of ManagedResources have to say at once that their
// targets cannot be asked, or watched; a source that is busy with that slows down corrections of drift in other
// targets. So these writes share one rate, after a few that do not wait. That targets are back is written at once: what
// sums up their ManagedResources waits for the last of them.
type Writer struct {
	store *store.Store
	clock clock.PassiveClock
	pace  *pacing.Pacer
}

// OutagesPerSecond is how many ManagedResources say in a second that their targets cannot be asked or watched.
const OutagesPerSecond = 50

// NewWriter returns a writer that writes through a store. pace is that of writes about targets that are away, such as
// OutagesPerSecond.
func NewWriter(s *store.Store, c clock.PassiveClock, pace *pacing.Pacer) *Writer {
	return &Writer{store: s, clock: c, pace: pace}
}

// Forget drops what is known of a ManagedResource that is gone.
func (w *Writer) Forget(name types.NamespacedName) { w.pace.Forget(name) }

// Write patches the status if change makes a difference.
func (w *Writer) Write(ctx context.Context, s *run.Subject, change func(*Draft)) error {
	base, _ := w.change(s, change)
	if equalStatus(&base.Status, &s.MR.Status) {
		return nil
	}
	return w.store.Patch(ctx, base, s.MR, true)
}

// change changes the status and what follows from it, and returns the ManagedResource as it was. Nothing of a status is
// changed in its place.
func (w *Writer) change(s *run.Subject, change func(*Draft)) (
	base *resourcesv1alpha1.ManagedResource, d *Draft,
) {
	base = new(*s.MR)
	d = &Draft{ManagedResourceStatus: &s.MR.Status, now: w.clock.Now()}
	change(d)
	by, _ := s.State.Contested(d.now)
	d.contested(by)
	if len(d.Conditions) > 0 {
		d.Set(resourcesv1alpha1.ConditionReady, conditions.Ready(d.Conditions, s.MR.Generation, d.ObservedGeneration))
	}
	return base, d
}

// WriteOutage writes that a target cannot be asked, at the rate of such writes. A ManagedResource whose last change was
// not applied yet, such as a new one, does not wait.
func (w *Writer) WriteOutage(ctx context.Context, s *run.Subject, change func(*Draft)) (reconcile.Result, error) {
	base, _ := w.change(s, change)
	if equalStatus(&base.Status, &s.MR.Status) {
		return reconcile.Result{}, nil
	}
	if s.MR.Generation == s.MR.Status.ObservedGeneration {
		if wait := w.pace.Delay(s.Name, w.clock.Now()); wait > 0 {
			s.MR = base
			return reconcile.Result{RequeueAfter: wait, Priority: new(dispatch.PriorityResync)}, nil
		}
	}
	return reconcile.Result{}, w.writePaced(ctx, s, base)
}

func (w *Writer) writePaced(ctx context.Context, s *run.Subject, base *resourcesv1alpha1.ManagedResource) error {
	if err := w.store.Patch(ctx, base, s.MR, true); err != nil {
		return err
	}
	w.pace.Written(s.Name, w.clock.Now())
	return nil
}

// WriteHealth is Write for changes that nothing but the target's own events brought. wait is when to try again if it is
// too soon to write; nothing is written then, and nothing is lost: the next run finds what there is to say.
func (w *Writer) WriteHealth(ctx context.Context, s *run.Subject, change func(*Draft)) (wait time.Duration, err error) {
	base, d := w.change(s, change)
	before, after, now := &base.Status, &s.MR.Status, w.clock.Now()
	if equalStatus(before, after) {
		return 0, nil
	}
	pause, turned := run.DebounceText, turned(before, after)
	switch {
	case !equalStatus(withoutHealth(before), withoutHealth(after)): // there is more to it
		pause, turned = 0, false
	case turned:
		pause = run.DebounceStatus
	case d.reading: // a moment later there is more to say, and maybe only what was said before
		s.MR = base
		return notes.Deadline, nil
	}
	blind := pause > 0 && blinded(before, after)
	if blind {
		wait = w.pace.Delay(s.Name, now)
	}
	if wait == 0 {
		wait = s.State.Debounce(pause, turned, now)
	}
	switch {
	case wait > 0:
		s.MR = base
		return wait, nil
	case blind:
		return 0, w.writePaced(ctx, s, base)
	}
	return 0, w.store.Patch(ctx, base, s.MR, true)
}

// aboutHealth are the conditions that change with what the target does on its own.
var aboutHealth = []resourcesv1alpha1.ConditionType{
	resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionResourcesProgressing,
	resourcesv1alpha1.ConditionReady,
}

// withoutHealth is a status without the conditions about health.
func withoutHealth(s *resourcesv1alpha1.ManagedResourceStatus) *resourcesv1alpha1.ManagedResourceStatus {
	rest := *s
	rest.Conditions = nil
	for _, c := range s.Conditions {
		if !slices.Contains(aboutHealth, c.Type) {
			rest.Conditions = append(rest.Conditions, c)
		}
	}
	return &rest
}

// turned reports whether some condition about health has another status.
func turned(before, after *resourcesv1alpha1.ManagedResourceStatus) bool {
	return slices.ContainsFunc(aboutHealth, func(t resourcesv1alpha1.ConditionType) bool {
		a, b := resourcesv1alpha1.GetCondition(before.Conditions, t), resourcesv1alpha1.GetCondition(after.Conditions, t)
		return (a == nil) != (b == nil) || a != nil && a.Status != b.Status
	})
}

// blinded reports whether all that is new is that the target cannot be watched, which all its ManagedResources find out
// at once.
func blinded(before, after *resourcesv1alpha1.ManagedResourceStatus) (blind bool) {
	for _, t := range aboutHealth[:2] { // Ready follows
		was, is := resourcesv1alpha1.GetCondition(before.Conditions, t), resourcesv1alpha1.GetCondition(after.Conditions, t)
		switch {
		case is == nil, was != nil && was.Status == is.Status && was.Reason == is.Reason:
		case is.Reason == resourcesv1alpha1.ReasonHealthCheckError:
			blind = true
		default:
			return false
		}
	}
	return blind
}

// equalStatus compares what a patch would send. Each run does, and to compare the inventory by reflection took a fifth
// of it.
func equalStatus(a, b *resourcesv1alpha1.ManagedResourceStatus) bool {
	if !slices.EqualFunc(a.Resources, b.Resources, equalReference) {
		return false
	}
	x, y := *a, *b
	x.Resources, y.Resources = nil, nil
	return semantic.DeepEqual(x, y)
}

func equalReference(a, b resourcesv1alpha1.ObjectReference) bool {
	return a.ObjectReference == b.ObjectReference && maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(a.Annotations, b.Annotations)
}

// Draft is a status that is being changed.
type Draft struct {
	*resourcesv1alpha1.ManagedResourceStatus
	now     time.Time
	reading bool // the target's events are being read, which may explain what is unhealthy
}

// Set sets a condition.
func (d *Draft) Set(t resourcesv1alpha1.ConditionType, c conditions.Condition) {
	d.Conditions = resourcesv1alpha1.SetCondition(d.now, d.Conditions, t, c.Status, c.Reason, conditions.Bound(c.Message))
}

// Say is Set with the parts of a condition.
func (d *Draft) Say(
	t resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus, reason, message string,
) {
	d.Set(t, conditions.Condition{Status: status, Reason: reason, Message: message})
}

// get returns a condition, nil if there is none.
func (d *Draft) get(t resourcesv1alpha1.ConditionType) *resourcesv1alpha1.Condition {
	return resourcesv1alpha1.GetCondition(d.Conditions, t)
}

// UnknownHealth says why nothing is known about health.
func (d *Draft) UnknownHealth(reason, message string) {
	d.Say(resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionUnknown, reason, message)
	d.Say(resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionUnknown, reason, message)
}

const (
	messageApplying      = "The resources are being applied."
	messageChecksPending = "The content changed; its checks are pending."
)

// Pending says that new content is about to be applied. A failure or a pending deletion stays visible until the run is
// over.
func (d *Draft) Pending() {
	d.UnknownHealth(resourcesv1alpha1.ReasonChecksPending, messageChecksPending)
	reason, message := resourcesv1alpha1.ReasonApplyProgressing, messageApplying
	if c := d.get(resourcesv1alpha1.ConditionResourcesApplied); c != nil {
		switch c.Reason {
		case resourcesv1alpha1.ReasonApplyFailed, resourcesv1alpha1.ReasonDeletionFailed,
			resourcesv1alpha1.ReasonDeletionPending:
			reason, message = c.Reason, c.Message
		}
	}
	d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing, reason, message)
}

// AnswersAgain replaces a condition that says that the target does not answer, when it answers again. What was said
// before is outdated, and whatever is to be done now may fail.
func (d *Draft) AnswersAgain() {
	c := d.get(resourcesv1alpha1.ConditionResourcesHealthy)
	if c != nil && c.Status == resourcesv1alpha1.ConditionUnknown && c.Reason != resourcesv1alpha1.ReasonChecksPending {
		d.UnknownHealth(resourcesv1alpha1.ReasonChecksPending, "The target cluster answers again; the checks are pending.")
	}
}

// Deleting says that the objects are being deleted. What the deletion waits for stays visible.
func (d *Draft) Deleting() {
	const message = "The resources are being deleted."
	reason, text := resourcesv1alpha1.ReasonDeletionPending, message
	d.Say(resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionFalse, reason, message)
	d.Say(resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionTrue, reason, message)
	if c := d.get(resourcesv1alpha1.ConditionResourcesApplied); c != nil && c.Reason == reason {
		text = c.Message
	}
	d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing, reason, text)
}

// Ignored says that nothing is done.
func (d *Draft) Ignored() {
	const message = "The ManagedResource is marked to be ignored."
	reason := resourcesv1alpha1.ReasonManagedResourceIgnored
	d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue, reason, message)
	d.Say(resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionTrue, reason, message)
	d.Say(resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse, reason, message)
}

// WasIgnored reports whether a condition says that the ManagedResource is ignored.
func WasIgnored(s *resourcesv1alpha1.ManagedResourceStatus) bool {
	return slices.ContainsFunc(s.Conditions, func(c resourcesv1alpha1.Condition) bool {
		return c.Reason == resourcesv1alpha1.ReasonManagedResourceIgnored &&
			(c.Type == resourcesv1alpha1.ConditionResourcesApplied || c.Type == resourcesv1alpha1.ConditionResourcesHealthy)
	})
}

// NotIgnored ends what Ignored said. What is true instead shows when the target is asked.
func (d *Draft) NotIgnored() {
	d.UnknownHealth(resourcesv1alpha1.ReasonChecksPending,
		"The ManagedResource is no longer ignored; its checks are pending.")
	d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing,
		resourcesv1alpha1.ReasonApplyProgressing, messageApplying)
}

// Unreachable says that a target cannot be asked. What was applied stays applied, as far as is known.
func (d *Draft) Unreachable(target clustercache.ClusterKey, status clustercache.Status) {
	reason := resourcesv1alpha1.ReasonTargetUnreachable
	message := fmt.Sprintf("The target cluster %s is not reachable since %s: %s",
		target, status.Since.UTC().Format(time.RFC3339), dispatch.WhyDown(status))
	if status.State == clustercache.StateRefused {
		reason = resourcesv1alpha1.ReasonTargetRefused
		if status.Reason == clustercache.ReasonIdentityChanged {
			reason = resourcesv1alpha1.ReasonIdentityChanged
		}
		message = fmt.Sprintf("The registration of the target cluster %s is not usable: %s", target, status.Message)
	}
	d.UnknownHealth(reason, message)
	// There was no target before, and now there is one. Whether anything was applied to it shows when it can be asked.
	if c := d.get(resourcesv1alpha1.ConditionResourcesApplied); c != nil &&
		(c.Reason == resourcesv1alpha1.ReasonTargetNotFound || c.Reason == resourcesv1alpha1.ReasonTargetAmbiguous) {
		d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionUnknown, reason, message)
	}
}

// contested sets the Contested condition: which writers keep changing which objects. A ManagedResource whose objects
// were never contested has none. The text names no numbers, so that it does not change with every round.
func (d *Draft) contested(by map[inventory.Key]string) {
	if len(by) == 0 {
		if d.get(resourcesv1alpha1.ConditionContested) != nil {
			d.Say(resourcesv1alpha1.ConditionContested, resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonUncontested,
				"No other client keeps changing the resources.")
		}
		return
	}
	lines := make([]string, 0, len(by))
	for _, key := range slices.SortedFunc(maps.Keys(by), inventory.Key.Compare) {
		line := fmt.Sprintf("%s is changed again and again", key)
		if by[key] != "" {
			line += " by " + by[key]
		}
		lines = append(lines, line)
	}
	d.Say(resourcesv1alpha1.ConditionContested, resourcesv1alpha1.ConditionTrue, resourcesv1alpha1.ReasonObjectsContested,
		"Corrections are slowed down: "+conditions.List(lines))
}
