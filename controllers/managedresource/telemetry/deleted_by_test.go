package telemetry

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testclock "k8s.io/utils/clock/testing"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
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
			obj := &unstructured.Unstructured{}
			g.Expect(obj.UnmarshalJSON([]byte(test.manifest))).To(Succeed())
			intent := apply.Intent{Object: obj, Key: inventory.KeyOfObject(obj)}
			d := Drift{Intent: intent, Created: !test.changed, Owner: test.owner}
			NewRecorder(&note, testclock.NewFakePassiveClock(time.Now()), nil).Corrected(&resourcesv1alpha1.ManagedResource{}, d)
			g.Expect(string(note)).To(HaveSuffix(test.says))
		})
	}
}
