package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-hub/trellis/cmd/trellis/app"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// patience is how long something may take that takes a second or a few on an idle machine.
const patience = 2 * time.Minute

// childEnv makes the test binary a hub, so that a hub can be killed.
const childEnv = "TRELLIS_E2E_HUB"

// The control planes that all tests share. West has nodes and controllers, so that workloads roll out there.
var source, east, west *testbed.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(beHub())
	}
	testbed.Suite{Patience: patience, Poll: 50 * time.Millisecond}.Main(m, run)
}

func run(m *testing.M) int {
	clusters, err := testbed.StartSource(context.Background(),
		controlplane.Options{Name: "source", Audit: true},
		controlplane.Options{Name: "east", Audit: true},
		controlplane.Options{Name: "west", Audit: true, ControllerManager: true, Scheduler: true, Kwok: true, Nodes: 1,
			// As API servers of shoots, it takes tokens for Gardener's components.
			ExtraAPIServerArgs: []string{"--api-audiences=https://kubernetes.default.svc.cluster.local,gardener"}},
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer testbed.StopClusters(clusters...)
	source, east, west = clusters[0], clusters[1], clusters[2]
	return m.Run()
}

// beHub runs the command of the hub until a signal or the end of the test that started it.
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
