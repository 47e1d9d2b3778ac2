package hubtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// Version is a ManagedResource as it was seen at a time.
type Version struct {
	*resourcesv1alpha1.ManagedResource
	At time.Time
}

// Recorder remembers every version of every ManagedResource of a source cluster.
type Recorder struct {
	watching interface{ Stop() }
	done     sync.WaitGroup

	mu       sync.Mutex
	versions map[types.NamespacedName][]Version
}

// Record watches a source cluster until Stop is called.
func Record(ctx context.Context, source *Cluster) (*Recorder, error) {
	c, err := client.NewWithWatch(source.RESTConfig(), client.Options{Scheme: Scheme()})
	if err != nil {
		return nil, fmt.Errorf("client to record ManagedResources with: %w", err)
	}
	w, err := c.Watch(ctx, &resourcesv1alpha1.ManagedResourceList{})
	if err != nil {
		return nil, fmt.Errorf("watching ManagedResources: %w", err)
	}
	r := &Recorder{watching: w, versions: map[types.NamespacedName][]Version{}}
	r.done.Go(func() {
		for event := range w.ResultChan() {
			if mr, ok := event.Object.(*resourcesv1alpha1.ManagedResource); ok {
				key := client.ObjectKeyFromObject(mr)
				r.mu.Lock()
				r.versions[key] = append(r.versions[key], Version{mr, time.Now()})
				r.mu.Unlock()
			}
		}
	})
	return r, nil
}

// Stop ends the watch.
func (r *Recorder) Stop() {
	r.watching.Stop()
	r.done.Wait()
}

// Of returns the versions of a ManagedResource that were seen so far.
func (r *Recorder) Of(key types.NamespacedName) []Version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.versions[key])
}
