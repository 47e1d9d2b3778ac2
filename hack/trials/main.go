package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/hack/demo/stage"
	"github.com/trellis-hub/trellis/hack/figures"
	"github.com/trellis-hub/trellis/hack/trials/failover"
	"github.com/trellis-hub/trellis/hack/trials/matrix"
	"github.com/trellis-hub/trellis/hack/trials/rig"
	"github.com/trellis-hub/trellis/hack/trials/scale"
	"github.com/trellis-hub/trellis/hack/trials/soak"
)

// trial is one of the subcommands.
type trial struct {
	name string
	// prepare adds flags and returns what is to be done once they are parsed.
	prepare func(*flag.FlagSet) func(ctx context.Context, root string, report *figures.Report) error
}

var trials = []trial{
	{"failover", func(flags *flag.FlagSet) func(context.Context, string, *figures.Report) error {
		var o failover.Options
		o.Flags(flags)
		return func(ctx context.Context, root string, report *figures.Report) error {
			return failover.Run(ctx, root, o, report)
		}
	}},
	{"fleet", func(flags *flag.FlagSet) func(context.Context, string, *figures.Report) error {
		var o scale.Options
		o.Flags(flags)
		return func(ctx context.Context, root string, report *figures.Report) error {
			return scale.Run(ctx, root, o, report)
		}
	}},
	{"foreign", func(flags *flag.FlagSet) func(context.Context, string, *figures.Report) error {
		var o scale.ForeignOptions
		o.Flags(flags)
		return func(ctx context.Context, root string, report *figures.Report) error {
			return scale.RunForeign(ctx, root, o, report)
		}
	}},
	{"faults", func(flags *flag.FlagSet) func(context.Context, string, *figures.Report) error {
		var o matrix.Options
		o.Flags(flags)
		return func(ctx context.Context, root string, report *figures.Report) error {
			return matrix.Run(ctx, root, o, report)
		}
	}},
	{"soak", func(flags *flag.FlagSet) func(context.Context, string, *figures.Report) error {
		var o soak.Options
		o.Flags(flags)
		return func(ctx context.Context, root string, report *figures.Report) error {
			return soak.Run(ctx, root, o, report)
		}
	}},
	{"cycles", func(flags *flag.FlagSet) func(context.Context, string, *figures.Report) error {
		var o soak.Options
		o.CycleFlags(flags)
		return func(ctx context.Context, root string, report *figures.Report) error {
			return soak.Cycle(ctx, root, o, report)
		}
	}},
}

func main() {
	// What the clients here have to say is in their errors.
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "trials:", err)
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
	do := t.prepare(flags)
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag of %s", flags.Arg(0), t.name)
	}
	root, err := stage.Root(ctx)
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
	path, failed := report.Write(*out, rig.Results(root))
	err = errors.Join(err, failed, report.Print(os.Stdout))
	if shown, relative := filepath.Rel(root, path); relative == nil && !strings.HasPrefix(shown, "..") {
		path = shown
	}
	fmt.Printf("\neverything measured is in %s\n", path)
	return err
}
