package restore

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// What all tests share. Each test has hubs of its own, one after the other.
var source, target *testbed.Cluster

func TestMain(m *testing.M) {
	testbed.Suite{Patience: 2 * time.Minute, Poll: 100 * time.Millisecond}.Main(m, run)
}

func run(m *testing.M) int {
	clusters, err := testbed.StartSource(context.Background(),
		controlplane.Options{Name: "source"}, controlplane.Options{Name: "target"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer testbed.StopClusters(clusters...)
	source, target = clusters[0], clusters[1]
	return m.Run()
}
