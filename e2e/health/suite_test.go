package health

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// What all tests share. Tests take west away, one at a time.
var (
	source, east, west *hubtest.Cluster
	hub                *hubtest.Hub
	seen               *recorder
	westTaken          sync.Mutex
)

// parallel is how many tests run at a time: they wait most of the time.
const parallel = "12"

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("The end-to-end tests need control planes; -short leaves them out.")
		return
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err) // a flag of every test binary
	}
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(90 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	before := goleak.IgnoreCurrent()
	code := run(m)
	if err := goleak.Find(before); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left at the end:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := startClusters(ctx)
	for _, c := range []*hubtest.Cluster{source, east, west} {
		if c != nil {
			defer c.Stop()
		}
	}
	if err == nil {
		seen, err = record(ctx)
	}
	if err == nil {
		defer seen.stop()
		hub, err = hubtest.StartHub(ctx, source, hubtest.HubOptions{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	hub.Stop()
	if err := hub.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err, hub.Log)
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
		{&east, controlplane.Options{Name: "east", ControllerManager: true, Scheduler: true, Kwok: true, Nodes: 1}},
		{&west, controlplane.Options{Name: "west", ControllerManager: true, Scheduler: true, Kwok: true, Nodes: 1}},
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
