package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/trellis-hub/trellis/hack/fleetsim/control"
)

const overview = `fleetsim runs a fleet of simulated API servers, and operates it.

  fleetsim serve        start a fleet and stay until ^C
  fleetsim targets      list targets
  fleetsim kubeconfig   print the kubeconfig of a target
  fleetsim secrets      print the Secrets that register targets, ready to apply
  fleetsim fault        set, clear or list faults
  fleetsim rotate       replace tokens and certificates
  fleetsim skew         set clocks wrong
  fleetsim stop, start, hibernate, replace, revoke, compact, end-watches, reset-connections
                        do that to targets
  fleetsim crd          let a CustomResourceDefinition come or go
  fleetsim discovery    let discovery fail in part
  fleetsim journal      tell what targets were asked for, and judge it
  fleetsim stats        tell what the simulator takes
  fleetsim bench        measure a fleet with clients, probes and watches

"fleetsim <subcommand> -h" shows the flags. Targets are given by name, in which "*" stands for any characters; no name means all.
`

// usageError is an error of the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// command is what a subcommand does with its arguments.
type command func(ctx context.Context, c *console, args []string) error

var commands = map[string]command{
	"serve": serve, "targets": targets, "kubeconfig": kubeconfig, "secrets": secrets, "fault": faults, "rotate": rotate, "skew": skew,
	"stop": do, "start": do, "hibernate": do, "replace": do, "revoke": do, "compact": do, "end-watches": do, "reset-connections": do,
	"crd": crd, "discovery": discovery, "journal": tellJournal, "stats": stats, "bench": bench,
}

// console is where a command writes to.
type console struct {
	name           string // of the subcommand
	stdout, stderr io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		fmt.Fprint(stderr, overview)
		if len(args) == 0 {
			return 2
		}
		return 0
	}
	do, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(stderr, "fleetsim: there is no subcommand %q; \"fleetsim help\" lists them\n", args[0])
		return 2
	}
	err := do(ctx, &console{args[0], stdout, stderr}, args[1:])
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &usageError{}), errors.As(err, &control.RefusedError{}):
		fmt.Fprintf(stderr, "fleetsim %s: %v\n", args[0], err)
		return 2
	default:
		fmt.Fprintf(stderr, "fleetsim %s: %v\n", args[0], err)
		return 1
	}
}

// flags begins the flags of a subcommand.
func (c *console) flags(synopsis string) *flag.FlagSet {
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // parse says what is wrong
	set.Usage = func() {
		set.SetOutput(c.stderr)
		fmt.Fprintf(c.stderr, "fleetsim %s %s\n", c.name, synopsis)
		set.PrintDefaults()
	}
	return set
}

// parse reads flags and arguments in any order and returns the arguments.
func parse(set *flag.FlagSet, args []string) ([]string, error) {
	var rest []string
	for {
		err := set.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		if err != nil {
			return nil, usageError{err}
		}
		if set.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, set.Arg(0)), set.Args()[1:]
	}
}

// list is a flag with values that commas separate.
type list []string

// String implements flag.Value.
func (l *list) String() string { return strings.Join(*l, ",") }

// Set implements flag.Value.
func (l *list) Set(s string) error {
	*l = append(*l, strings.Split(s, ",")...)
	return nil
}
