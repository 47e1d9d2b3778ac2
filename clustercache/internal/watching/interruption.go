package watching

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// interruptionMax is how long what is kept is relied upon after a watch ended and before another one is open.
	interruptionMax = 10 * time.Second
	// quiet is how long a watch that was opened again must say nothing to have delivered what was missed; an API server
	// sends it at once, and that it has forgotten the version, too.
	quiet = time.Second
	// quietMax is how long one is waited for to be quiet that says nothing about itself either: API servers that know
	// bookmarks send one about every minute.
	quietMax = 90 * time.Second
)

// interruption is the time between two watches, and that in which the second one sends the missed events. It has one
// timer, which is stopped nearly all of the time.
type interruption struct {
	mu    sync.Mutex
	timer clock.Timer
	// waiting is true while there is no second watch.
	waiting bool
	// catching is true while the second watch may not have delivered all. It is changed under the lock.
	catching atomic.Bool
	opened   time.Time
	outages  uint64 // the connection had had when it was opened
}

// stop ends whatever is waited for, and reports whether that was to receive what was missed.
func (g *interruption) stop() (catching bool, outages uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
	g.timer, g.waiting = nil, false
	return g.catching.Swap(false), g.outages
}

// ended begins an interruption.
func (b *Binding) ended() {
	b.interruption.stop()
	b.interruption.mu.Lock()
	defer b.interruption.mu.Unlock()
	b.interruption.waiting = true
	b.interruption.timer = b.connection.Clock.AfterFunc(interruptionMax, b.lapse)
}

// lapse ends the reliance on what is kept, unless there is another watch by now.
func (b *Binding) lapse() {
	b.interruption.mu.Lock()
	defer b.interruption.mu.Unlock()
	if b.interruption.waiting {
		b.watch.distrust(b)
	}
}

// reopened ends an interruption. If what is kept stayed trustworthy, it counts at once, otherwise after all missed
// changes were delivered.
func (b *Binding) reopened(now time.Time) {
	b.interruption.stop()
	if b.listing != nil || b.watch.trusts(b) {
		return
	}
	b.interruption.mu.Lock()
	defer b.interruption.mu.Unlock()
	b.interruption.opened, b.interruption.outages = now, b.connection.outages()
	b.interruption.catching.Store(true)
	b.interruption.timer = b.connection.Clock.AfterFunc(quiet, b.listen)
}

// listen finds out whether a watch that was opened again has become quiet.
func (b *Binding) listen() {
	now := b.connection.Clock.Now()
	b.interruption.mu.Lock()
	silent := b.activity.silent(now)
	if b.interruption.catching.Load() && silent < quiet && now.Sub(b.interruption.opened) < quietMax {
		b.interruption.timer = b.connection.Clock.AfterFunc(quiet-silent, b.listen)
		b.interruption.mu.Unlock()
		return
	}
	b.interruption.mu.Unlock()
	b.caughtUp()
}

// caughtUp has what is kept relied upon again.
func (b *Binding) caughtUp() {
	if catching, outages := b.interruption.stop(); catching {
		b.achieved.Store(true)
		b.watch.trust(b, outages)
	}
}
