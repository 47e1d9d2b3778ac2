package hub_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

var targets = flag.Int("fleet.targets", 4, "number of simulated targets")

// source is the cluster that all tests share.
var source *testbed.Cluster

func TestMain(m *testing.M) {
	testbed.Suite{Patience: 3 * time.Minute, Poll: 100 * time.Millisecond}.Main(m, func(m *testing.M) int {
		clusters, err := testbed.StartSource(context.Background(), controlplane.Options{Name: "source"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer testbed.StopClusters(clusters...)
		source = clusters[0]
		return m.Run()
	})
}
