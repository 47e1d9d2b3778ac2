package targetcluster

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

func turnOf(i int) clustercache.ClusterKey {
	return clustercache.ClusterKey{Namespace: "fleet", Name: fmt.Sprint(i)}
}

func TestManyTargetsTakeTurnsToWrite(t *testing.T) {
	g := NewWithT(t)
	const perSecond, targets = 50, 300
	turns := newTurns(perSecond)
	written := map[int]bool{}
	for second := range targets/perSecond + 1 {
		at := now.Add(time.Duration(second) * time.Second)
		before := len(written)
		for i := range targets {
			if !written[i] && turns.wait(turnOf(i), at) == 0 {
				written[i] = true
				turns.used(turnOf(i), at)
			}
		}
		g.Expect(len(written)-before).To(BeNumerically("<=", perSecond), "in second %d", second)
	}
	g.Expect(written).To(HaveLen(targets))
	g.Expect(turns.when).To(BeEmpty())
}

func TestTurnsThatAreNotUsed(t *testing.T) {
	g := NewWithT(t)
	turns := newTurns(1)
	a, b := turnOf(1), turnOf(2)
	g.Expect(turns.wait(a, now)).To(BeZero())
	g.Expect(turns.wait(b, now)).To(Equal(time.Second))
	for i := range 100 { // it comes and goes meanwhile
		g.Expect(turns.wait(b, now.Add(time.Duration(i)*time.Millisecond))).To(BeNumerically("<=", time.Second))
	}
	g.Expect(turns.wait(turnOf(3), now)).To(Equal(2*time.Second), "each has one place in the line")
	g.Expect(turns.wait(b, now.Add(time.Second+turnKept))).To(BeZero(), "a write that failed is tried again")
	g.Expect(turns.wait(a, now.Add(time.Second+turnKept))).To(BeZero(), "that one is over, and the line is empty")
	g.Expect(turns.wait(b, now.Add(1500*time.Millisecond+turnKept))).To(Equal(500*time.Millisecond), "so is this, and somebody was there")
}

// A look takes the time before it writes, and who has written is late.
func TestTurnsOfThoseWhoAreLate(t *testing.T) {
	g := NewWithT(t)
	const perSecond = 10
	turns := newTurns(perSecond)
	places := map[time.Time]int{}
	for i := range 200 {
		at := now.Add(time.Duration(i) * time.Millisecond)
		if i%2 == 1 {
			at = at.Add(-500 * time.Millisecond)
		}
		places[at.Add(turns.wait(turnOf(i), at)).Truncate(time.Second)]++
	}
	g.Expect(places).To(HaveLen(19), "no place is given twice")
	for second, n := range places {
		g.Expect(n).To(BeNumerically("<=", 2*perSecond), "in %s", second)
	}
}

func TestPlaceInTheLineIsKeptWhenSomethingElseIsWritten(t *testing.T) {
	g := NewWithT(t)
	turns := newTurns(1)
	for i := range 10 {
		turns.wait(turnOf(i), now)
	}
	last := turnOf(9)
	for second := range 9 {
		at := now.Add(time.Duration(second) * time.Second)
		turns.used(last, at)
		g.Expect(turns.wait(last, at)).To(Equal(time.Duration(9-second) * time.Second))
	}
	turns.used(last, now.Add(9*time.Second))
	g.Expect(turns.when).NotTo(HaveKey(last))
	turns.wait(last, now)
	turns.forget(last)
	g.Expect(turns.when).NotTo(HaveKey(last))
}

func TestNewsOfTargetsWaitForTheirKind(t *testing.T) {
	healthyStatus := hubv1alpha1.TargetClusterStatus{Conditions: conditionsFor(nil, 1, healthy())}
	gone := *healthyStatus.DeepCopy()
	setCondition(&gone, hubv1alpha1.ConditionConnected, metav1.ConditionFalse, hubv1alpha1.ReasonUnreachable)
	slower := *healthyStatus.DeepCopy()
	slower.RoundTripMilliseconds++
	sick := *healthyStatus.DeepCopy()
	setCondition(&sick, "SystemComponentsHealthy", metav1.ConditionFalse, "ManagedResourcesUnhealthy")
	wasFine := *healthyStatus.DeepCopy()
	setCondition(&wasFine, "SystemComponentsHealthy", metav1.ConditionTrue, "ManagedResourcesHealthy")
	tests := map[string]struct {
		before, after        hubv1alpha1.TargetClusterStatus
		noDetails, noChanges bool // the line is long
		waits                bool
	}{
		"one that goes": {before: healthyStatus, after: gone},
		"one that goes, behind details of others":        {before: healthyStatus, after: gone, noDetails: true},
		"components that fail, behind details of others": {before: wasFine, after: sick, noDetails: true},
		"one that goes with many":                        {before: healthyStatus, after: gone, noChanges: true, waits: true},
		"one that is back":                               {before: gone, after: healthyStatus, noDetails: true, noChanges: true},
		"a new one":                                      {after: gone, noDetails: true, noChanges: true},
		"details":                                        {before: healthyStatus, after: slower},
		"details behind those of others":                 {before: healthyStatus, after: slower, noDetails: true, waits: true},
		"details while many go":                          {before: healthyStatus, after: slower, noChanges: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := &reconciler{Options: Options{SyncPeriod: 30 * time.Second}, changes: newTurns(turnsOfChanges), details: newTurns(turnsOfDetails)}
			if test.noChanges {
				g.Expect(r.changes.pace.AllowN(now, turnsOfChanges)).To(BeTrue())
			}
			if test.noDetails {
				g.Expect(r.details.pace.AllowN(now, turnsOfDetails)).To(BeTrue())
			}
			wait := r.turn(turnOf(1), test.before, test.after, now)
			if test.waits {
				g.Expect(wait).To(BeNumerically(">", 0))
			} else {
				g.Expect(wait).To(BeZero())
			}
		})
	}
}
