package writers

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// What all tests share. The target has nodes and controllers.
var (
	source, target *hubtest.Cluster
	hub            *hubtest.Hub
	seen           *recorder
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
	if err := startClusters(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer source.Stop()
	defer target.Stop()
	var err error
	if seen, err = record(ctx); err == nil {
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
	group, grouped := errgroup.WithContext(ctx)
	for _, c := range []struct {
		cluster **hubtest.Cluster
		options controlplane.Options
	}{
		{&source, controlplane.Options{Name: "source"}},
		{&target, controlplane.Options{Name: "target", Audit: true, ControllerManager: true, Scheduler: true, Kwok: true, Nodes: 1}},
	} {
		group.Go(func() (err error) {
			*c.cluster, err = hubtest.StartCluster(grouped, c.options)
			return err
		})
	}
	err := group.Wait()
	if err == nil {
		err = hubtest.InstallSource(ctx, source.Client)
	}
	if err != nil {
		for _, c := range []*hubtest.Cluster{source, target} {
			if c != nil {
				c.Stop()
			}
		}
	}
	return err
}

// recorder remembers every version of every ManagedResource.
type recorder struct {
	mu       sync.Mutex
	versions map[types.NamespacedName][]*resourcesv1alpha1.ManagedResource
	stop     func()
}

func record(ctx context.Context) (*recorder, error) {
	c, err := client.NewWithWatch(source.RESTConfig(), client.Options{Scheme: hubtest.Scheme()})
	if err != nil {
		return nil, err
	}
	w, err := c.Watch(ctx, &resourcesv1alpha1.ManagedResourceList{})
	if err != nil {
		return nil, err
	}
	r := &recorder{versions: map[types.NamespacedName][]*resourcesv1alpha1.ManagedResource{}}
	var done sync.WaitGroup
	done.Go(func() {
		for event := range w.ResultChan() {
			if mr, ok := event.Object.(*resourcesv1alpha1.ManagedResource); ok {
				r.mu.Lock()
				key := client.ObjectKeyFromObject(mr)
				r.versions[key] = append(r.versions[key], mr)
				r.mu.Unlock()
			}
		}
	})
	r.stop = func() { w.Stop(); done.Wait() }
	return r, nil
}

// of returns the versions of a ManagedResource that were seen so far.
func (r *recorder) of(namespace, name string) []*resourcesv1alpha1.ManagedResource {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*resourcesv1alpha1.ManagedResource(nil), r.versions[types.NamespacedName{Namespace: namespace, Name: name}]...)
}
