package managedresource

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
)

// restarting is such a reconciler, with a target that is connected since a time.
type restarting struct {
	*judging
	since time.Time
}

// restarted is a reconciler that knows nothing but what its predecessor noted: all was applied, and was as it is now.
func restarted(t *testing.T) *restarting {
	t.Helper()
	j := judged(t)
	j.shown()
	states, complete := j.tracker.AcceptedStates(j.work.Name)
	j.Expect(complete).To(BeTrue())
	j.work.Class = &assignment.Class{Finalizer: "trellis"}
	j.work.MR.Finalizers = []string{"trellis"}
	j.work.MR.Annotations[hubv1alpha1.AppliedAnnotation] = status.Applied{Input: appliedInput,
		Fingerprint: tracker.Fingerprint(states)}.String()
	j.Expect(j.server.Update(j.ctx, j.work.MR)).To(Succeed())
	refs := j.work.MR.Status.Resources
	j.tracker.Forget(j.work.Name)
	j.work.State.Forget()
	j.track(refs...)
	for name := range j.clusters.Watches(j.work.Target) {
		j.clusters.Sync(j.work.Target, name, false)
	}
	return &restarting{judging: j, since: j.clock.Now()}
}

// start is a look at it. done is false if it is to be applied.
func (j *restarting) start() (done bool, next time.Duration) {
	j.t.Helper()
	j.work.targetStatus, _ = j.clusters.GetStatus(j.work.Target)
	j.work.targetStatus.Since = j.since
	j.work.input, j.work.current = appliedInput, true
	done, result, err := j.compare(j.ctx, j.work)
	j.Expect(err).NotTo(HaveOccurred())
	return done, result.RequeueAfter
}

func (j *restarting) expectWait(left time.Duration) {
	j.t.Helper()
	done, next := j.start()
	j.Expect(done).To(BeTrue(), "nothing is written")
	j.Expect(next).To(Equal(left))
}

// A thousand targets list for minutes after a start. What was applied before is not applied again for that.
func TestStartWaitsForListsThatTakeLong(t *testing.T) {
	j := restarted(t)
	j.expectWait(status.SyncGrace)
	j.clock.Step(5 * time.Second)
	j.expectWait(status.SyncGrace - 5*time.Second)
	for range 4 {
		j.clock.Step(status.SyncGrace)
		j.expectWait(status.SyncGrace)
	}
	j.shown()
	done, _ := j.start()
	j.Expect(done).To(BeTrue())
	_, complete := j.tracker.AcceptedStates(j.work.Name)
	j.Expect(complete).To(BeTrue(), "it is known to be as it was noted")
}

// After a while it is said what is waited for, and it is waited for all the same.
func TestStartSaysWhatIsNotListed(t *testing.T) {
	j := restarted(t)
	j.clusters.Put(j.work.Target, "Deployment.v1.apps", j.deployment("10", "True"))
	j.clusters.Sync(j.work.Target, "Deployment.v1.apps", true)
	j.expectWait(status.SyncGrace)
	for said := time.Duration(0); said < startGrace; said += status.SyncGrace {
		j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(BeEmpty())
		j.clock.Step(status.SyncGrace)
		j.expectWait(status.SyncGrace)
	}
	j.clock.Step(status.SyncGrace)
	j.expectWait(status.SyncGrace)
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HavePrefix("Unknown ChecksPending: ConfigMap: the target has not listed its objects yet."))
}

func TestStartDoesNotWait(t *testing.T) {
	for name, happens := range map[string]func(*restarting){
		"for ever": func(j *restarting) { j.clock.Step(listGrace) },
		"for a watch that fails, which will not list soon": func(j *restarting) {
			j.clusters.Fail(j.work.Target, "ConfigMap.v1", errors.New("forbidden"))
		},
		"for other kinds if something was deleted meanwhile": func(j *restarting) {
			j.clusters.Delete(j.work.Target, "ConfigMap.v1", types.NamespacedName{Namespace: "c", Name: "d"})
			j.clusters.Sync(j.work.Target, "ConfigMap.v1", true)
			j.clock.Step(status.SyncGrace)
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := restarted(t)
			j.expectWait(status.SyncGrace)
			happens(j)
			done, _ := j.start()
			j.Expect(done).To(BeFalse(), "it is applied")
		})
	}
}

// A target that was away lists from when it is back.
func TestStartWaitsFromWhenTheTargetIsConnected(t *testing.T) {
	j := restarted(t)
	j.expectWait(status.SyncGrace)
	j.clock.Step(listGrace)
	j.since = j.clock.Now()
	j.expectWait(status.SyncGrace)
	j.clock.Step(listGrace)
	done, _ := j.start()
	j.Expect(done).To(BeFalse())
}
