package testbed

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follower is a watch of one object.
type Follower struct {
	name  string
	watch watch.Interface
}

// Follow begins to watch an object, which may or may not exist. Whatever happens after it returned is seen.
func Follow(ctx context.Context, cluster *Cluster, kind schema.GroupVersionKind, key client.ObjectKey) (
	*Follower, error) {
	w, err := cluster.Client.Watch(ctx, listOf(kind), client.InNamespace(key.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", key.Name)})
	name := fmt.Sprintf("%s %s in %s", kind.Kind, key, cluster.Name)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", name, err)
	}
	return &Follower{name: name, watch: w}, nil
}

// Until waits for a state of the object and returns when it was seen. A state of nil means that it does not exist.
func (f *Follower) Until(ctx context.Context, wanted func(*unstructured.Unstructured) bool) (time.Time, error) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	var last *unstructured.Unstructured
	for {
		select {
		case event, open := <-f.watch.ResultChan():
			now := time.Now()
			if err := failure(event, open); err != nil {
				return now, fmt.Errorf("watching %s: %w", f.name, err)
			}
			last, _ = event.Object.(*unstructured.Unstructured)
			if event.Type == watch.Deleted {
				last = nil
			}
			if wanted(last) {
				return now, nil
			}
		case <-timeout.C:
			return time.Now(), fmt.Errorf("%s is not as expected after %s, but: %v", f.name, patience, last)
		case <-ctx.Done():
			return time.Now(), fmt.Errorf("watching %s: %w", f.name, context.Cause(ctx))
		}
	}
}

// Stop ends the watch.
func (f *Follower) Stop() { f.watch.Stop() }

func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	kind.Kind += "List"
	list.SetGroupVersionKind(kind)
	return list
}

func failure(event watch.Event, open bool) error {
	switch {
	case !open:
		return fmt.Errorf("the watch ended")
	case event.Type == watch.Error:
		return apierrors.FromObject(event.Object)
	}
	return nil
}
