package managedresource

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

func othersInTheCrowd(j *judging, n int) (last time.Duration) {
	for i := range n {
		last = j.memory.turn(types.NamespacedName{Namespace: "others", Name: fmt.Sprint(i)}, j.clock.Now())
	}
	return last
}

func (j *judging) vanish() {
	j.clusters.SetState(j.work.target, clustercache.StateDisconnected, clustercache.ReasonUnreachable, "")
}

// That targets went is told in turns: a source that is busy with thousands of ManagedResources would be slow for the others. That one is
// back is told at once.
func TestThatManyTargetsWentIsToldInTurns(t *testing.T) {
	j := judged(t)
	j.shown()
	j.Expect(j.look()).To(BeNumerically(">", time.Minute))
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))
	before := j.writes

	j.Expect(othersInTheCrowd(j, crowdBurst)).To(BeZero(), "a few targets are told at once")
	j.Expect(othersInTheCrowd(j, crowdBurst+3*crowdPace)).To(BeNumerically("~", 3*time.Second, time.Second/crowdPace))
	j.vanish()
	wait := j.look()
	j.Expect(wait).To(BeNumerically(">", 3*time.Second))
	j.Expect(j.writes).To(Equal(before))
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))
	j.Expect(j.look()).To(Equal(wait), "another look takes no other turn")
	j.clock.Step(wait)
	j.Expect(j.look()).To(BeZero())
	j.Expect(j.writes).To(Equal(before + 1))
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HavePrefix("Unknown TargetUnreachable"))

	othersInTheCrowd(j, 10*crowdPace)
	j.clusters.SetState(j.work.target, clustercache.StateConnected, "", "")
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))
	j.vanish()
	j.Expect(j.look()).To(BeNumerically(">", time.Second), "a turn is used once")
}

// A write that the source does not take keeps its turn.
func TestATurnIsKeptUntilItIsUsed(t *testing.T) {
	g := NewWithT(t)
	m, name, now := newMemory(), types.NamespacedName{Name: "a"}, time.Unix(1e9, 0)
	others := func() {
		for i := range 10 * crowdPace {
			m.turn(types.NamespacedName{Name: fmt.Sprint(i)}, now)
		}
	}
	others()
	wait := m.turn(name, now)
	g.Expect(wait).To(BeNumerically(">", 8*time.Second))
	now = now.Add(wait)
	for range 3 {
		g.Expect(m.turn(name, now)).To(BeZero())
		now = now.Add(crowdKept / 3)
	}
	m.told(name)
	others()
	g.Expect(m.turn(name, now)).To(BeNumerically(">", time.Second))
}

// Whoever changes a ManagedResource while thousands wait is told at once that its target is away.
func TestUsersDoNotWaitForTheCrowd(t *testing.T) {
	j := judged(t)
	othersInTheCrowd(j, 10*crowdPace)
	j.vanish()
	j.work.mr.Generation++
	j.Expect(j.look()).To(BeZero())
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HavePrefix("Unknown TargetUnreachable"))
}

// A target that comes and goes does not make the crowd longer, and those that wait are forgotten with the rest.
func TestTargetsThatFlapTakeOneTurn(t *testing.T) {
	g := NewWithT(t)
	m, now := newMemory(), time.Unix(1e9, 0)
	first := make([]time.Duration, 20*crowdBurst)
	each := func(f func(i int, wait time.Duration)) {
		for i := range first {
			f(i, m.turn(types.NamespacedName{Name: fmt.Sprint(i)}, now))
		}
	}
	each(func(i int, wait time.Duration) { first[i] = wait })
	g.Expect(first[len(first)-1]).To(BeNumerically("~", 19*time.Second, time.Second))
	for range 100 {
		each(func(i int, wait time.Duration) {
			if i > 2*crowdBurst {
				g.Expect(wait).To(Equal(first[i]))
			}
		})
	}
	now = now.Add(first[len(first)-1] + crowdKept + time.Hour)
	g.Expect(m.turn(types.NamespacedName{Name: "another"}, now)).To(BeZero())
}
