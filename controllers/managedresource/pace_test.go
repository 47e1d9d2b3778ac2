package managedresource

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/pacing"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
)

func othersReport(j *judging, n int) (last time.Duration) {
	for i := range n {
		last = j.pace.Delay(types.NamespacedName{Namespace: "others", Name: fmt.Sprint(i)}, j.clock.Now())
	}
	return last
}

func (j *judging) vanish() {
	j.clusters.SetState(j.work.Target, clustercache.StateDisconnected, clustercache.ReasonUnreachable, "")
}

// That targets are away is written at a rate: a source that is busy with thousands of ManagedResources would be slow
// for the others. That one is back is written at once.
func TestLossOfManyTargetsIsReportedAtARate(t *testing.T) {
	j := judged(t)
	j.shown()
	j.Expect(j.look()).To(BeNumerically(">", time.Minute))
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))
	before := j.writes

	few := pacing.Burst(status.OutagesPerSecond)
	j.Expect(othersReport(j, few)).To(BeZero(), "a few targets are reported at once")
	j.Expect(othersReport(j, few+3*status.OutagesPerSecond)).To(
		BeNumerically("~", 3*time.Second, time.Second/status.OutagesPerSecond))
	j.vanish()
	wait := j.look()
	j.Expect(wait).To(BeNumerically(">", 3*time.Second))
	j.Expect(j.writes).To(Equal(before))
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))
	j.Expect(j.look()).To(Equal(wait), "another look waits no longer")
	j.clock.Step(wait)
	j.Expect(j.look()).To(BeZero())
	j.Expect(j.writes).To(Equal(before + 1))
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HavePrefix("Unknown TargetUnreachable"))

	othersReport(j, 10*status.OutagesPerSecond)
	j.clusters.SetState(j.work.Target, clustercache.StateConnected, "", "")
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))
	j.vanish()
	j.Expect(j.look()).To(BeNumerically(">", time.Second), "its time is used once")
}

// That a target cannot be watched is written to each of its ManagedResources. What is wrong with an object is written
// at once meanwhile.
func TestManyTargetsThatCannotBeWatchedAreReportedAtARate(t *testing.T) {
	j := judged(t)
	j.shown()
	j.look()
	before := j.writes
	othersReport(j, pacing.Burst(status.OutagesPerSecond)+3*status.OutagesPerSecond)
	j.clusters.Fail(j.work.Target, "ConfigMap.v1", errors.New("forbidden"))
	wait := j.look()
	j.Expect(wait).To(BeNumerically(">", 3*time.Second))
	j.Expect(j.look()).To(Equal(wait), "another look waits no longer")
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))
	j.clusters.Sync(j.work.Target, "ConfigMap.v1", true)
	j.look()
	j.Expect(j.writes).To(Equal(before), "there is nothing left to report")

	j.clock.Step(time.Second)
	j.clusters.Fail(j.work.Target, "ConfigMap.v1", errors.New("forbidden"))
	j.Expect(j.look()).To(Equal(wait-time.Second), "one that comes back in between keeps its time")
	j.Expect(j.writes).To(Equal(before))
	j.clock.Step(wait - time.Second)
	j.look()
	j.Expect(j.writes).To(Equal(before + 1))
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HavePrefix("False HealthCheckError"))
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesProgressing)).To(HavePrefix("Unknown HealthCheckError"))

	j.clock.Step(run.DebounceText)
	j.clusters.Sync(j.work.Target, "ConfigMap.v1", true)
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))
	othersReport(j, 10*status.OutagesPerSecond)
	j.clock.Step(run.DebounceText)
	j.clusters.Fail(j.work.Target, "ConfigMap.v1", errors.New("forbidden"))
	j.Expect(j.look()).To(BeNumerically(">", time.Second), "its time is used once")
	j.clusters.Put(j.work.Target, "Deployment.v1.apps", j.deployment("11", "False"))
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HavePrefix("False DeploymentUnhealthy"))
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesProgressing)).To(HavePrefix("Unknown HealthCheckError"))
}

// A ManagedResource that is changed while thousands wait reports at once that its target is away.
func TestUsersDoNotWaitForReportsOfOutages(t *testing.T) {
	j := judged(t)
	othersReport(j, 10*status.OutagesPerSecond)
	j.vanish()
	j.work.MR.Generation++
	j.Expect(j.look()).To(BeZero())
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HavePrefix("Unknown TargetUnreachable"))
}

func TestOneThatIsGoneIsForgottenByThePacer(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(1e9, 0)
	pace := pacing.New(status.OutagesPerSecond)
	w := status.NewWriter(nil, nil, pace)
	name := types.NamespacedName{Name: "gone"}
	for i := range 2 * status.OutagesPerSecond {
		pace.Delay(types.NamespacedName{Name: fmt.Sprint(i)}, now)
	}
	wait := pace.Delay(name, now)
	g.Expect(pace.Delay(name, now)).To(Equal(wait))
	w.Forget(name)
	g.Expect(pace.Delay(name, now)).To(BeNumerically(">", wait), "it waits again")
}
