package tracker_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

const jobs = "Job.v1.batch"

var jobKey = inventory.Key{Group: "batch", Kind: "Job", Namespace: "default", Name: "setup"}

func jobRefs() []resourcesv1alpha1.ObjectReference {
	r := ref("Job", jobKey.Namespace, jobKey.Name)
	r.APIVersion, r.UID = "batch/v1", "uid"
	return []resourcesv1alpha1.ObjectReference{r}
}

// job is a live one with a time to live, and a condition.
func job(uid, version, condition string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, `{apiVersion: batch/v1, kind: Job, metadata: {namespace: default, name: setup, uid: %s, resourceVersion: %q},
spec: {ttlSecondsAfterFinished: 0}, status: {conditions: [{type: %s, status: 'True'}]}}`, uid, version, condition), &obj.Object); err != nil {
		panic(err) // a faulty test
	}
	return obj
}

// withJob has a Job of a ManagedResource accepted.
func withJob(t *testing.T) (*WithT, *setup) {
	t.Helper()
	g, s := NewWithT(t), newSetup()
	g.Expect(s.Track(t.Context(), mr1, cluster, jobRefs(), tracker.Exact{})).To(Succeed())
	s.clusters.Put(cluster, jobs, job("uid", "10", "Suspended"))
	s.clusters.Sync(cluster, jobs, true)
	s.Accept(mr1, jobKey, acceptedJob("10"))
	s.causes()
	return g, s
}

func acceptedJob(version string) tracker.Accepted {
	return tracker.Accepted{UID: "uid", ResourceVersion: version, Intent: 7}
}

func TestJobThatIsGoneIsDoneIfItSucceeded(t *testing.T) {
	for condition, done := range map[string]bool{"Complete": true, "Failed": false, "Suspended": false} {
		t.Run(condition, func(t *testing.T) {
			g, s := withJob(t)
			s.clusters.Put(cluster, jobs, job("uid", "11", condition))
			s.causes()
			s.clusters.Delete(cluster, jobs, jobKey.NamespacedName())
			v := s.Judge(mr1)
			g.Expect(s.TakeDone(mr1)).To(Equal(done))
			g.Expect(s.TakeDone(mr1)).To(BeFalse())
			if !done {
				g.Expect(s.causes()).To(ConsistOf(tracker.CauseDrift))
				g.Expect(v.Missing).To(ConsistOf(jobKey))
				return
			}
			g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth), "there is something to note")
			g.Expect(v).To(SatisfyAll(HaveField("Missing", BeEmpty()), HaveField("Unseen", 0), HaveField("Believed", ConsistOf(jobKey)), HaveField("Done", ConsistOf(jobKey))))
			s.Begin(mr1)
			s.End(mr1)
			states, complete := s.AcceptedStates(mr1)
			g.Expect(complete).To(BeTrue())
			g.Expect(states[jobKey]).To(SatisfyAll(HaveField("Done", true), HaveField("Intent", uint64(7))))
			g.Expect(tracker.Fingerprint(states)).To(Equal(tracker.Fingerprint(nil)), "as a hub finds that starts now")
			g.Expect(s.Settled(mr1)).To(BeTrue())
		})
	}
}

// One with a short time to live may be gone before the answer to its creation was dealt with.
func TestJobMayBeDoneBeforeItIsAccepted(t *testing.T) {
	g, s := withJob(t)
	s.clusters.Delete(cluster, jobs, jobKey.NamespacedName())
	s.Begin(mr1)
	s.clusters.Put(cluster, jobs, job("uid-2", "20", "Suspended"))
	s.clusters.Put(cluster, jobs, job("uid-2", "21", "Complete"))
	s.clusters.Delete(cluster, jobs, jobKey.NamespacedName())
	s.Accept(mr1, jobKey, tracker.Accepted{UID: "uid-2", ResourceVersion: "20"})
	s.End(mr1)
	g.Expect(s.Judge(mr1)).To(SatisfyAll(HaveField("Missing", BeEmpty()), HaveField("Unseen", 0), HaveField("Done", ConsistOf(jobKey))))

	// The next one, of another manifest, is another one.
	s.Begin(mr1)
	s.Accept(mr1, jobKey, tracker.Accepted{UID: "uid-3", ResourceVersion: "30"})
	s.End(mr1)
	g.Expect(s.Judge(mr1)).To(SatisfyAll(HaveField("Done", BeEmpty()), HaveField("Unseen", 1)))
	s.clusters.Put(cluster, jobs, job("uid-3", "30", "Suspended"))
	s.clusters.Delete(cluster, jobs, jobKey.NamespacedName())
	g.Expect(s.Judge(mr1).Missing).To(ConsistOf(jobKey))
}

func TestJobIsDoneAfterARestartIfAFoldSaysSo(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	g.Expect(s.Track(t.Context(), mr1, cluster, jobRefs(), tracker.Exact{})).To(Succeed())
	s.clusters.Sync(cluster, jobs, true)
	g.Expect(s.Judge(mr1).Missing).To(ConsistOf(jobKey))
	s.AcceptDone(mr1, []inventory.Key{jobKey, key}, jobRefs())
	g.Expect(s.Known(mr1)).To(BeTrue())
	g.Expect(s.Judge(mr1)).To(SatisfyAll(HaveField("Missing", BeEmpty()), HaveField("Done", ConsistOf(jobKey))))
	g.Expect(s.TakeDone(mr1)).To(BeFalse())
}

// After etcd of a target was restored, the same Job runs once more, and may fail this time.
func TestJobThatShowsAgainIsNotDone(t *testing.T) {
	for name, version := range map[string]string{"as it was accepted": "10", "as it was before": "9"} {
		t.Run(name, func(t *testing.T) {
			g, s := withJob(t)
			s.Accept(mr1, jobKey, tracker.Accepted{UID: "uid", ResourceVersion: "10", State: ownership.Observe(job("uid", "10", "Suspended"), "trellis")})
			s.clusters.Put(cluster, jobs, job("uid", "11", "Complete"))
			s.clusters.Delete(cluster, jobs, jobKey.NamespacedName())
			g.Expect(s.Judge(mr1).Done).To(ConsistOf(jobKey))
			g.Expect(s.TakeDone(mr1)).To(BeTrue())
			s.causes()

			s.clusters.Put(cluster, jobs, job("uid", version, "Suspended"))
			g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth), "it counts again")
			g.Expect(s.TakeDone(mr1)).To(BeTrue(), "the note that it is done is wrong")
			g.Expect(s.Judge(mr1)).To(SatisfyAll(HaveField("Missing", BeEmpty()), HaveField("Done", BeEmpty())))
			states, _ := s.AcceptedStates(mr1)
			g.Expect(states[jobKey].Done).To(BeFalse())

			s.clusters.Put(cluster, jobs, job("uid", "21", "Failed"))
			s.causes()
			s.clusters.Delete(cluster, jobs, jobKey.NamespacedName())
			g.Expect(s.causes()).To(ConsistOf(tracker.CauseDrift))
			g.Expect(s.TakeDone(mr1)).To(BeFalse())
			g.Expect(s.Judge(mr1)).To(SatisfyAll(HaveField("Missing", ConsistOf(jobKey)), HaveField("Done", BeEmpty())))
		})
	}
}

func TestUnlearnedJobIsNotDone(t *testing.T) {
	g, s := withJob(t)
	s.clusters.Put(cluster, jobs, job("uid", "11", "Complete"))
	s.clusters.Delete(cluster, jobs, jobKey.NamespacedName())
	g.Expect(s.Judge(mr1).Done).To(ConsistOf(jobKey))
	s.Unlearn(mr1)
	g.Expect(s.TakeDone(mr1)).To(BeFalse())
	g.Expect(s.Judge(mr1)).To(SatisfyAll(HaveField("Missing", ConsistOf(jobKey)), HaveField("Done", BeEmpty())))
}
