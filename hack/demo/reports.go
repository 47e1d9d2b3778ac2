package main

import (
	"context"
	"fmt"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listPause is how long to wait before the events are listed again after that failed.
const listPause = time.Second

// reports are the events of the hub from now on. The channel is closed when ctx ends, and not before: API servers end
// each watch after half an hour to an hour, and forget old resource versions.
func reports(ctx context.Context, from client.WithWatch) (<-chan *eventsv1.Event, error) {
	version, err := eventVersion(ctx, from)
	if err != nil {
		return nil, err
	}
	out := make(chan *eventsv1.Event)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			if err == nil {
				err = report(ctx, from, version, out)
			}
			if err != nil {
				select {
				case <-time.After(listPause):
				case <-ctx.Done():
				}
			}
			version, err = eventVersion(ctx, from)
		}
	}()
	return out, nil
}

// eventVersion is the resource version of the events of now.
func eventVersion(ctx context.Context, from client.Reader) (string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(eventsv1.SchemeGroupVersion.WithKind("EventList"))
	if err := from.List(ctx, list, client.Limit(1)); err != nil {
		return "", fmt.Errorf("reading events: %w", err)
	}
	return list.ResourceVersion, nil
}

// report passes on the events of the hub since a resource version, until the API server forgot the version that it would
// continue from.
func report(ctx context.Context, from client.WithWatch, version string, out chan<- *eventsv1.Event) error {
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, &eventsv1.EventList{}, &client.ListOptions{Raw: &options})
		},
	})
	if err != nil {
		return fmt.Errorf("watching events: %w", err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		e, ok := event.Object.(*eventsv1.Event)
		if !ok || e.ReportingController != "trellis" || event.Type == watch.Deleted {
			continue
		}
		select {
		case out <- e:
		case <-ctx.Done():
		}
	}
	return nil
}
