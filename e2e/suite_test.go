package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/cmd/trellis/app"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// patience is how long something may take that takes a second or a few on an idle machine.
const patience = 60 * time.Second

// childEnv makes the test binary a hub, so that a hub can be killed.
const childEnv = "TRELLIS_E2E_HUB"

// The control planes that all tests share. West has nodes and controllers, so that workloads roll out there.
var source, east, west *hubtest.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(beHub())
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("The end-to-end tests need control planes; -short leaves them out.")
		return
	}
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	before := goleak.IgnoreCurrent()
	code := 1
	if err := startClusters(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	for _, c := range []*hubtest.Cluster{source, east, west} {
		if c != nil {
			c.Stop()
		}
	}
	if err := goleak.Find(before); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left at the end:", err)
		return 1
	}
	return code
}

func startClusters(ctx context.Context) error {
	var group errgroup.Group
	for _, c := range []struct {
		cluster **hubtest.Cluster
		options controlplane.Options
	}{
		{&source, controlplane.Options{Name: "source", Audit: true}},
		{&east, controlplane.Options{Name: "east", Audit: true}},
		{&west, controlplane.Options{Name: "west", Audit: true, ControllerManager: true, Scheduler: true, Kwok: true, Nodes: 1}},
	} {
		group.Go(func() (err error) {
			*c.cluster, err = hubtest.StartCluster(ctx, c.options)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return hubtest.InstallSource(ctx, source.Client)
}

// beHub runs the command of the hub until a signal comes or the test that started it is gone.
func beHub() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the other end is closed
		cancel(errors.New("the test is gone"))
	}()
	if err := app.Main(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
