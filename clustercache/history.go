package clustercache

import (
	"time"

	"github.com/trellis-hub/trellis/clustercache/internal/connection"
)

// rewindPause is the least time from one rewind of a target to the next. Each has all of its watches list again, and a
// target may say anything of its versions.
const rewindPause = 5 * time.Minute

// comparesHistory reports whether the next probe is to find out whether the target still has the past that is
// remembered of it: now and then, and as soon as the connection was lost or is suspected, since etcd is not restored
// without a restart of the API servers.
func (t *target) comparesHistory() bool {
	return t.loop.probes.failures == 0 && (t.loop.history.unverified || t.loop.probes.count%versionEvery == 0)
}

// knownHistory returns what is remembered of the past of the target.
func (t *target) knownHistory() connection.History {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.history
}

// historyCompared takes what a probe found of the history, nil if it did not compare it.
func (t *target) historyCompared(result *connection.HistoryResult, conn *connection.Connection, now time.Time) {
	if result != nil {
		t.loop.history.unverified = !result.Answered
		t.loop.history.rewound = t.loop.history.rewound || result.Rewound
		t.mu.Lock()
		t.history = result.Now
		t.mu.Unlock()
	}
	if t.mayRewind(now) {
		t.rewind(conn, now)
	}
}

// mayRewind reports whether the target went back in time, and it is not too early to act on that.
func (t *target) mayRewind(now time.Time) bool {
	last := t.loop.history.rewoundAt
	return t.loop.history.rewound && (last.IsZero() || now.Sub(last) >= rewindPause)
}

// rewind has everything in a target checked again after the target went back in time. Versions of another history
// cannot be compared with those of this one, and a watch that continues from one shows what never was.
func (t *target) rewind(conn *connection.Connection, now time.Time) {
	t.loop.history.rewound, t.loop.history.rewoundAt = false, now
	t.cache.metrics.Rewinds.Inc()
	t.log.Info("The target went back in time, as when its etcd is restored from a backup; all of it is checked again")
	if a := t.loop.attempts.underWay; a != nil && a.mode == modeReplace { // its watches have listed what was
		a.outdated = true
		a.cancel()
		t.retryNow()
	}
	conn.Mapper().Reset()
	t.watches.Rewind(conn.Watching())
	t.update(func(s *draft) { s.Rewinds++ }, EventRewound)
}
