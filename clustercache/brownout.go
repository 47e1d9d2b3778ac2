package clustercache

import (
	"container/list"
	"math"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// brownoutLeast is how many targets have to be lost at least: of a few clusters, two may well fail together.
const brownoutLeast = 3

// brownout notices that many targets are lost together. Then it is more likely the hub's own network than they.
type brownout struct {
	share         float64 // of the connected targets
	window, limit time.Duration
	log           logr.Logger

	mu        sync.Mutex
	connected map[ClusterKey]struct{}
	lost      map[ClusterKey]*list.Element // in order
	order     *list.List                   // of losses, the oldest first
	since     time.Time                    // zero if there is none
	until     time.Time                    // by when there is none any more, whatever the targets do
	end       int                          // it ends when fewer than these are lost
	ended     time.Time                    // when the last one did
}

type loss struct {
	key ClusterKey
	at  time.Time
}

func newBrownout(o *Options) *brownout {
	return &brownout{
		share: float64(o.BrownoutPercent) / 100, window: o.BrownoutWindow, limit: o.BrownoutLimit, log: o.Logger,
		connected: map[ClusterKey]struct{}{}, lost: map[ClusterKey]*list.Element{}, order: list.New(),
	}
}

// gained notes that a target is connected.
func (b *brownout) gained(key ClusterKey, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetLocked(key)
	b.connected[key] = struct{}{}
	b.settleLocked(now)
}

// gone notes that nobody expects a target to be connected, or that it is not for a reason of its own.
func (b *brownout) gone(key ClusterKey, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetLocked(key)
	delete(b.connected, key)
	b.settleLocked(now)
}

// went notes that a target was lost. Static targets are no part of the fleet.
func (b *brownout) went(key ClusterKey, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetLocked(key)
	delete(b.connected, key)
	if key.Namespace != "" {
		b.lost[key] = b.order.PushBack(loss{key, now})
	}
	b.settleLocked(now)
	together := len(b.lost)
	need := max(brownoutLeast, int(math.Ceil(b.share*float64(together+len(b.connected)))))
	if b.since.IsZero() && together >= need {
		b.since, b.until, b.end = now, now.Add(b.limit), (need+1)/2
		b.log.Info("Many targets were lost together; it may be the hub's own network", "lost", together, "connected", len(b.connected))
	}
}

// active tells whether the hub's own network is suspected.
func (b *brownout) active(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settleLocked(now)
	return !b.since.IsZero()
}

// last returns when the hub's own network was last suspected: now, if it is; zero if it never was.
func (b *brownout) last(now time.Time) time.Time {
	if b.active(now) {
		return now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// settleLocked forgets losses that are too old to have to do with others, and ends what is over. During a brownout all that
// were lost since its beginning belong together.
func (b *brownout) settleLocked(now time.Time) {
	switch {
	case b.since.IsZero():
	case !now.Before(b.until):
		b.log.Info("Many targets are lost for so long that it counts as theirs", "lost", len(b.lost), "since", b.since)
		b.since, b.ended = time.Time{}, now
		clear(b.lost)
		b.order.Init()
	case len(b.lost) < b.end:
		b.log.Info("Most targets are back that were lost together", "lost", len(b.lost), "since", b.since)
		b.since, b.ended = time.Time{}, now
	default:
		return
	}
	for first := b.order.Front(); first != nil; first = b.order.Front() {
		l, ok := first.Value.(loss)
		if ok && now.Sub(l.at) < b.window {
			return
		}
		b.forgetLocked(l.key)
	}
}

func (b *brownout) forgetLocked(key ClusterKey) {
	if e := b.lost[key]; e != nil {
		b.order.Remove(e)
		delete(b.lost, key)
	}
}
