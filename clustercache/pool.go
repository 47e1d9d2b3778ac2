package clustercache

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/semaphore"
)

// pool bounds how many of the cache's own calls are under way, fair between namespaces first and then between targets.
// Each seat is released after a deadline.
type pool struct{ *semaphore.Semaphore }

func newPool(size int) pool {
	seats := int64(size)
	return pool{semaphore.New(semaphore.Options{Size: seats, PerNamespace: semaphore.NamespaceShare(seats)})}
}

func (p pool) do(ctx context.Context, of ClusterKey, timeout time.Duration, f func(context.Context) error) error {
	release, err := p.Acquire(ctx, of, 1)
	if err != nil {
		return err //nolint:wrapcheck // it is the cause of ctx
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return f(ctx)
}

// pacer lets events of all targets happen at a rate. It is fair like a pool: a namespace that has very many of them
// delays only its own. Each event holds a seat for a fixed time, and the number of seats results in the rate.
type pacer struct {
	pool
	hold  time.Duration
	clock clock.WithDelayedExecution
}

func newPacer(perSecond float64, c clock.WithDelayedExecution) pacer {
	size := max(1, int(perSecond)/4)
	return pacer{pool: newPool(size), hold: time.Duration(float64(size) / perSecond * float64(time.Second)), clock: c}
}

// wait returns when the next event may happen, or the cause of ctx if that ends first.
func (p pacer) wait(ctx context.Context, of ClusterKey) error {
	release, err := p.Acquire(ctx, of, 1)
	if err != nil {
		return err //nolint:wrapcheck // it is the cause of ctx
	}
	p.clock.AfterFunc(p.hold, release)
	return nil
}
