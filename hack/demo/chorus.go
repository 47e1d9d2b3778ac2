package main

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// chorus waits for several things at a time and prints each when it happens, with the time since it was asked for.
type chorus struct {
	world *world
	group errgroup.Group
	mu    sync.Mutex // one line at a time
}

func newChorus(w *world) *chorus { return &chorus{world: w} }

// add waits for something that returns when it happened, and the text to print.
func (c *chorus) add(happens func() (time.Time, string, error)) {
	began := time.Now()
	c.group.Go(func() error {
		when, text, err := happens()
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.world.measured(when.Sub(began), "%s", text)
		return nil
	})
}

// await waits for an object that the observer sees.
func (c *chorus) await(ctx context.Context, ref testbed.Ref, wanted func(testbed.Entry) bool, text func(
	testbed.Entry) string) {
	c.add(func() (time.Time, string, error) {
		entry, err := c.world.observer.Await(ctx, ref, wanted)
		if err != nil {
			return time.Time{}, "", err
		}
		return entry.Since, text(entry), nil
	})
}

func (c *chorus) wait() error { return c.group.Wait() }
