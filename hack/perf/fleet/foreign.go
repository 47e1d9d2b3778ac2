package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

// ForeignOptions are those of a run of RunForeign.
type ForeignOptions struct {
	// Secrets is how many foreign ones there are, and Bytes how large each is.
	Secrets, Bytes int
	// Targets is how many are connected.
	Targets int
	// Starts is how often the hub is started without the Secrets, and as often with them.
	Starts int
}

// Flags adds the options to a set of flags.
func (o *ForeignOptions) Flags(flags *flag.FlagSet) {
	flags.IntVar(&o.Secrets, "secrets", 100_000, "Secrets of others in the source; a tenth of them in the namespaces of targets")
	flags.IntVar(&o.Bytes, "bytes", 1024, "size of each")
	flags.IntVar(&o.Targets, "targets", 10, "simulated targets")
	flags.IntVar(&o.Starts, "starts", 5, "how often the hub is started without them, and with them")
}

// foreignPatience is how long a start may take.
const foreignPatience = 10 * time.Minute

// RunForeign measures starts of a hub without and with Secrets of others in the source.
func RunForeign(ctx context.Context, root string, o ForeignOptions, report *figures.Report) (err error) {
	r := &run{options: Options{Patience: foreignPatience}, report: report}
	if r.Rig, err = rig.Start(ctx, rig.Options{Root: root, Results: rig.Results(root), Fleet: fleetsim.Options{Targets: o.Targets, Seed: 1}, Progress: os.Stderr}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	r.targets = r.Fleet.Targets()
	if err := r.StartHub(ctx, ""); err != nil {
		return err
	}
	if err := r.Bring(ctx, r.targets, r.options.Patience, append(rig.Crowd, rig.Steady)...); err != nil {
		return fmt.Errorf("%w\n%s", err, r.Log())
	}
	without, err := r.starts(ctx, report.Begin("starts without foreign Secrets"), o.Starts)
	if err != nil {
		return err
	}
	if err := r.StopHub(); err != nil {
		return err
	}
	step := report.Begin("foreign Secrets are written")
	var done atomic.Int64
	end := r.progress("foreign Secrets", o.Secrets, func() int { return int(done.Load()) })
	err = r.writeForeign(ctx, o, &done)
	end()
	step.Add("Secrets", float64(done.Load()), "")
	step.Add("bytes in each", float64(o.Bytes), "")
	step.End()
	if err != nil {
		return err
	}
	step = report.Begin("starts with foreign Secrets")
	with, err := r.starts(ctx, step, o.Starts)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name, unit string
		value      func(start) float64
		goal       float64
	}{
		{"start until all is synced, with them", "s", func(s start) float64 { return s.synced.Seconds() }, 15},
		{"RSS after a collection, more than without", "MiB", func(s start) float64 { return mib(s.RSS) }, 10},
		{"anonymous memory after a collection, more than without", "MiB", func(s start) float64 { return mib(s.Anonymous) }, 10},
		{"live heap, more than without", "MiB", func(s start) float64 { return mib(s.Heap) }, 10},
		{"peak RSS of the start, more than without", "MiB", func(s start) float64 { return mib(s.peak) }, 10},
	} {
		a, b := medianOf(without, f.value), medianOf(with, f.value)
		if f.unit == "s" {
			step.Add(f.name, b, f.unit).Beside(a).AtMost(f.goal)
		} else {
			step.Add(f.name, b-a, f.unit).AtMost(f.goal)
		}
	}
	return nil
}

// start is one of the hub.
type start struct {
	rig.Resources
	ready, synced time.Duration
	peak          int64
}

// starts starts the hub some times.
func (r *run) starts(ctx context.Context, step *figures.Step, n int) ([]start, error) {
	defer step.End()
	out := make([]start, 0, n)
	for range n {
		if err := r.StopHub(); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := r.StartHub(ctx, ""); err != nil {
			return nil, err
		}
		s := start{ready: time.Since(began)}
		if err := r.awaitConnected(ctx); err != nil {
			return nil, err
		}
		at, err := r.awaitWatches(ctx, 0)
		if err != nil {
			return nil, err
		}
		s.synced = at.Sub(began)
		const calm = 15 * time.Second // what a start has left behind is garbage by then
		if err := rig.Pause(ctx, calm); err != nil {
			return nil, err
		}
		memory, err := r.Hub.Memory()
		if err != nil {
			return nil, err
		}
		s.peak = memory.Peak
		if s.Resources, err = r.Resources(ctx); err != nil {
			return nil, err
		}
		r.Say("ready after %.2f s, synced after %.2f s, RSS %.1f MiB", s.ready.Seconds(), s.synced.Seconds(), mib(s.RSS))
		out = append(out, s)
	}
	for _, f := range []struct {
		name, unit string
		value      func(start) float64
	}{
		{"start until ready", "s", func(s start) float64 { return s.ready.Seconds() }},
		{"start until all is synced", "s", func(s start) float64 { return s.synced.Seconds() }},
		{"RSS after a collection", "MiB", func(s start) float64 { return mib(s.RSS) }},
		{"anonymous memory after a collection", "MiB", func(s start) float64 { return mib(s.Anonymous) }},
		{"live heap", "MiB", func(s start) float64 { return mib(s.Heap) }},
		{"peak RSS", "MiB", func(s start) float64 { return mib(s.peak) }},
	} {
		values := make([]float64, 0, n)
		for _, s := range out {
			values = append(values, f.value(s))
		}
		step.Keep(f.name+", "+f.unit, values)
		step.Add(f.name+", median", figures.Median(values), f.unit)
		step.Add(f.name+", worst", figures.Quantile(values, 1), f.unit)
	}
	return out, nil
}

func medianOf(starts []start, value func(start) float64) float64 {
	values := make([]float64, 0, len(starts))
	for _, s := range starts {
		values = append(values, value(s))
	}
	return figures.Median(values)
}

// writeForeign writes Secrets as others have them: to namespaces of their own, and a tenth of them beside those of targets.
func (r *run) writeForeign(ctx context.Context, o ForeignOptions, done *atomic.Int64) error {
	const namespaces, writers = 90, 32
	names := make([]string, 0, namespaces)
	for i := range namespaces {
		name := fmt.Sprintf("foreign-%02d", i)
		if err := r.Writers.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
		names = append(names, name)
	}
	content := make([]byte, o.Bytes)
	group, ctx := errgroup.WithContext(ctx)
	for w := range writers {
		group.Go(func() error {
			for i := w; i < o.Secrets; i += writers {
				ns := names[i%namespaces]
				if i%10 == 0 {
					ns = rig.Namespace(r.targets[i/10%len(r.targets)])
				}
				if err := r.Writers.Create(ctx, &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("foreign-%06d", i),
						Labels: map[string]string{"owner": "another-client"}},
					Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"content": content},
				}); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	return group.Wait()
}
