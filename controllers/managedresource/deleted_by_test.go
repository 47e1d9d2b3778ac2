package managedresource

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// An object that the target itself deletes again and again comes back each time. Why it goes stands in its manifest.
func TestWhoDeletesAnObjectAgainAndAgainIsSaid(t *testing.T) {
	for name, test := range map[string]struct {
		manifest, owner, says string
		changed               bool
	}{
		"a Job with a time to live": {
			manifest: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"a","name":"b"},"spec":{"ttlSecondsAfterFinished":7}}`,
			says:     "will be deleted again by the target's TTL controller, 7 s after the Job has ended, as ttlSecondsAfterFinished of the manifest says",
		},
		"an owner that does not exist": {
			manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"b","ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"c","uid":"u"}]}}`,
			says:     "will be deleted again by the target's garbage collector, unless the owner exists that the manifest names: Secret c with UID u",
		},
		"an owner that another client set": {
			manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"b"}}`, owner: "Secret c",
			says: "it is created again. Another client had made Secret c its owner: if that does not exist, " +
				"it was the target's garbage collector",
		},
		"an unknown client": {
			manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"b"},"spec":{"ttlSecondsAfterFinished":7}}`,
			says:     "ConfigMap a/b was deleted; it is created again",
		},
		"an object that was changed": {
			manifest: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"a","name":"b"},"spec":{"ttlSecondsAfterFinished":7}}`,
			says:     "Job.batch a/b was changed", changed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var note lastNote
			obj := live("%s", test.manifest)
			d := drift{intent: apply.Intent{Object: obj, Key: inventory.KeyOfObject(obj)}, created: !test.changed, owner: test.owner}
			newRecorder(&note, testclock.NewFakePassiveClock(time.Now()), nil).corrected(&resourcesv1alpha1.ManagedResource{}, d)
			g.Expect(string(note)).To(HaveSuffix(test.says))
		})
	}
}

// To give up on a target helps if it cannot be reached, and does nothing otherwise.
func TestForcedDeletionIsAdvisedWhereItHelps(t *testing.T) {
	g := NewWithT(t)
	work := &scope{Subject: run.Subject{MR: &resourcesv1alpha1.ManagedResource{}}}
	key := clustercache.ClusterKey{Namespace: "a", Name: "b"}
	for state, helps := range map[clustercache.State]bool{
		clustercache.StateDisconnected: true, clustercache.StateRefused: true,
		clustercache.StateDraining: false, clustercache.StateConnected: false,
	} {
		advice := ContainSubstring(resourcesv1alpha1.ForceDeletionAnnotation)
		if !helps {
			advice = Not(advice)
		}
		g.Expect(waitsForTarget(work, key, clustercache.Status{State: state})).To(SatisfyAll(HavePrefix("Waiting for the target cluster"), advice), string(state))
	}
}
