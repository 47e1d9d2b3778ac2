package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

// row is one of the table at the end.
type row struct {
	name                  string
	leader, standby, cost float64 // MiB
	p99                   float64 // ms
	connect               float64 // s
	ended                 int
	healthz, held         string
}

// measure plays an attack while honest targets are edited and new ones registered, and returns what became of them.
func (r *run) measure(ctx context.Context, a attack, s *scene) (out outcome, err error) {
	window := a.window
	switch {
	case r.options.Long && a.long > 0:
		window = a.long
	case window == 0 || r.options.Quick:
		window = r.options.Window
	}
	from := time.Now()
	attacking, stop := context.WithCancel(ctx)
	defer stop()
	group, _ := errgroup.WithContext(ctx)
	group.Go(func() error {
		// Foreigners edit for as long as the attack lasts.
		return ended(ctx, r.foreigner.Pace(attacking, r.honest, r.options.Rate, time.Hour))
	})
	group.Go(func() (err error) {
		defer stop()
		if a.begin != nil && !a.before {
			if err := a.begin(ctx, s); err != nil {
				return err
			}
		}
		if a.goesOn != nil {
			group.Go(func() error { return ended(ctx, a.goesOn(attacking, s)) })
		}
		out.connected, err = r.attack(ctx, a, s, window)
		return err
	})
	if err := group.Wait(); err != nil {
		return out, err
	}
	out.millis = r.corrected(ctx, from, time.Now())
	for _, p := range r.hubs {
		out.peaks = append(out.peaks, p.peak())
		if p.ended() {
			why := "it ended"
			if p.over.Load() {
				why = "it took too much memory"
			}
			out.ended = append(out.ended, p.role+": "+why)
			continue
		}
		found, err := p.page(ctx)
		if err != nil && !p.ended() {
			return out, err
		}
		out.pages = append(out.pages, found)
	}
	return out, nil
}

// ended is the error of what was ended by a context, unless that was the whole run.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return nil
	}
	return err
}

// attack lets an attack that began last for a while from the first hostile answer on, registers honest targets
// meanwhile, and
// returns after how many seconds each was connected.
func (r *run) attack(ctx context.Context, a attack, s *scene, window time.Duration) (connected []float64, err error) {
	for began := time.Now(); !a.calls && s.struck() == 0 && r.alive() && time.Since(began) < r.options.Patience; {
		if err := rig.Pause(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	for i := 0; i == 0 || time.Since(began) < window*2/3; i++ {
		took, err := r.newcomer(ctx, s)
		if err != nil {
			return nil, err
		}
		connected = append(connected, took)
		if err := rig.Pause(ctx, window/5); err != nil {
			return nil, err
		}
	}
	return connected, rig.Pause(ctx, time.Until(began.Add(window)))
}

// corrected is how many milliseconds corrections took. One that does not come counts with the time for which it has
// lasted.
func (r *run) corrected(ctx context.Context, from, to time.Time) []float64 {
	const late = 5 * time.Second
	for {
		c := rig.CorrectionsIn(r.honest, from, to)
		if len(c.Pending) == 0 || time.Since(to) > late || rig.Pause(ctx, 100*time.Millisecond) != nil {
			return append(c.Millis, c.Lasting...)
		}
	}
}

// judge says whether the hubs held.
func (r *run) judge(ctx context.Context, step *figures.Step, a attack, s *scene, out outcome, began time.Time) error {
	line := row{name: a.id(), ended: len(out.ended), p99: out.p99(), connect: out.connect(), healthz: "ok"}
	step.Add("hubs that ended", float64(len(out.ended)), "").Exactly(0).Strictly()
	for _, why := range out.ended {
		step.Note("%s", why)
	}
	for i, p := range r.hubs[:len(out.peaks)] {
		peak := mib(out.peaks[i])
		step.Add(p.role+": peak memory", peak, "MiB").AtMost(mib(r.options.Limit)).Strictly()
		if i == 0 {
			line.leader = peak
		} else {
			line.standby = peak
		}
		if a.budget > 0 {
			budget := a.budget
			if r.options.Quick { // its hubs hold what the attacks before left
				budget = max(budget, manyTargets)
			}
			base := r.baseline.peaks
			if a.before {
				base = r.baseline.starts
			}
			cost := mib(out.peaks[i] - base[i])
			line.cost = max(line.cost, cost)
			f := step.Add(p.role+": cost", cost, "MiB").AtMost(mib(budget)).Strictly()
			if !*f.Held && !p.ended() {
				if err := r.profile(ctx, a, p); err != nil {
					return err
				}
			}
		}
		unwell := p.unwell.Load()
		step.Add(p.role+": answers to /healthz other than 200", float64(unwell), "").Exactly(0).Strictly()
		if unwell > 0 || p.ended() {
			line.healthz = "FAILED"
		}
		step.Count(p.role+": questions to /healthz", p.asked.Load())
		panics, err := p.panics()
		if err != nil {
			return err
		}
		step.Add(p.role+": panics", float64(panics), "").Exactly(0).Strictly()
	}
	newest := 0.0
	for _, found := range out.pages {
		step.Add("page of metrics", mib(int64(found.bytes)), "MiB").AtMost(mib(metricsLimit)).Strictly()
		step.Add("page of metrics, UTF-8", 0, "").Holds("valid", found.utf8).Strictly()
		newest = max(newest, found.heartbeat)
	}
	age := float64(time.Now().Unix()) - newest
	step.Add("age of the heartbeat", age, "s").AtMost(silence).Strictly()
	step.Keep("drift", out.millis)
	step.Keep("connect, s", out.connected)
	drift := step.Add("honest drift, p99", out.p99(), "ms").Beside(r.baseline.p99())
	drift.AtMost(max(slowdown*r.baseline.p99(), floor))
	connect := step.Add("honest target connected after", out.connect(), "s").Beside(r.baseline.connect())
	connect.AtMost(max(slowdown*r.baseline.connect(), connectFloor))
	if r.alive() {
		err := r.AwaitCorrections(ctx, r.honest, began, r.options.Patience)
		step.Add("edits that are not corrected", 0, "").Holds("none", err == nil).Strictly()
		if err != nil {
			step.Note("%v", err)
		}
	}
	if !a.calls {
		n := s.struck()
		step.Add("hostile answers", float64(n), "").Holds("some", n > 0).Strictly()
	}
	if a.check != nil && len(out.ended) == 0 {
		err := a.check(ctx, s)
		step.Add("what else is to hold", 0, "").Holds("does", err == nil).Strictly()
		if err != nil {
			step.Note("%v", err)
		}
	}
	line.held = "held"
	for _, f := range step.Figures {
		if f.Held != nil && !*f.Held {
			line.held = "MISSED"
			if f.Must {
				line.held = "BROKEN"
				break
			}
		}
	}
	r.rows = append(r.rows, line)
	r.Say("%s", line)
	return nil
}

const heading = "result  leader  standby     cost  drift p99  connect  ended  healthz  attack"

// String is a line of the table at the end.
func (l row) String() string {
	return fmt.Sprintf("%-6s %4.0f MiB %4.0f MiB %4.0f MiB %7.0f ms %6.2f s %6d  %-7s  %s",
		l.held, l.leader, l.standby, l.cost, l.p99, l.connect, l.ended, l.healthz, l.name)
}

// sum adds the table of all attacks.
func (r *run) sum() {
	step := r.report.Begin("all attacks")
	defer step.End()
	step.Note("%s", heading)
	for _, l := range r.rows {
		step.Note("%s", l)
	}
	for _, e := range elsewhere {
		step.Note("%-71s %d/%s", "tests: "+e.tests, e.row, e.name)
	}
	step.Add("attacks", float64(len(r.rows)-1), "")
}

var unnamed = regexp.MustCompile("[^a-zA-Z0-9]+")

// profile writes what a hub holds.
func (r *run) profile(ctx context.Context, a attack, p *process) error {
	if r.options.Profiles == "" {
		return nil
	}
	content, err := p.HeapProfile(ctx)
	if err == nil {
		err = os.MkdirAll(r.options.Profiles, 0o700)
	}
	if err == nil {
		name := unnamed.ReplaceAllString(a.id(), "-") + "-" + p.role + ".pprof"
		err = os.WriteFile(filepath.Join(r.options.Profiles, name), content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("profile of the heap: %w", err)
	}
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
