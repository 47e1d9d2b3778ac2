package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/hack/figures"
	"github.com/trellis-hub/trellis/hack/testbed"
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

// options are the flags.
type options struct {
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

func parseFlags() options {
	var o options
	parts := flag.String("parts", strings.Join([]string{partDrift, partApply, partSecret, partHealth, partRest, partRestart, partMemory}, ","), "what to measure; "+partUnprobed+" only if asked for")
	flag.IntVar(&o.targetCount, "targets", 4, fmt.Sprintf("control planes beside the source, 2 to %d: the last one is audited, and used by rest and restart only", len(letters)))
	flag.IntVar(&o.fixture, "fixture", 10, "ManagedResources in each target, of 15 objects each")
	flag.BoolVar(&o.shoot, "shoot", false, "rest, unprobed, restart: have each target hold the 300 objects of package shoot20, too, as simulated ones do; -fixture 0 leaves it at that")
	flag.IntVar(&o.runs, "runs", 5, "drift, secret, health, memory: how often to repeat")
	flag.IntVar(&o.edits, "edits", 200, "drift: edits and deletes in a run")
	flag.IntVar(&o.changes, "changes", 100, "secret: changes in a run")
	flag.IntVar(&o.flips, "flips", 100, "health: how often Deployments become unavailable in a run")
	flag.IntVar(&o.rounds, "rounds", 5, "apply: how often to repeat each way")
	flag.IntVar(&o.resources, "resources", 20, "apply: ManagedResources in a round")
	flag.IntVar(&o.objects, "objects", 50, "apply: objects in each of them")
	flag.IntVar(&o.inFlight, "in-flight", 40, "apply: requests in flight, of the hub and of the bare clients")
	flag.IntVar(&o.memory, "watched", 5000, "memory: objects of each kind")
	flag.DurationVar(&o.rest, "rest", 30*time.Second, "rest, unprobed: how long")
	flag.Uint64Var(&o.seed, "seed", 1, "of the random choice of edits")
	flag.BoolVar(&o.profiled, "profile", false, "apply: write profiles of the hub and of the API servers, of rounds that are not counted")
	flag.Parse()
	o.parts = strings.Split(*parts, ",")
	return o
}

func main() {
	o := parseFlags()
	ctrllog.SetLogger(logr.Discard()) // what the clients here have to say is in their errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// result is what the file holds.
type result struct {
	Time       time.Time         `json:"time"`
	Go         string            `json:"go"`
	CPUs       int               `json:"cpus"`
	LoadBefore string            `json:"loadBefore"`
	LoadAfter  string            `json:"loadAfter"`
	Flags      map[string]string `json:"flags"`
	Drift      *samples          `json:"drift,omitempty"`
	Apply      []round           `json:"apply,omitempty"`
	Secret     *samples          `json:"secret,omitempty"`
	Health     *samples          `json:"health,omitempty"`
	Rest       *atRest           `json:"rest,omitempty"`
	Unprobed   *atRest           `json:"unprobed,omitempty"`
	Restart    *restarted        `json:"restart,omitempty"`
	Memory     []footprint       `json:"memory,omitempty"`
}

// run measures, prints and writes.
func run(ctx context.Context, o options) error {
	if o.targetCount < 2 || o.targetCount > len(letters) {
		return fmt.Errorf("there are 2 to %d targets, not %d", len(letters), o.targetCount)
	}
	root, err := testbed.Root(ctx)
	if err != nil {
		return err
	}
	results, dir, err := makeDirs(root)
	if err != nil {
		return err
	}
	res := &result{Time: time.Now().UTC(), Go: runtime.Version(), CPUs: runtime.NumCPU(), LoadBefore: figures.Load(), Flags: map[string]string{}}
	flag.VisitAll(func(f *flag.Flag) { res.Flags[f.Name] = f.Value.String() })
	base := filepath.Join(results, res.Time.Format("20060102-150405"))
	fmt.Println("starting a source cluster and", o.targetCount, "targets ...")
	w, err := setUp(ctx, o, root, dir)
	if err != nil {
		return err
	}
	defer w.tearDown()
	if err := measure(ctx, w, res, base); err != nil {
		return fmt.Errorf("%w\nthe log of the hub ends with:\n%s", err, w.hub.LogTail())
	}
	res.LoadAfter = figures.Load()
	content, err := json.MarshalIndent(res, "", " ")
	if err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	if err := os.WriteFile(base+".json", content, 0o600); err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	printTable(os.Stdout, o, res)
	shown, err := filepath.Rel(root, base+".json")
	if err != nil {
		return fmt.Errorf("naming results: %w", err)
	}
	fmt.Printf("\neverything measured is in %s\n", shown)
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
			err = fmt.Errorf("there is no part %q, only %s", part, strings.Join([]string{partDrift, partApply, partSecret, partHealth, partRest, partUnprobed, partRestart, partMemory}, ", "))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
