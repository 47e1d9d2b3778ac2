package clustercache

import (
	"errors"
	"time"

	"github.com/trellis-hub/trellis/clustercache/internal/connection"
)

// ownNetwork is said of targets that were lost together with many others.
const ownNetwork = "; many targets were lost together, so it may be the hub's own network"

// lostConnection is one that was lost a moment ago. It is suspended: its sockets are closed, calls fail and its watches
// wait. If the target answers again before long, all continue where they were, without new lists.
type lostConnection struct {
	connection *connection.Connection
	since      time.Time
}

// lose ends the use of a connection that cannot be used just now, and keeps it for a while if it may come back as it
// was.
func (t *target) lose(conn *connection.Connection, reason, message string) {
	now := t.clock.Now()
	t.cache.availability.Lost(t.key, now)
	r := t.loop.registration
	unwanted := r.Fault != nil || !t.loop.removedAt.IsZero() || !conn.Access().Equal(r.Access)
	if unwanted || t.cache.options.Grace.Disconnect < 0 {
		t.disconnect(conn, onUnreachable, reason, t.explainOutage(message, now))
		return
	}
	t.loop.lost = &lostConnection{connection: conn, since: now}
	t.setConnection(nil)
	conn.Suspend(ErrClusterNotConnected)
	t.update(func(s *draft) {
		s.transitionTo(onUnreachable, reason, t.explainOutage(message, now))
		s.InGrace = true
	}, EventDisconnected)
}

// explainOutage says what else the reason of an outage may be.
func (t *target) explainOutage(message string, now time.Time) string {
	if t.cache.availability.MassDisconnect(now) {
		return message + ownNetwork
	}
	return message
}

// endGrace ends the connection that was lost, if there is one, and announces that it does not come back.
func (t *target) endGrace() {
	if t.closeLost() {
		t.update(func(s *draft) { s.InGrace = false }, EventDisconnected)
	}
}

// closeLost ends the connection that was lost. It returns false if there is none.
func (t *target) closeLost() bool {
	lost := t.loop.lost
	if lost == nil {
		return false
	}
	t.loop.lost = nil
	lost.connection.Stop(ErrClusterNotConnected)
	return true
}

// graceEnds is when the lost connection has been kept for long enough.
func (t *target) graceEnds(now time.Time) time.Time {
	return t.cache.availability.GraceEnds(t.loop.lost.since, now)
}

// checkGrace ends a lost connection that was kept for long enough.
func (t *target) checkGrace(now time.Time) {
	lost := t.loop.lost
	if lost == nil {
		return
	}
	unwanted := !t.loop.removedAt.IsZero() || !lost.connection.Access().Equal(t.loop.registration.Access)
	if unwanted || !now.Before(t.graceEnds(now)) {
		t.endGrace()
	}
}

// resumed takes the result of an attempt to continue with the lost connection.
func (t *target) resumed(result attemptResult) {
	switch {
	case t.loop.lost == nil || t.loop.lost.connection != result.resumes,
		errors.Is(result.err, connection.ErrOtherCluster):
		t.endGrace()
		t.retryNow()
	case result.err != nil:
		t.cache.metrics.Connected(result.err)
		t.attemptFailed(nil, result.err)
	default:
		t.cache.metrics.Connected(nil)
		t.resume(result.resumes, result.version)
	}
}

// resume lets the lost connection serve again.
func (t *target) resume(conn *connection.Connection, version string) {
	now := t.clock.Now()
	t.loop.lost, t.loop.probes.failures, t.loop.probes.fenced, t.loop.attempts.backoff = nil, 0, false, 0
	// Its watches continue where they were, if that is its past still.
	t.loop.probes.next, t.loop.history.unverified = now, true
	t.suspected.Store(false)
	t.mu.Lock()
	t.conn = conn
	t.health = HealthCheckingState{LastProbeTime: now, LastProbeSuccessTime: now}
	t.mu.Unlock()
	t.throttle.Load().Reset()
	conn.Resume()
	t.watches.Bind(conn.Watching())
	t.cache.availability.Connected(t.key, now)
	t.update(func(s *draft) {
		s.establish()
		s.InGrace = false
		s.KubernetesVersion, s.NextAttempt = version, time.Time{}
		s.inUse(t.loop.registration)
	}, EventConnected)
}
