package managedresource

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
)

// settled is judging with everything well, written a while ago.
func settled(t *testing.T) *judging {
	t.Helper()
	j := judged(t)
	j.shown()
	j.look()
	j.clock.Step(time.Minute)
	j.writes = 0
	return j
}

// becomes has the Deployment change.
func (j *judging) becomes(version int, available string, says ...string) {
	j.clusters.Put(j.work.Target, "Deployment.v1.apps", j.deployment(fmt.Sprint(version), available, says...))
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	j := settled(t)
	for range 10 {
		j.look()
		j.clock.Step(time.Minute)
	}
	j.becomes(11, "True")
	j.becomes(12, "True", "still")
	j.look()
	j.Expect(j.writes).To(BeZero())
}

func TestFirstChangeIsReportedAtOnce(t *testing.T) {
	j := settled(t)
	j.becomes(11, "False", "1 of 2")
	j.Expect(j.look()).To(BeNumerically(">", time.Minute), "nothing is left to write")
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HavePrefix("False DeploymentUnhealthy: "))
	j.Expect(j.says(resourcesv1alpha1.ConditionReady)).To(HavePrefix("False DeploymentUnhealthy: "))
	j.Expect(j.writes).To(Equal(1))
}

// In a roll-out the counts change with every pod. Each text that lasts is written, the last one always.
func TestTextsThatFollowEachOtherAreReportedTogether(t *testing.T) {
	j := settled(t)
	j.becomes(11, "False", "0 pods")
	j.look()
	const step = 50 * time.Millisecond
	version, elapsed := 12, time.Duration(0)
	for range 100 {
		j.clock.Step(step)
		elapsed += step
		j.becomes(version, "False", fmt.Sprintf("%d pods", version))
		version++
		if wait := j.look(); wait < time.Minute {
			j.Expect(wait).To(BeNumerically("<=", run.DebounceText))
		}
	}
	j.Expect(j.writes).To(Equal(1 + int(elapsed/run.DebounceText)))

	j.clock.Step(step)
	j.becomes(version, "False", "the last word")
	wait := j.look()
	j.Expect(wait).To(And(BeNumerically(">", 0), BeNumerically("<=", run.DebounceText)), "the next look is in time")
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).NotTo(ContainSubstring("the last word"))
	j.clock.Step(wait)
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(ContainSubstring("the last word"))
	j.Expect(j.work.MR.Status.Conditions).To(Equal(j.read().Status.Conditions), "the next run begins with what is written")
}

func TestNewStatusIsReportedSoonerThanAText(t *testing.T) {
	j := settled(t)
	j.becomes(11, "False")
	j.look()
	j.becomes(12, "True")
	j.Expect(j.look()).To(Equal(run.DebounceStatus))
	j.clock.Step(run.DebounceStatus)
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))
	j.Expect(j.writes).To(Equal(2))
}

// What keeps changing is written less and less often, but its last state always is.
func TestFlappingObjectCausesFewWrites(t *testing.T) {
	j := settled(t)
	const step = 20 * time.Millisecond
	version := 11
	flaps := func(elapsed time.Duration) (writes int) {
		before := j.writes
		for range int(elapsed / step) {
			j.becomes(version, map[bool]string{true: "True", false: "False"}[version%2 == 0], fmt.Sprint(version))
			version++
			j.Expect(j.look()).To(Or(BeNumerically("<=", run.DebounceMost), BeNumerically(">", time.Minute)))
			j.clock.Step(step)
		}
		return j.writes - before
	}
	j.Expect(flaps(run.DebounceFree*run.DebounceStatus)).To(
		BeNumerically("~", run.DebounceFree, 1), "any roll-out turns some times")
	j.Expect(flaps(time.Minute)).To(BeNumerically("<=", 11))
	j.Expect(flaps(5 * time.Minute)).To(And(BeNumerically(">=", 25), BeNumerically("<=", 31)))

	j.becomes(version, "True")
	version++
	if wait := j.look(); wait <= run.DebounceMost {
		j.clock.Step(wait)
		j.look()
	}
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))

	j.clock.Step(run.DebounceQuiet / 2)
	j.Expect(flaps(10*time.Second)).To(BeNumerically("<=", 2), "it was quiet for a moment")
	j.clock.Step(run.DebounceQuiet)
	j.look()
	j.clock.Step(run.DebounceQuiet)
	j.Expect(flaps(run.DebounceFree*run.DebounceStatus)).To(
		BeNumerically("~", run.DebounceFree, 1), "it was quiet for long")
	j.Expect(flaps(20 * time.Second)).To(BeNumerically("<=", 6))
	j.work.State.AppliedAll(j.clock.Now())
	j.Expect(flaps(run.DebounceFree*run.DebounceStatus)).To(
		BeNumerically(">=", run.DebounceFree-1), "what was applied again is another matter")
}

// What came back to what is written needs no write, whatever it was meanwhile.
func TestChangeThatIsOverIsNotReported(t *testing.T) {
	j := settled(t)
	j.becomes(11, "False")
	j.look()
	j.becomes(12, "True")
	j.look()
	j.becomes(13, "False")
	j.Expect(j.look()).To(BeNumerically(">", time.Minute))
	j.Expect(j.writes).To(Equal(1))
}

// What belongs to an apply, or says that the target is away, waits for nothing.
func TestOtherWritesAreNotDelayed(t *testing.T) {
	j := settled(t)
	j.becomes(11, "False")
	j.look()
	j.Expect(j.setApplied(resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonApplyFailed, "x")).To(Succeed())
	j.Expect(j.writes).To(Equal(2))

	j.judge()
	_, err := j.health.evaluateApplied(j.ctx, j.work) // as after a correction that mended it
	j.Expect(err).NotTo(HaveOccurred())
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesApplied)).To(HavePrefix("True ApplySucceeded"))
	j.Expect(j.writes).To(Equal(3))

	j.clusters.SetState(j.work.Target, "Disconnected", "Unreachable", "")
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionReady)).To(HavePrefix("Unknown TargetUnreachable"))
	j.Expect(j.writes).To(Equal(4))
}
