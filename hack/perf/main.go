package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/perf/bench"
	"github.com/trellis-hub/trellis/hack/perf/failover"
	"github.com/trellis-hub/trellis/hack/perf/faults"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/fleet"
	"github.com/trellis-hub/trellis/hack/perf/hostile"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/perf/soak"
)

// trial is one of the subcommands.
type trial struct {
	name string
	// prepare adds flags and returns what is to be done once they are parsed.
	prepare func(*flag.FlagSet) play
}

var trials = []trial{
	{"bench", of((*bench.Options).Flags, bench.Run)},
	{"failover", of((*failover.Options).Flags, failover.Run)},
	{"fleet", of((*fleet.Options).Flags, fleet.Run)},
	{"foreign", of((*fleet.ForeignOptions).Flags, fleet.RunForeign)},
	{"faults", of((*faults.Options).Flags, faults.Run)},
	{"hostile", of((*hostile.Options).Flags, hostile.Run)},
	{"soak", of((*soak.Options).Flags, soak.Run)},
	{"cycles", of((*soak.Options).CycleFlags, soak.Cycle)},
}

// play runs a trial once its flags are parsed.
type play func(ctx context.Context, root string, report *figures.Report) error

// of is what prepares a trial with options of its own.
func of[O any](flags func(*O, *flag.FlagSet), do func(context.Context, string, O, *figures.Report) error) func(*flag.FlagSet) play {
	return func(set *flag.FlagSet) play {
		var o O
		flags(&o, set)
		return func(ctx context.Context, root string, report *figures.Report) error { return do(ctx, root, o, report) }
	}
}

// simulatorGrowth is by how much the heap of the simulator grows between collections, in percent. It takes some GiB with a thousand targets.
const simulatorGrowth = 300

func main() {
	// What the clients here have to say is in their errors.
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	// The simulator shares the processors with the hub that is measured. With a thousand targets its collections took a fifth of them.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(simulatorGrowth)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

// run finds the trial, and prints and writes what it measured even if it fails.
func run(ctx context.Context, args []string) error {
	names := make([]string, 0, len(trials))
	for _, t := range trials {
		names = append(names, t.name)
	}
	if len(args) == 0 || !slices.Contains(names, args[0]) {
		return fmt.Errorf("the first argument is one of %s", strings.Join(names, ", "))
	}
	t := trials[slices.Index(names, args[0])]
	flags := flag.NewFlagSet(t.name, flag.ContinueOnError)
	out := flags.String("out", "", "file for what was measured; empty: bin/trials/"+t.name+"-<time>.json")
	goals := flags.Bool("goals", true, "fail if a goal is missed, too, as may happen on a busy machine; false: only if something is broken")
	do := t.prepare(flags)
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag of %s", flags.Arg(0), t.name)
	}
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	report := figures.NewReport(t.name, flags)
	err = do(ctx, root, report)
	if err != nil {
		report.Error = err.Error()
	} else if broken := report.Broken(); len(broken) > 0 {
		err = fmt.Errorf("broken:\n  %s", strings.Join(broken, "\n  "))
	}
	if missed := report.Missed(); len(missed) > 0 && *goals {
		err = errors.Join(err, fmt.Errorf("missed:\n  %s", strings.Join(missed, "\n  ")))
	}
	path, failed := report.Write(*out, rig.Results(root))
	err = errors.Join(err, failed, report.Print(os.Stdout))
	if shown, relative := filepath.Rel(root, path); relative == nil && !strings.HasPrefix(shown, "..") {
		path = shown
	}
	fmt.Printf("\neverything measured is in %s\n", path)
	return err
}
