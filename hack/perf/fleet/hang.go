package fleet

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

const (
	// freeAfter is how long after targets began to hang nearly all workers are to be free again, and leastFree how many, in percent.
	freeAfter = 15 * time.Second
	leastFree = 80
	// places is how many may work at a time in the hub as it ships (concurrentSyncs). It is not what the hub says: one that is broken says less.
	places = 20
	// waitResolution is the bound below which the histogram of waits has only one more, in milliseconds. Less is as good.
	waitResolution = 10
	// restlessWait is from where on a wait before the hang is none to compare with, in milliseconds: the start is not over then.
	restlessWait = 100
	// idleLooks is in how many looks in a row a hub that has nothing to do has to have none.
	idleLooks = 3
)

// waitsConfig has the hub export for each target how long its work waited. The histogram of all targets together has
// the waits for those that hang in it.
const waitsConfig = `
metrics: {targetHistograms: true}
`

// hang has a part of the targets take requests and answer none, with work for all targets: objects are edited in those that are well, and a
// change comes for each that hangs, which a worker then waits for. What is asked is whether the others wait, too.
//
// As many changes at once are work for the processors, too, whether their targets hang or not. A window in which the same targets get a change
// while they are well shows how much that is. What counts are the windows before it, without changes.
//
// The fault test that it is wants it of 1,000 targets: the p99 of the wait for a worker less than twice what it was, and 80 % of the
// workers free after 15 s. Workers are those that may be busy at a time, eight for each of concurrentSyncs.
//
// On any machine a change for one of the others comes there meanwhile. If fewer targets hang than there are places, most of what is edited in
// the others while workers wait is corrected long before that wait is over. If more do, that takes that the hub finds out in a fraction of a
// second which targets are silent (package fairqueue), which a machine that is busy enough may keep it from: a goal and no property.
func (r *run) hang(ctx context.Context, step *figures.Step) error {
	config, err := merged(r.options.Config, waitsConfig)
	if err != nil {
		return err
	}
	if err := r.atWork(ctx, config); err != nil {
		return err
	}
	d, err := r.divide(ctx)
	if err != nil {
		return err
	}
	defer d.end()
	var before []waiting
	for n := range windowsBefore {
		if err := r.Tidy(ctx); err != nil {
			return err
		}
		w, err := r.waiting(ctx, d, fmt.Sprintf("before, %d of %d", n+1, windowsBefore), nil)
		if err != nil {
			return err
		}
		before = append(before, w)
	}
	if err := r.Tidy(ctx); err != nil {
		return err
	}
	well, err := r.waiting(ctx, d, fmt.Sprintf("while %d others that are well change", len(d.struck)), func(
		ctx context.Context) error {
		return r.changeIn(ctx, d.struck, "while it is well", time.Now())
	})
	if err != nil {
		return err
	}

	if err := r.Tidy(ctx); err != nil {
		return err
	}
	h := hanging{began: time.Now()}
	refs := rig.TargetClustersOf(d.struck)
	down := r.Observer.Expect("those that hang are shown as down", refs, func(
		o client.Object) bool {
		return o != nil && !up(o)
	})
	defer down.End()
	for _, target := range d.struck {
		if _, err := target.Faults().Set(fault.Fault{Kind: fault.Hang, Share: 1}); err != nil {
			return fmt.Errorf("%s: %w", target.Name(), err)
		}
	}
	sent := time.Now()
	h.waiting, err = r.waiting(ctx, d, fmt.Sprintf("while %d others hang", len(d.struck)), func(
		ctx context.Context) error {
		if err := r.changeIn(ctx, d.struck, "while it hangs", sent); err != nil {
			return err
		}
		other := []*fleetsim.Target{d.healthy[0]}
		meanwhile := time.Now()
		if err := r.changeIn(ctx, other, "while others hang", meanwhile); err != nil {
			return err
		}
		if err := r.Until(ctx, r.options.Patience, 20*time.Millisecond, "a change comes to another target meanwhile",
			func() (bool, error) {
				at, ok := arrival(other[0], meanwhile)
				h.change = at.Sub(meanwhile)
				return ok, nil
			}); err != nil {
			return err
		}
		// One more look at least is to come after that.
		return rig.Pause(ctx, time.Until(h.began.Add(freeAfter+2*r.scrapes())))
	})
	if err != nil {
		return err
	}
	shown, err := down.Wait(ctx, r.Rig, r.options.Patience)
	if err != nil {
		return err
	}
	h.shown = since(h.began, shown)
	windows := []*rig.Drift{&well.Drift, &h.Drift}
	for i := range before {
		windows = append(windows, &before[i].Drift)
	}
	if err := r.beside(windows...); err != nil {
		return err
	}
	judgeHang(step, before, well, h)

	edited := time.Now()
	if err := r.foreigner.EditEach(ctx, d.struck); err != nil {
		return err
	}
	answering := r.Observer.Expect("those that answer again are shown as up", refs, up)
	defer answering.End()
	r.Say("those that hang answer again")
	cleared := time.Now()
	for _, target := range d.struck {
		if _, err := target.Faults().Clear(); err != nil {
			return fmt.Errorf("%s: %w", target.Name(), err)
		}
	}
	seen, err := answering.Wait(ctx, r.Rig, r.options.Patience)
	if err != nil {
		return err
	}
	if err := r.Until(ctx, r.options.Patience, 100*time.Millisecond, "what changed while targets hung is in them",
		func() (bool, error) {
			return r.Journal.Reached(sent).Targets >= len(d.struck), nil
		}); err != nil {
		return err
	}
	if err := r.AwaitCorrections(ctx, d.struck, edited, r.options.Patience); err != nil {
		return fmt.Errorf("an edit while targets hung: %w", err)
	}
	arrived := time.Since(cleared)
	step.AddLatencies("answering again until shown as up", since(cleared, seen), nil)
	step.Add("answering again until all changes and edits of them were dealt with", arrived.Seconds(), "s")
	r.judge(step, h.began)
	return r.atWork(ctx, r.options.Config)
}

// atWork starts the hub once more with a configuration, and has it deal with a change in each target: a hub that has just begun knows of none
// that it answers in time, and does not know what a change changed. When that is over, the hub has nothing left to do.
func (r *run) atWork(ctx context.Context, config string) error {
	if err := r.startAnew(ctx, config); err != nil {
		return err
	}
	if _, err := r.changeEverywhere(ctx, "after the start at "+time.Now().Format(time.RFC3339Nano)); err != nil {
		return err
	}
	return r.idle(ctx)
}

// idle waits until nothing waits for a worker, and few work, in some looks in a row: what was done leaves notes to be written a bit later.
func (r *run) idle(ctx context.Context) error {
	row := 0
	return r.Until(ctx, r.options.Patience, r.scrapes(), "the hub has nothing left to do", func() (bool, error) {
		page, err := r.Page(ctx)
		if err != nil {
			return false, err
		}
		l, err := lookAt(page)
		if row++; l.depth > 0 || l.busy > 1 {
			row = 0
		}
		return row >= idleLooks, err
	})
}

// waiting is a window of drift with what the hub said meanwhile.
type waiting struct {
	rig.Drift
	looks []look
	// others is how long work for healthy targets waited for a worker, and all how long any did, in seconds.
	others, all rig.Histogram
}

// waiting measures a window of drift while something else is done, unless that is nil.
func (r *run) waiting(ctx context.Context, d *division, what string, meanwhile func(context.Context) error) (
	w waiting, err error) {
	first, err := r.Page(ctx)
	if err != nil {
		return w, err
	}
	if w.looks, err = r.lookWhile(ctx, func() error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() (err error) {
			w.Drift, err = d.window(ctx, what)
			return err
		})
		if meanwhile != nil {
			group.Go(func() error { return meanwhile(ctx) })
		}
		return group.Wait()
	}); err != nil {
		return w, err
	}
	// A wait is counted when it is over.
	if err := r.AwaitCorrections(ctx, d.healthy, w.From, r.options.Patience); err != nil {
		return w, err
	}
	last, err := r.Page(ctx)
	if err != nil {
		return w, err
	}
	healthy := map[string]bool{}
	for _, target := range d.healthy {
		healthy[rig.Namespace(target)+"/"+target.Name()] = true
	}
	for _, m := range []struct {
		waits  *rig.Histogram
		name   string
		wanted func(rig.Labels) bool
	}{
		{&w.others, "trellis_target_queue_wait_seconds",
			func(labels rig.Labels) bool { return healthy[labels.Get("target")] }},
		{&w.all, "trellis_queue_wait_seconds", func(labels rig.Labels) bool { return labels.Get("class") == class }},
	} {
		before, err := first.Histogram(m.name, m.wanted)
		if err != nil {
			return w, err
		}
		after, err := last.Histogram(m.name, m.wanted)
		if err != nil {
			return w, err
		}
		*m.waits = after.Since(before)
	}
	return w, nil
}

// hanging is a window in which targets hang.
type hanging struct {
	waiting
	began time.Time
	// shown is when each was shown as down, in milliseconds after they began.
	shown []float64
	// change is how long a change for one of the others took meanwhile.
	change time.Duration
}

// judgeHang compares targets that are well while others hang with how they were before. What they were while those others changed and were well is
// only shown.
func judgeHang(step *figures.Step, before []waiting, well waiting, h hanging) {
	var windows []rig.Drift
	others, all := rig.Histogram{}, rig.Histogram{}
	for _, w := range before {
		windows = append(windows, w.Drift)
		others.Add(w.others)
		all.Add(w.all)
	}
	baseline := joined(windows)
	base := step.AddLatencies("drift in the others before", baseline.Millis, baseline.Reference)
	step.AddLatencies("drift in the others while as many change and are well", well.Millis, well.Reference)
	drift := step.AddLatencies("drift in the others while some hang", h.Millis, h.Reference)
	step.Note("%s", eachWindow("before it", windows, base.P99))
	step.Note("%s", eachWindow("while as many change and are well, and while they hang", []rig.Drift{well.Drift, h.Drift},
		base.P99))
	if slow := h.Slow(3 * base.P99); slow != "" {
		step.Note("edits that took thrice the p99 of before, by the second of the window: %s", slow)
	}
	step.Add("drift in the others while some hang, p50 against before", drift.P50/base.P50, "x")
	step.Add("drift in the others while some hang, p99 against before", drift.P99/base.P99, "x")

	const seconds, p99 = 1000, 0.99
	was := seconds * others.Quantile(p99)
	wait, allowed := seconds*h.others.Quantile(p99), max(2*was, waitResolution)
	step.Add("wait of the others for a worker, p99", wait, "ms").Beside(was).
		Holds(fmt.Sprintf("<= %.4g, after at most %d", allowed, restlessWait), wait <= allowed && was <= restlessWait)
	step.Add("wait of the others for a worker while as many change and are well, p99", seconds*well.others.Quantile(p99),
		"ms").Beside(was)
	step.Add("the same with those that hang, p99", seconds*h.all.Quantile(p99), "ms").Beside(seconds * all.Quantile(p99))
	step.Note("the reference of waits is what they were before")

	workers := figures.Quantile(values(h.looks, func(l look) float64 { return l.workers }), 0)
	early := slices.DeleteFunc(slices.Clone(h.looks), func(l look) bool { return l.at.Sub(h.began) >= freeAfter })
	late := slices.DeleteFunc(slices.Clone(h.looks), func(l look) bool { return l.at.Sub(h.began) < freeAfter })
	busy := func(looks []look) float64 {
		return figures.Quantile(values(looks, func(l look) float64 { return l.busy }), 1)
	}
	step.Add("workers", workers, "")
	step.Add("workers that were busy in the first 15 s, the most of some looks", busy(early), "")
	step.Add("those of them that waited for their targets, or had",
		figures.Quantile(values(early, func(l look) float64 { return l.slow }), 1), "")
	free := 100 * (workers - busy(late)) / workers
	step.Add("workers that are free from 15 s on, the least of some looks", free, "%").Holds(
		fmt.Sprintf(">= %d", leastFree), free >= leastFree)

	share := 100 * corrected(h)
	edits := step.Add("edits of the first quarter of the hang that were corrected in its first half", share, "%").Holds(
		">= 50", share >= 50)
	if len(h.shown) < places { // if more than that hang at once, the others may wait: package fairqueue says when
		edits.Strictly()
	}
	step.Note("the hang is the time until half of those that hang are shown as down: about as long as workers wait for them")
	step.AddLatencies("hanging until shown as down", h.shown, nil)
	step.Find("hanging until shown as down, max").AtMost(30000)
	step.Add("a change for one of the others meanwhile", figures.Milliseconds(h.change), "ms")
}

// corrected is the part of what was edited in the first quarter of the time until half of those that hang were shown as down, that was corrected
// in the first half of it. It compares times of one run: a machine that is slow makes all of them longer. Were the others to wait for those that
// hang, it would be nothing, however quick the machine.
func corrected(h hanging) float64 {
	known := figures.Median(h.shown)
	made, right := len(h.Lasting), 0
	for i, at := range h.Edited {
		if after := figures.Milliseconds(at.Sub(h.began)); after < known/4 {
			made++
			if after+h.Millis[i] < known/2 {
				right++
			}
		}
	}
	if made == 0 {
		return math.NaN()
	}
	return float64(right) / float64(made)
}
