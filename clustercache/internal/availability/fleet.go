package availability

import (
	"container/list"
	"math"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// Options of a Fleet.
type Options struct {
	// Grace is how long a lost connection is kept.
	Grace time.Duration
	// MassPercent is the share of the connected targets that have to be lost within MassWindow for a mass disconnect,
	// which lasts for MassLimit at most.
	MassPercent           int
	MassWindow, MassLimit time.Duration
	Logger                logr.Logger
}

// massLeast is how many targets have to be lost at least: of a few clusters, two may well fail together.
const massLeast = 3

// Fleet knows which targets are connected, and notices that many are lost together.
type Fleet struct {
	options Options

	mu        sync.Mutex
	connected map[types.NamespacedName]struct{}
	lost      map[types.NamespacedName]*list.Element // in order
	order     *list.List                             // of losses, the oldest first
	since     time.Time                              // when the mass disconnect began; zero if there is none
	until     time.Time                              // by when there is none any longer, whatever the targets do
	end       int                                    // it ends when fewer than these are lost
	ended     time.Time                              // when the last one did
}

type loss struct {
	key types.NamespacedName
	at  time.Time
}

// NewFleet returns a fleet without targets.
func NewFleet(options Options) *Fleet {
	return &Fleet{
		options: options, connected: map[types.NamespacedName]struct{}{},
		lost: map[types.NamespacedName]*list.Element{}, order: list.New(),
	}
}

// Connected notes that a target is connected. Static targets are no part of the fleet.
func (f *Fleet) Connected(key types.NamespacedName, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked(key)
	if !static(key) {
		f.connected[key] = struct{}{}
	}
	f.settleLocked(now)
}

// Removed notes that a target is not meant to be connected, or is not connected for a reason of its own.
func (f *Fleet) Removed(key types.NamespacedName, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked(key)
	delete(f.connected, key)
	f.settleLocked(now)
}

// static reports whether a target is configured and not registered, such as the source cluster.
func static(key types.NamespacedName) bool { return key.Namespace == "" }

// Lost notes that a target was lost.
func (f *Fleet) Lost(key types.NamespacedName, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked(key)
	delete(f.connected, key)
	if !static(key) {
		f.lost[key] = f.order.PushBack(loss{key, now})
	}
	f.settleLocked(now)
	together, share := len(f.lost), float64(f.options.MassPercent)/100
	need := max(massLeast, int(math.Ceil(share*float64(together+len(f.connected)))))
	if f.since.IsZero() && together >= need {
		f.since, f.until, f.end = now, now.Add(f.options.MassLimit), (need+1)/2
		f.options.Logger.Info("Many targets were lost together; it may be the hub's own network", "lost", together,
			"connected", len(f.connected))
	}
}

// MassDisconnect reports whether the hub's own network is suspected.
func (f *Fleet) MassDisconnect(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settleLocked(now)
	return !f.since.IsZero()
}

// lastMassDisconnect returns when the hub's own network was last suspected: now, if it is; zero if it never was.
func (f *Fleet) lastMassDisconnect(now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settleLocked(now)
	if !f.since.IsZero() {
		return now
	}
	return f.ended
}

// GraceEnds is when a connection that was lost at a time has been kept for long enough. During a mass disconnect its
// time starts again and again, and so it does at the end, when some are back and the others are about to be. But it
// does not do so for longer than one mass disconnect takes, or those that are down would be kept for as long as others
// come and go.
func (f *Fleet) GraceEnds(lost, now time.Time) time.Time {
	since, latest := lost, lost.Add(f.options.MassLimit)
	if last := f.lastMassDisconnect(now); last.After(since) {
		since = last
	}
	if since.After(latest) {
		since = latest
	}
	return since.Add(f.options.Grace)
}

// settleLocked forgets losses that are too old to have to do with others, and ends what is over. During a mass
// disconnect all that were lost since its beginning belong together.
func (f *Fleet) settleLocked(now time.Time) {
	switch {
	case f.since.IsZero():
	case !now.Before(f.until):
		f.options.Logger.Info("Many targets are lost for so long that it counts as theirs", "lost", len(f.lost), "since",
			f.since)
		f.since, f.ended = time.Time{}, now
		clear(f.lost)
		f.order.Init()
	case len(f.lost) < f.end:
		f.options.Logger.Info("Most targets are back that were lost together", "lost", len(f.lost), "since", f.since)
		f.since, f.ended = time.Time{}, now
	default:
		return
	}
	for first := f.order.Front(); first != nil; first = f.order.Front() {
		l, ok := first.Value.(loss)
		if ok && now.Sub(l.at) < f.options.MassWindow {
			return
		}
		f.forgetLocked(l.key)
	}
}

func (f *Fleet) forgetLocked(key types.NamespacedName) {
	if e := f.lost[key]; e != nil {
		f.order.Remove(e)
		delete(f.lost, key)
	}
}
