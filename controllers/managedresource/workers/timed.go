package workers

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/metrics"
)

// timed measures the runs of a class.
type timed struct {
	supervisor *supervisor
	class      *telemetry.ClassMetrics
	clock      clock.PassiveClock
	log        logr.Logger
}

// slowRun is the duration from which on a run is logged: metrics show only that there was one.
const slowRun = time.Minute

// Reconcile implements reconcile.TypedReconciler.
func (t timed) Reconcile(ctx context.Context, req dispatch.Request) (reconcile.Result, error) {
	began := t.clock.Now()
	result, err := t.supervisor.Reconcile(ctx, req, t.class)
	observer := t.class.Run
	if err != nil {
		observer = t.class.RunFailed
	}
	took := t.clock.Since(began)
	observer.Observe(took.Seconds())
	if took > slowRun {
		t.log.Info("A run took long", "class", t.class.Label, "target", metrics.TargetName(req.Target),
			"managedResource", req.String(), "duration", took)
	}
	return result, err
}
