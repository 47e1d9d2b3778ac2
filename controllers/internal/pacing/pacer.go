package pacing

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// kept is how long a reservation that is due is kept.
const kept = 5 * time.Second

// Pacer paces writes by name. New makes one. It is safe for concurrent use.
type Pacer struct {
	limiter *rate.Limiter

	mu       sync.Mutex
	latest   time.Time // that was asked for: the limiter must not see time go back
	reserved map[types.NamespacedName]time.Time
	swept    time.Time // when unused reservations were dropped last
}

// Burst returns how many writes a Pacer of so many a second lets pass at once after a quiet time: a tenth of them, and
// at least one.
func Burst(perSecond int) int { return max(1, perSecond/10) }

// New returns a Pacer of so many writes a second, after a Burst.
func New(perSecond int) *Pacer {
	return &Pacer{limiter: rate.NewLimiter(rate.Limit(perSecond), Burst(perSecond)),
		reserved: map[types.NamespacedName]time.Time{}}
}

// Delay returns how long a name has to wait before it may write. Once that is zero it may, until Written. It may ask
// with a time that is before that of others.
func (p *Pacer) Delay(name types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.reserved[name]
	if !ok || now.Sub(at) > kept {
		if now.After(p.latest) {
			p.latest = now
		}
		p.sweepLocked()
		at = now // a name that asks late and need not wait for others need not wait at all
		if delay := p.limiter.ReserveN(p.latest, 1).DelayFrom(p.latest); delay > 0 {
			at = p.latest.Add(delay)
		}
		p.reserved[name] = at
	}
	return max(at.Sub(now), 0)
}

// sweepLocked drops reservations that were not used and are too old to be used.
func (p *Pacer) sweepLocked() {
	if p.latest.Sub(p.swept) <= kept {
		return
	}
	p.swept = p.latest
	for name, at := range p.reserved {
		if p.latest.Sub(at) > 2*kept {
			delete(p.reserved, name)
		}
	}
}

// Written ends the reservation of a name if it is due. One that is still to come is kept.
func (p *Pacer) Written(name types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.reserved[name]; ok && !at.After(now) {
		delete(p.reserved, name)
	}
}

// Forget drops the reservation of an object that is gone.
func (p *Pacer) Forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.reserved, name)
}
