package crowd

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// kept is how long a turn that has come is kept.
const kept = 5 * time.Second

// Crowd are those with the same kind of news. New makes one.
type Crowd struct {
	pace *rate.Limiter

	mu     sync.Mutex
	latest time.Time                          // that was asked for: for the limiter, time is not to go back
	when   map[types.NamespacedName]time.Time // the turns that were not used
	swept  time.Time                          // when those were dropped last that nobody came to
}

// AtOnce returns how many of a Crowd with so many turns a second have theirs at once, after a while in which nobody
// came: a tenth of them, and one at least. It is what a few targets have to say.
func AtOnce(perSecond int) int { return max(1, perSecond/10) }

// New returns a Crowd of which so many have their turn in a second, after AtOnce of them.
func New(perSecond int) *Crowd {
	return &Crowd{pace: rate.NewLimiter(rate.Limit(perSecond), AtOnce(perSecond)),
		when: map[types.NamespacedName]time.Time{}}
}

// Wait returns how long one has to wait for its turn. Once that is zero it may write, until Used. It may ask with a
// time that is before that of others.
func (c *Crowd) Wait(name types.NamespacedName, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.when[name]
	if !ok || now.Sub(at) > kept {
		if now.After(c.latest) {
			c.latest = now
		}
		c.sweepLocked()
		at = now // who is late and need not wait for others need not wait at all
		if delay := c.pace.ReserveN(c.latest, 1).DelayFrom(c.latest); delay > 0 {
			at = c.latest.Add(delay)
		}
		c.when[name] = at
	}
	return max(at.Sub(now), 0)
}

// sweepLocked drops turns that are over for all who may still ask, and were not used: whoever had them has nothing to
// say any more.
func (c *Crowd) sweepLocked() {
	if c.latest.Sub(c.swept) <= kept {
		return
	}
	c.swept = c.latest
	for name, at := range c.when {
		if c.latest.Sub(at) > 2*kept {
			delete(c.when, name)
		}
	}
}

// Used ends the turn of one, if it has come. A turn that is still to come keeps its place in the line.
func (c *Crowd) Used(name types.NamespacedName, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.when[name]; ok && !at.After(now) {
		delete(c.when, name)
	}
}

// Forget forgets one that is gone.
func (c *Crowd) Forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.when, name)
}
