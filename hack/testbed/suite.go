package testbed

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/hack/controlplane"
)

// Suite is how the end-to-end tests of a package run.
type Suite struct {
	// Patience is how long Eventually waits, and Poll how often it looks.
	Patience, Poll time.Duration
	// Parallel is how many tests run at a time; zero leaves that to the number of processors. Tests that wait most of the
	// time need more.
	Parallel int
}

// Main runs the tests and exits. run starts what they share and ends it; goroutines that are left then make the run fail.
func (s Suite) Main(m *testing.M, run func(*testing.M) int) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("The end-to-end tests need control planes; -short leaves them out.")
		return
	}
	if s.Parallel > 0 {
		if err := flag.Set("test.parallel", fmt.Sprint(s.Parallel)); err != nil {
			panic(err) // a flag of every test binary
		}
	}
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(s.Patience)
	SetDefaultEventuallyPollingInterval(s.Poll)
	before := goleak.IgnoreCurrent()
	controlplane.Exit(run(m), before)
}

// RunHub starts a hub for all tests of a package, runs them, and ends it. started is given the hub before the first test.
func RunHub(ctx context.Context, m *testing.M, source *Cluster, started func(*Hub)) int {
	hub, err := StartHub(ctx, source, HubOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	started(hub)
	return hub.RunTests(m)
}

// StartClusters starts control planes beside each other. If one fails, none is left.
func StartClusters(ctx context.Context, options ...controlplane.Options) ([]*Cluster, error) {
	clusters := make([]*Cluster, len(options))
	group, ctx := errgroup.WithContext(ctx)
	for i, o := range options {
		group.Go(func() (err error) {
			clusters[i], err = StartCluster(ctx, o)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		StopClusters(clusters...)
		return nil, err
	}
	return clusters, nil
}

// StartSource is StartClusters, and makes the first one a source.
func StartSource(ctx context.Context, options ...controlplane.Options) ([]*Cluster, error) {
	clusters, err := StartClusters(ctx, options...)
	if err != nil {
		return nil, err
	}
	if err := InstallSource(ctx, clusters[0].Client); err != nil {
		StopClusters(clusters...)
		return nil, err
	}
	return clusters, nil
}

// StopClusters stops control planes. Those that are nil were never started.
func StopClusters(clusters ...*Cluster) {
	for _, c := range clusters {
		if c != nil {
			c.Stop()
		}
	}
}

// RunTests runs the tests beside a hub, ends it, and returns the exit code. A hub that ended with an error makes the run fail.
func (h *Hub) RunTests(m *testing.M) int {
	code := m.Run()
	h.Stop()
	if err := h.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err, h.Log)
		return 1
	}
	return code
}
