package writers

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
	hubtest "github.com/trellis-hub/trellis/hack/testbed"
)

// What all tests share. The target has nodes and controllers.
var (
	source, target *hubtest.Cluster
	hub            *hubtest.Hub
	seen           *hubtest.Observer
)

func TestMain(m *testing.M) {
	hubtest.Suite{Patience: 90 * time.Second, Poll: 100 * time.Millisecond, Parallel: 12}.Main(m, run)
}

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	clusters, err := hubtest.StartSource(ctx,
		controlplane.Options{Name: "source"},
		controlplane.Options{Name: "target", Audit: true, ControllerManager: true, Scheduler: true, Kwok: true, Nodes: 1},
	)
	if err == nil {
		defer hubtest.StopClusters(clusters...)
		source, target = clusters[0], clusters[1]
		seen, err = hubtest.Observe(ctx, source, hubtest.ObserverOptions{History: true})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer seen.Stop()
	return hubtest.RunHub(ctx, m, source, func(h *hubtest.Hub) { hub = h })
}
