package writers

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// What all tests share. The target has nodes and controllers.
var (
	source, target *testbed.Cluster
	hub            *testbed.Hub
	seen           *testbed.Observer
)

func TestMain(m *testing.M) {
	testbed.Suite{Patience: 90 * time.Second, Poll: 100 * time.Millisecond, Parallel: 12}.Main(m, run)
}

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	clusters, err := testbed.StartSource(ctx,
		controlplane.Options{Name: "source"},
		controlplane.Options{Name: "target", Audit: true, ControllerManager: true, Scheduler: true, Kwok: true, Nodes: 1},
	)
	if err == nil {
		defer testbed.StopClusters(clusters...)
		source, target = clusters[0], clusters[1]
		seen, err = testbed.Observe(ctx, source, testbed.ObserverOptions{History: true})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer seen.Stop()
	return testbed.RunHub(ctx, m, source, func(h *testbed.Hub) { hub = h })
}
