package informers

import (
	"context"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follow calls changed for all changes of the objects of a kind until ctx ends, at first for those that exist, with
// initial. before is nil for an object that is new, after for one that is gone. Calls are sequential and have to be
// quick. It returns when all that exist were handled; the handler has been taken off when work is done.
func Follow[T client.Object](
	ctx context.Context, informers cache.Informers, kind T, work *sync.WaitGroup,
	changed func(before, after T, initial bool),
) error {
	informer, err := informers.GetInformer(ctx, kind)
	if err != nil {
		return fmt.Errorf("watching %T: %w", kind, err)
	}
	if err := follow(ctx, informer, work, changed); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("watching %T: %w", kind, err)
	}
	return nil
}

// follower is the part of an informer that Follow needs.
type follower interface {
	AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error)
	RemoveEventHandler(registration toolscache.ResourceEventHandlerRegistration) error
}

func follow[T client.Object](
	ctx context.Context, informer follower, work *sync.WaitGroup, changed func(before, after T, initial bool),
) error {
	var none T
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if after, is := obj.(T); is {
				changed(none, after, initial)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, is := old.(T)
			after, are := obj.(T)
			if is && are {
				changed(before, after, false)
			}
		},
		DeleteFunc: func(obj any) {
			if before, is := Object(obj).(T); is {
				changed(before, none, false)
			}
		},
	})
	if err != nil {
		return err //nolint:wrapcheck // the caller says what was watched
	}
	work.Add(1)
	context.AfterFunc(ctx, func() {
		defer work.Done()
		_ = informer.RemoveEventHandler(registration) // it fails if the informer has ended
	})
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return ctx.Err()
	}
	return nil
}
