package fleet

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/hack/perf/rig"
)

// look is what the hub says of its queue at a moment.
type look struct {
	at time.Time
	// workers are all there are, busy those that work on something, and slow those among them without a place.
	workers, busy, slow float64
	// depth is how many items wait.
	depth float64
}

// class is how metrics call the class of all ManagedResources here.
const class = "resources"

func lookAt(page rig.Page) (look, error) {
	l := look{at: page.At}
	ofClass := func(labels rig.Labels) bool { return labels.Get("class") == class }
	var errs []error
	for _, m := range []struct {
		value  *float64
		name   string
		wanted func(rig.Labels) bool
	}{
		{&l.workers, "controller_runtime_max_concurrent_reconciles", func(labels rig.Labels) bool { return labels.Get("controller") == "managedresource-"+class }},
		{&l.busy, "trellis_queue_in_flight", ofClass},
		{&l.slow, "trellis_queue_waiting", ofClass},
		{&l.depth, "trellis_queue_depth", ofClass},
	} {
		var err error
		*m.value, err = page.Sum(m.name, m.wanted)
		errs = append(errs, err)
	}
	return l, errors.Join(errs...)
}

// lookWhile looks again and again until something is done. Looks take time of the processors, so who compares windows has them in all.
func (r *run) lookWhile(ctx context.Context, do func() error) ([]look, error) {
	looking, end := context.WithCancel(ctx)
	defer end()
	var looks []look
	var group errgroup.Group
	group.Go(func() error {
		for {
			page, err := r.Page(looking)
			select {
			case <-looking.Done():
				return nil
			default:
			}
			if err != nil {
				return err
			}
			l, err := lookAt(page)
			if err != nil {
				return err
			}
			looks = append(looks, l)
			_ = rig.Pause(looking, r.scrapes()) // if it is over, the next page is the end
		}
	})
	err := do()
	end()
	err = errors.Join(err, group.Wait())
	return looks, err
}

// values of looks.
func values(looks []look, of func(look) float64) []float64 {
	out := make([]float64, 0, len(looks))
	for _, l := range looks {
		out = append(out, of(l))
	}
	return out
}
