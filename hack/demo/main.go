package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	once := flag.Bool("once", false, "end after the last act instead of waiting for Ctrl-C")
	monitoring := flag.String("monitoring", "", "folder with prometheus and alertmanager, which then watch the hub by the chart's rules")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard()) // what the clients here have to say is in their errors

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *once, *monitoring)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
	case interrupted:
		fmt.Fprintln(os.Stderr, "\ninterrupted")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

// run shows everything and cleans up.
func run(ctx context.Context, once bool, monitoring string) error {
	w := &world{prometheus: monitoring, screen: &screen{out: os.Stdout, start: time.Now()}}
	w.title("Trellis: one hub keeps several clusters in order")
	err := w.prepare(ctx)
	if err == nil {
		err = w.show(ctx)
	}
	if err == nil && !once {
		err = w.stay(ctx)
	}
	if err == nil {
		return w.end(ctx)
	}
	if w.hub != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w\n\nThe log of the hub, %s, ends with:\n%s", err, w.shown(w.hub.LogFile), w.hub.LogTail())
	}
	w.abandon()
	return err
}

// shown is how a path is printed: relative to the working directory, if it is below.
func (w *world) shown(path string) string {
	if relative, err := filepath.Rel(w.root, path); err == nil {
		return relative
	}
	return path
}
