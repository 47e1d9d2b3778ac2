package managedresource_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The source, the target and the hub are shared by all tests; each test has a namespace of its own.
var (
	source, target *testbed.Cluster
	hub            *testbed.Hub
	// clientLog is what client-go logs on its own.
	clientLog = &testbed.Log{}
)

// parallel is how many tests run at a time: they wait for the hub most of the time.
const parallel = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err) // a flag of every test binary
	}
	controlplane.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	klog.SetLogger(clientLog.Logger())
	ctrllog.SetLogger(clientLog.Logger())
	SetDefaultEventuallyTimeout(4 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	var err error
	if source, err = testbed.StartCluster(ctx, controlplane.Options{Name: "source", Audit: true}); err == nil {
		defer source.Stop()
		if target, err = testbed.StartCluster(ctx, controlplane.Options{Name: "target", Audit: true}); err == nil {
			defer target.Stop()
			err = testbed.InstallSource(ctx, source.Client)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	options := testbed.HubOptions{WrapTarget: slow.wrap, Config: func(c *configv1alpha1.HubConfiguration) {
		// Leases and plans of dry runs come into TargetClusters by timer.
		c.Controllers.TargetCluster.SyncPeriod = metav1.Duration{Duration: time.Second}
		c.Controllers.ManagedResource.KeepGarbageCollectable = true
	}}
	hub, err = testbed.StartHub(ctx, source, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return hub.RunTests(m)
}
