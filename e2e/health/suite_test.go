package health

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// What all tests share. Tests take west away, one at a time.
var (
	source, east, west *testbed.Cluster
	hub                *testbed.Hub
	seen               *testbed.Observer
	westTaken          sync.Mutex
)

func TestMain(m *testing.M) {
	testbed.Suite{Patience: 90 * time.Second, Poll: 100 * time.Millisecond, Parallel: 12}.Main(m, run)
}

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	clusters, err := testbed.StartSource(ctx,
		controlplane.Options{Name: "source", Audit: true},
		controlplane.Options{Name: "east", ControllerManager: true, Scheduler: true, Kwok: true, Nodes: 1},
		controlplane.Options{Name: "west", ControllerManager: true, Scheduler: true, Kwok: true, Nodes: 1},
	)
	if err == nil {
		defer testbed.StopClusters(clusters...)
		source, east, west = clusters[0], clusters[1], clusters[2]
		seen, err = testbed.Observe(ctx, source, testbed.ObserverOptions{History: true})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer seen.Stop()
	return testbed.RunHub(ctx, m, source, func(h *testbed.Hub) { hub = h })
}
