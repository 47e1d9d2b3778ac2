package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-hub/trellis/hack/perf/figures"
)

// The parts of the benchmark.
const (
	partDrift    = "drift"
	partApply    = "apply"
	partSecret   = "secret"
	partHealth   = "health"
	partRest     = "rest"
	partUnprobed = "unprobed"
	partRestart  = "restart"
	partMemory   = "memory"
)

// Options of a run. Flags says what they mean.
type Options struct {
	parts       []string
	targetCount int
	runs        int
	edits       int
	changes     int
	flips       int
	memory      int
	fixture     int
	shoot       bool
	rounds      int
	resources   int
	objects     int
	inFlight    int
	rest        time.Duration
	seed        uint64
	profiled    bool
}

// Flags adds the options to a set of flags.
func (o *Options) Flags(flags *flag.FlagSet) {
	o.parts = []string{partDrift, partApply, partSecret, partHealth, partRest, partRestart, partMemory}
	flags.Func("parts", "what to measure: "+strings.Join(o.parts, ",")+"; "+partUnprobed+" only if asked for",
		func(s string) error {
			o.parts = strings.Split(s, ",")
			return nil
		})
	flags.IntVar(&o.targetCount, "targets", 4,
		fmt.Sprintf("control planes beside the source, 2 to %d: the last one is audited, and used by rest and restart only",
			len(letters)))
	flags.IntVar(&o.fixture, "fixture", 10, "ManagedResources in each target, of 15 objects each")
	flags.BoolVar(&o.shoot, "shoot", false, "rest, unprobed, restart: have each target hold the 300 objects of package shoot20, too, as simulated ones do; -fixture 0 leaves it at that")
	flags.IntVar(&o.runs, "runs", 5, "drift, secret, health, memory: how often to repeat")
	flags.IntVar(&o.edits, "edits", 200, "drift: edits and deletes in a run")
	flags.IntVar(&o.changes, "changes", 100, "secret: changes in a run")
	flags.IntVar(&o.flips, "flips", 100, "health: how often Deployments become unavailable in a run")
	flags.IntVar(&o.rounds, "rounds", 5, "apply: how often to repeat each way")
	flags.IntVar(&o.resources, "resources", 20, "apply: ManagedResources in a round")
	flags.IntVar(&o.objects, "objects", 50, "apply: objects in each of them")
	flags.IntVar(&o.inFlight, "in-flight", 40, "apply: requests in flight, of the hub and of the bare clients")
	flags.IntVar(&o.memory, "watched", 5000, "memory: objects of each kind")
	flags.DurationVar(&o.rest, "rest", 30*time.Second, "rest, unprobed: how long")
	flags.Uint64Var(&o.seed, "seed", 1, "of the random choice of edits")
	flags.BoolVar(&o.profiled, "profile", false,
		"apply: write profiles of the hub and of the API servers, of rounds that are not counted")
}

// result is what the file holds.
type result struct {
	Time       time.Time   `json:"time"`
	CPUs       int         `json:"cpus"`
	LoadBefore string      `json:"loadBefore"`
	LoadAfter  string      `json:"loadAfter"`
	Drift      *samples    `json:"drift,omitempty"`
	Apply      []round     `json:"apply,omitempty"`
	Secret     *samples    `json:"secret,omitempty"`
	Health     *samples    `json:"health,omitempty"`
	Rest       *atRest     `json:"rest,omitempty"`
	Unprobed   *atRest     `json:"unprobed,omitempty"`
	Restart    *restarted  `json:"restart,omitempty"`
	Memory     []footprint `json:"memory,omitempty"`
}

// Run measures, and prints a table. The raw values go into the report.
func Run(ctx context.Context, root string, o Options, report *figures.Report) error {
	if o.targetCount < 2 || o.targetCount > len(letters) {
		return fmt.Errorf("there are 2 to %d targets, not %d", len(letters), o.targetCount)
	}
	results, dir, err := makeDirs(root)
	if err != nil {
		return err
	}
	res := &result{Time: report.Time, CPUs: report.CPUs, LoadBefore: figures.Load()}
	report.Raw = res
	fmt.Println("starting a source cluster and", o.targetCount, "targets ...")
	w, err := setUp(ctx, o, root, dir)
	if err != nil {
		return err
	}
	defer w.tearDown()
	if err := measure(ctx, w, res, filepath.Join(results, res.Time.Format("20060102-150405"))); err != nil {
		return fmt.Errorf("%w\nthe log of the hub ends with:\n%s", err, w.hub.LogTail())
	}
	res.LoadAfter = figures.Load()
	printTable(os.Stdout, o, res)
	return nil
}

// measure goes through the chosen parts.
func measure(ctx context.Context, w *world, res *result, base string) (err error) {
	for _, part := range w.parts {
		fmt.Printf("measuring %s ...\n", part)
		var s samples
		switch part {
		case partRest:
			var r atRest
			r, err = measureRest(ctx, w)
			res.Rest = &r
		case partUnprobed:
			var r atRest
			r, err = measureUnprobed(ctx, w)
			res.Unprobed = &r
		case partRestart:
			var r restarted
			r, err = measureRestart(ctx, w)
			res.Restart = &r
		case partDrift:
			s, err = measureDrift(ctx, w)
			res.Drift = &s
		case partSecret:
			s, err = measureSecret(ctx, w)
			res.Secret = &s
		case partHealth:
			s, err = measureHealth(ctx, w)
			res.Health = &s
		case partMemory:
			res.Memory, err = measureMemory(ctx, w)
		case partApply:
			if res.Apply, err = measureApply(ctx, w); err == nil && w.profiled {
				err = w.profile(ctx, base)
			}
		default:
			err = fmt.Errorf("there is no part %q, only %s", part,
				strings.Join([]string{partDrift, partApply, partSecret, partHealth, partRest, partUnprobed, partRestart,
					partMemory}, ", "))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
