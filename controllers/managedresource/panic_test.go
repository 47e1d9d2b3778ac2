package managedresource

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	clustersfake "github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/managedresource/objects"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/content"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/sharing"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// A run that panics is tried again. Events of the objects notify meanwhile, and afterwards.
func TestEventsNotifyAfterARunPanicked(t *testing.T) {
	j := judged(t)
	j.work.Class = &assignment.Class{}
	j.neighbours = &objects.Neighbours{Index: sharing.NewIndex(), Assigner: &assignment.Assigner{}}
	j.content = &content.Reader{Bundles: bundle.NewCache(1<<20, bundle.Limits{}, clock.RealClock{})}
	j.objects = &objects.Writer{Tracker: j.tracker}
	j.clusters.Add(j.work.Target, clustersfake.Target{Client: j.server})
	j.track(j.work.MR.Status.Resources...)
	j.shown()
	j.judge()
	j.work.input, _ = j.content.Input(&j.work.Subject)
	j.work.todo = []inventory.Key{inventory.KeyOf(j.work.MR.Status.Resources[0])}
	j.Expect(func() {
		_, _, _ = execute(j.ctx, j.reconciler, j.work, []phase{
			(*reconciler).read, (*reconciler).connect, (*reconciler).planObjects, (*reconciler).correct,
		})
	}).To(Panic(), "there is no applier")
	j.notifications = 0
	j.becomes(11, "False")
	j.Expect(j.notifications).To(Equal(1))
}
