package connection

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/semaphore"
)

// Pool bounds how many of the cache's own calls to all targets are under way, fair between namespaces first and then
// between targets. Each seat is released after a deadline.
type Pool struct{ *semaphore.Semaphore }

// NewPool returns a pool with a number of seats.
func NewPool(size int) Pool {
	seats := int64(size)
	return Pool{semaphore.New(semaphore.Options{Size: seats, PerNamespace: semaphore.NamespaceShare(seats)})}
}

// Do calls f with a deadline as soon as there is a seat. It returns the cause of ctx if that ends first.
func (p Pool) Do(
	ctx context.Context, of types.NamespacedName, timeout time.Duration, f func(context.Context) error,
) error {
	release, err := p.Acquire(ctx, of, 1)
	if err != nil {
		return err //nolint:wrapcheck // it is the cause of ctx
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return f(ctx)
}

// Pacer lets events of all targets happen at a rate. It is fair like a pool: a namespace that has very many of them
// delays only its own. Each event holds a seat for a fixed time, and the number of seats results in the rate.
type Pacer struct {
	pool  Pool
	hold  time.Duration
	clock clock.WithDelayedExecution
}

// NewPacer returns a pacer for a number of events in a second.
func NewPacer(perSecond float64, c clock.WithDelayedExecution) Pacer {
	size := max(1, int(perSecond)/4)
	hold := time.Duration(float64(size) / perSecond * float64(time.Second))
	return Pacer{pool: NewPool(size), hold: hold, clock: c}
}

// Wait returns when the next event may happen, or the cause of ctx if that ends first.
func (p Pacer) Wait(ctx context.Context, of types.NamespacedName) error {
	release, err := p.pool.Acquire(ctx, of, 1)
	if err != nil {
		return err //nolint:wrapcheck // it is the cause of ctx
	}
	p.clock.AfterFunc(p.hold, release)
	return nil
}
