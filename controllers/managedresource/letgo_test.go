package managedresource

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
)

// countedEvents counts events.
type countedEvents int

func (c *countedEvents) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) { *c++ }

// Thousands of ManagedResources come and go while a hub runs.
func TestLimitsOfEventsGoWithTheirManagedResources(t *testing.T) {
	g := NewWithT(t)
	j := judged(t)
	var written countedEvents
	figures := telemetry.NewMetrics(prometheus.NewRegistry(), false)
	j.events, j.assigner = telemetry.NewRecorder(&written, j.clock, figures), &assignment.Assigner{}
	j.work.Class, j.work.Log = &assignment.Class{}, logr.Discard()
	for range 1000 {
		j.events.Corrected(j.work.MR, telemetry.Drift{})
	}
	limit := written
	j.events.Corrected(j.work.MR, telemetry.Drift{})
	g.Expect(written).To(Equal(limit))
	_, _, err := j.letGo(j.ctx, j.work)
	g.Expect(err).NotTo(HaveOccurred())
	j.events.Corrected(j.work.MR, telemetry.Drift{})
	g.Expect(written).To(Equal(limit+1), "nothing is kept of one that is gone")
}
