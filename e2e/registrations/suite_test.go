package registrations

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
)

// What all tests share.
var (
	source *testbed.Cluster
	hub    *testbed.Hub
)

func TestMain(m *testing.M) {
	testbed.Suite{Patience: 90 * time.Second, Poll: 100 * time.Millisecond, Parallel: 12}.Main(m, run)
}

func run(m *testing.M) int {
	ctx := context.Background()
	clusters, err := testbed.StartSource(ctx, controlplane.Options{Name: "source", ControllerManager: true})
	if err == nil {
		defer testbed.StopClusters(clusters...)
		source = clusters[0]
		for _, policy := range chart.DeletionGuard() {
			if err == nil {
				err = source.Client.Create(ctx, policy)
			}
		}
	}
	if err == nil {
		hub, err = testbed.StartHub(ctx, source, testbed.HubOptions{Config: func(c *configv1alpha1.HubConfiguration) {
			c.Controllers.TargetCluster.SyncPeriod.Duration = 2 * time.Second // how soon figures are written
			c.ClusterCache.DrainTimeout.Duration = 30 * time.Second
			c.ClusterCache.MassDisconnectLimit.Duration = time.Second // tests lose one target after the other
		}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return hub.RunTests(m)
}
