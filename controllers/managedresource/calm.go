package managedresource

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/notes"
)

// Pauses between writes that are about health alone. In a roll-out the counts change with every pod, and an object may flap:
// the first change is told at once, and what comes within the pause together. A condition that turns waits less than one
// that only has another text. One that keeps turning waits twice as long each time, after a few turns that belong to any
// roll-out, until it was quiet for a while or everything was applied again.
const (
	calmTurn  = 250 * time.Millisecond
	calmText  = time.Second
	calmMost  = 10 * time.Second
	calmFree  = 5
	calmQuiet = time.Minute
)

// updateHealth is updateStatus for changes that nothing but the target's own events brought. wait is when to try again if it
// is too soon to write; nothing is written then, and nothing is lost: the next look finds what there is to say.
func (r *reconciler) updateHealth(ctx context.Context, work *run, change func(*resourcesv1alpha1.ManagedResourceStatus)) (wait time.Duration, err error) {
	base := r.changeStatus(work, change)
	pause, turn := time.Duration(0), false
	switch before, after := &base.Status, &work.mr.Status; {
	case equalStatus(before, after):
		return 0, nil
	case !equalStatus(withoutHealth(before), withoutHealth(after)): // there is more to it
	case turned(before, after):
		pause, turn = calmTurn, true
	default:
		pause = calmText
	}
	if pause == calmText && work.reading { // a moment later there is more to say, and maybe only what was said before
		work.mr = base
		return notes.Deadline, nil
	}
	blind := pause > 0 && blinded(&base.Status, &work.mr.Status)
	if blind {
		wait = r.memory.crowd.Wait(work.name, r.clock.Now())
	}
	if wait == 0 {
		wait = r.memory.calm(work.name, pause, turn, r.clock.Now())
	}
	if wait > 0 {
		work.mr = base
		return wait, nil
	}
	if blind {
		return 0, r.useTurn(ctx, base, work)
	}
	return 0, r.source.Patch(ctx, base, work.mr, true)
}

// calm returns how long to wait until the last write about health is a pause ago, which is longer while conditions keep turning.
// If it is, another one is written now. A change that is no pause worth waits for nothing.
func (m *memory) calm(name types.NamespacedName, pause time.Duration, turn bool, now time.Time) (wait time.Duration) {
	m.with(name, func(e *remembered) {
		if now.Sub(e.turnedAt) >= calmQuiet {
			e.turns = 0
		}
		if turn {
			e.turnedAt = now
		}
		if over := e.turns - calmFree; pause > 0 && over >= 0 {
			pause = max(pause, doubled(2*calmTurn, calmMost, over))
		}
		if wait = e.healthAt.Add(pause).Sub(now); wait > 0 {
			return
		}
		if e.turnedAt.After(e.healthAt) { // whether or not it is back by now
			e.turns++
		}
		wait, e.healthAt = 0, now
	})
	return wait
}

// aboutHealth are the conditions that change with what the target does on its own.
var aboutHealth = []resourcesv1alpha1.ConditionType{
	resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionReady,
}

// withoutHealth is a status without the conditions about health.
func withoutHealth(s *resourcesv1alpha1.ManagedResourceStatus) *resourcesv1alpha1.ManagedResourceStatus {
	rest := *s
	rest.Conditions = nil
	for _, c := range s.Conditions {
		if !isAboutHealth(c.Type) {
			rest.Conditions = append(rest.Conditions, c)
		}
	}
	return &rest
}

func isAboutHealth(t resourcesv1alpha1.ConditionType) bool { return slices.Contains(aboutHealth, t) }

// blinded tells whether all that is new is that the target cannot be watched, which all its ManagedResources find out at once.
func blinded(before, after *resourcesv1alpha1.ManagedResourceStatus) (blind bool) {
	for _, t := range []resourcesv1alpha1.ConditionType{resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionResourcesProgressing} {
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

// turned tells whether some condition about health has another status.
func turned(before, after *resourcesv1alpha1.ManagedResourceStatus) bool {
	for _, t := range aboutHealth {
		a, b := resourcesv1alpha1.GetCondition(before.Conditions, t), resourcesv1alpha1.GetCondition(after.Conditions, t)
		if (a == nil) != (b == nil) || a != nil && a.Status != b.Status {
			return true
		}
	}
	return false
}
