package watching

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// ErrSilent is reported when a watch that is open said nothing for long, not even after it was opened again.
var ErrSilent = errors.New("the watch is open and silent")

// activity notes when a watch said something last. API servers that know bookmarks send one about every minute, so
// that a watch that is silent for longer is one whose events get lost on the way, however open it is.
type activity struct {
	last      atomic.Int64 // in nanoseconds
	bookmarks atomic.Bool  // it is known to send some
	strikes   atomic.Int32 // how often it was opened again since it said something
	reopen    atomic.Pointer[func()]
	relist    atomic.Pointer[func()]
	limit     time.Duration // with jitter; zero: for ever
}

func (h *activity) patience(limit time.Duration) {
	if limit > 0 {
		h.limit = limit - rand.N(limit/4+1)
	}
}

func (h *activity) received(now time.Time) {
	h.last.Store(now.UnixNano())
	h.strikes.Store(0)
}

// silent is for how long it has said nothing.
func (h *activity) silent(now time.Time) time.Duration { return now.Sub(time.Unix(0, h.last.Load())) }

// opened notes that a watch was opened, and how to have it opened again.
func (h *activity) opened(reopen func(), now time.Time) {
	h.last.Store(now.UnixNano())
	h.reopen.Store(&reopen)
}

// Silent returns what to do about a watch that has said nothing for too long, nil if it did, or is not expected to. To
// open it again where it was is enough, and costs one request; where that does not help although it is known to send
// bookmarks, all is listed again.
func (w *Stream) Silent(now time.Time) (mend func()) {
	w.mu.RLock()
	b := w.syncedBy
	synced := w.syncedLocked()
	w.mu.RUnlock()
	if !synced || b.activity.limit == 0 {
		return nil
	}
	h := &b.activity
	reopen, relist := h.reopen.Load(), h.relist.Load()
	if reopen == nil || relist == nil || h.silent(now) < h.limit {
		return nil
	}
	h.last.Store(now.UnixNano())
	if h.strikes.Add(1) > 1 && h.bookmarks.Load() {
		return *relist
	}
	return *reopen
}
