package chart

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// What the tests share. They use the names of the chart, so they run one after the other.
var (
	source, target *testbed.Cluster
	binary         string // the hub
)

func TestMain(m *testing.M) {
	testbed.Suite{Patience: 2 * time.Minute, Poll: 200 * time.Millisecond}.Main(m, run)
}

func run(m *testing.M) int {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "trellis-e2e-chart-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		binary, err = build(ctx, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var start errgroup.Group
	start.Go(func() (err error) {
		source, err = testbed.StartCluster(ctx,
			controlplane.Options{Name: "source", ControllerManager: true, Scheduler: true, Nodes: 2})
		return err
	})
	start.Go(func() (err error) {
		target, err = testbed.StartCluster(ctx, controlplane.Options{Name: "target"})
		return err
	})
	err = start.Wait()
	for _, c := range []*testbed.Cluster{source, target} {
		if c != nil {
			defer c.Stop()
		}
	}
	if err == nil {
		// What the chart recognises a seed by.
		err = source.Client.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "gardener-system-critical"}, Value: 999998950})
	}
	if err == nil {
		err = labelNodes(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// labelNodes puts each node of the source into a zone of its own, with the labels that kubelets and clouds set.
func labelNodes(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := source.Client.List(ctx, nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q,%q:%q}}}`, corev1.LabelHostname, node.Name, corev1.LabelTopologyZone, "zone-of-"+node.Name)
		if err := source.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return err
		}
	}
	return nil
}
