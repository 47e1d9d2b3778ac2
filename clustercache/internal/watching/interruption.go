package watching

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// gapMax is how long what is kept is relied upon after a watch ended and before another one is open.
	gapMax = 10 * time.Second
	// quiet is how long a watch that was opened again must say nothing to have told what was missed; an API server tells it
	// at once, and that it has forgotten the version, too.
	quiet = time.Second
	// quietMax is how long one is waited for to be quiet that says nothing about itself either: API servers that know bookmarks
	// send one about every minute.
	quietMax = 90 * time.Second
)

// gap is the time between two watches, and that in which the second one tells what was missed. It has one timer, which is
// stopped nearly all of the time.
type gap struct {
	mu    sync.Mutex
	timer clock.Timer
	// waiting is true while there is no second watch.
	waiting bool
	// catching is true while the second watch may not have told all. It is changed under the lock.
	catching atomic.Bool
	opened   time.Time
	outages  uint64 // the connection had had when it was opened
}

// stop ends whatever is waited for, and tells whether that was to hear what was missed.
func (g *gap) stop() (catching bool, outages uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
	g.timer, g.waiting = nil, false
	return g.catching.Swap(false), g.outages
}

// ended begins a gap.
func (b *Binding) ended() {
	b.gap.stop()
	b.gap.mu.Lock()
	defer b.gap.mu.Unlock()
	b.gap.waiting = true
	b.gap.timer = b.connection.Clock.AfterFunc(gapMax, b.lapse)
}

// lapse ends the reliance on what is kept, unless there is another watch by now.
func (b *Binding) lapse() {
	b.gap.mu.Lock()
	defer b.gap.mu.Unlock()
	if b.gap.waiting {
		b.watch.doubt(b)
	}
}

// reopened ends a gap. What is kept is relied upon at once if it was all the time, else once all is told that was missed.
func (b *Binding) reopened(now time.Time) {
	b.gap.stop()
	if b.listing != nil || b.watch.trusts(b) {
		return
	}
	b.gap.mu.Lock()
	defer b.gap.mu.Unlock()
	b.gap.opened, b.gap.outages = now, b.connection.outages()
	b.gap.catching.Store(true)
	b.gap.timer = b.connection.Clock.AfterFunc(quiet, b.listen)
}

// listen finds out whether a watch that was opened again has become quiet.
func (b *Binding) listen() {
	now := b.connection.Clock.Now()
	b.gap.mu.Lock()
	silent := b.hearing.silent(now)
	if b.gap.catching.Load() && silent < quiet && now.Sub(b.gap.opened) < quietMax {
		b.gap.timer = b.connection.Clock.AfterFunc(quiet-silent, b.listen)
		b.gap.mu.Unlock()
		return
	}
	b.gap.mu.Unlock()
	b.caughtUp()
}

// caughtUp has what is kept relied upon again.
func (b *Binding) caughtUp() {
	if catching, outages := b.gap.stop(); catching {
		b.achieved.Store(true)
		b.watch.trust(b, outages)
	}
}
