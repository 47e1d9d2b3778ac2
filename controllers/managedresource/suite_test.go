package managedresource_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

var source, target *hubtest.Cluster

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	var err error
	if source, err = hubtest.StartCluster(ctx, controlplane.Options{Name: "source", Audit: true}); err == nil {
		defer source.Stop()
		if target, err = hubtest.StartCluster(ctx, controlplane.Options{Name: "target", Audit: true}); err == nil {
			defer target.Stop()
			err = hubtest.InstallSource(ctx, source.Client)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	hub, err := hubtest.StartHub(ctx, source, hubtest.HubOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	hub.Stop()
	if code != 0 || hub.Err() != nil {
		fmt.Fprintln(os.Stderr, hub.Err(), hub.Log)
	}
	return code
}
