package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

// division is a fleet of which a part is struck by something that the others are not to notice.
type division struct {
	struck, healthy []*fleetsim.Target
	// window measures drift in the healthy ones.
	window func(ctx context.Context, what string) (rig.Drift, error)
	// end ends the reference of the windows.
	end func()
}

// divide picks who is struck. Nothing happens to them yet.
func (r *run) divide(ctx context.Context) (*division, error) {
	struck, err := r.Fleet.Share(float64(r.options.Struck))
	if err != nil {
		return nil, err
	}
	d := &division{struck: struck}
	d.healthy = slices.DeleteFunc(r.Fleet.Targets(), func(t *fleetsim.Target) bool { return slices.Contains(struck, t) })
	if len(d.healthy) == 0 {
		return nil, fmt.Errorf("%d %% of %d targets leave none to be measured", r.options.Struck, len(r.targets))
	}
	// A reference whose target is struck measures nothing.
	refer, cancel := context.WithCancel(ctx)
	reference, wait, err := rig.NewReference(refer, d.healthy[:min(referenceTargets, len(d.healthy))])
	d.end = func() { cancel(); wait() }
	if err != nil {
		d.end()
		return nil, err
	}
	d.window = func(ctx context.Context, what string) (rig.Drift, error) {
		r.Say("drift in %d healthy targets, %s", len(d.healthy), what)
		return r.Window(ctx, r.foreigner, reference, d.healthy, r.options.Rate, r.options.Window)
	}
	return d, nil
}
