package heartbeat_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	. "github.com/trellis-hub/trellis/leader/heartbeat"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(t time.Time) StuckSince { return func(time.Time) time.Time { return t } }

func TestStuckReturnsTheLoopThatIsStuckForLongest(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(start)
	loops := NewLoops(clock)
	name, _ := loops.Stuck()
	g.Expect(name).To(BeEmpty())

	loops.Add("idle", at(time.Time{}))
	loops.Add("busy", at(start.Add(time.Minute)))
	name, _ = loops.Stuck()
	g.Expect(name).To(BeEmpty(), "its deadline is to come")

	remove := loops.Add("stuck", at(start.Add(-time.Minute)))
	loops.Add("just stuck", at(start.Add(-time.Second)))
	name, duration := loops.Stuck()
	g.Expect(name).To(Equal("stuck"))
	g.Expect(duration).To(Equal(time.Minute))

	remove()
	name, _ = loops.Stuck()
	g.Expect(name).To(Equal("just stuck"))
	clock.Step(2 * time.Minute)
	_, duration = loops.Stuck()
	g.Expect(duration).To(Equal(2*time.Minute + time.Second))
}

func TestLivenessDependsOnStuckLoopsOnly(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(start)
	loops := NewLoops(clock)
	alive := loops.Alive(2 * time.Minute)
	g.Expect(alive(nil)).To(Succeed())
	remove := loops.Add("a loop", at(start))
	g.Expect(alive(nil)).To(Succeed())
	clock.Step(2 * time.Minute)
	g.Expect(alive(nil)).To(Succeed())
	clock.Step(time.Second)
	g.Expect(alive(nil)).To(MatchError(`loop "a loop" has been stuck for 2m1s`))
	remove()
	g.Expect(alive(nil)).To(Succeed(), "it heals by itself")
}
