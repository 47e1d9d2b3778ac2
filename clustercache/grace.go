package clustercache

import (
	"context"
	"errors"
	"time"
)

// ownNetwork is said of targets that were lost together with many others.
const ownNetwork = "; many targets were lost together, so it may be the hub's own network"

// lostConnection is one that was lost a moment ago. Its sockets are closed, calls fail and its watches wait at its
// gate. If the target answers again before long, all go on where they were, without new lists.
type lostConnection struct {
	gen   *connection
	since time.Time
}

// errOtherCluster is why a connection that was held does not go on.
var errOtherCluster = errors.New("the address leads to another cluster now; its identity is verified")

// lose ends the use of a connection that cannot be used just now, and keeps it for a while if it may come back as it
// was.
func (t *target) lose(g *connection, reason, message string) {
	now := t.clock.Now()
	t.cache.availability.Lost(t.key, now)
	r := t.loop.registration
	if t.cache.options.Grace.Disconnect < 0 || r.fault != nil || !t.loop.removedAt.IsZero() || !g.access.equal(r.access) {
		t.disconnect(g, onUnreachable, reason, t.explainOutage(message, now))
		return
	}
	t.loop.lost = &lostConnection{gen: g, since: now}
	t.setConnection(nil)
	g.transport.Gate().Close(ErrClusterNotConnected)
	g.transport.Cut()
	t.update(func(s *Status) {
		t.transition(s, onUnreachable)
		s.Reason, s.Message, s.Held = reason, t.explainOutage(message, now), true
	}, EventDisconnected)
}

// explainOutage says what else the reason of an outage may be.
func (t *target) explainOutage(message string, now time.Time) string {
	if t.cache.availability.MassDisconnect(now) {
		return message + ownNetwork
	}
	return message
}

// endGrace ends a connection that is held, and tells everybody that it is over.
func (t *target) endGrace() {
	if t.closeLost() {
		t.update(func(s *Status) { s.Held = false }, EventDisconnected)
	}
}

// closeLost ends a connection that is held. It returns false if there is none.
func (t *target) closeLost() bool {
	h := t.loop.lost
	if h == nil {
		return false
	}
	t.loop.lost = nil
	h.gen.stop(ErrClusterNotConnected)
	return true
}

// graceEnds is when a connection has been held for long enough.
func (t *target) graceEnds(now time.Time) time.Time {
	return t.cache.availability.GraceEnds(t.loop.lost.since, now)
}

// checkGrace lets a connection go that was held for long enough.
func (t *target) checkGrace(now time.Time) {
	h := t.loop.lost
	if h == nil {
		return
	}
	if !h.gen.access.equal(t.loop.registration.access) || !t.loop.removedAt.IsZero() || !now.Before(t.graceEnds(now)) {
		t.endGrace()
	}
}

// meetAgain finds out whether a connection that is held can go on.
func (t *target) meetAgain(ctx context.Context, g *connection, r *registration) (string, error) {
	met, err := t.meet(ctx, g, r, t.cache.options.Dial.ResumeTimeout)
	switch {
	case err != nil:
		g.transport.Cut() // what was opened just now may lead nowhere, too
		return "", err
	case met.uid != g.uid:
		return "", errOtherCluster
	}
	return met.version, nil
}

// resumed takes the result of an attempt to go on with a connection that is held.
func (t *target) resumed(result attemptResult) {
	switch {
	case t.loop.lost == nil || t.loop.lost.gen != result.resumes, errors.Is(result.err, errOtherCluster):
		t.endGrace()
		t.retryNow()
	case result.err != nil:
		t.cache.metrics.attempted(modeResume, result.err)
		t.attemptFailed(nil, result.err)
	default:
		t.cache.metrics.attempted(modeResume, nil)
		t.resume(result.resumes, result.version)
	}
}

// resume lets a connection that was held serve again.
func (t *target) resume(g *connection, version string) {
	now := t.clock.Now()
	t.loop.lost, t.loop.failures, t.loop.fenced, t.loop.retry = nil, 0, false, 0
	t.loop.nextProbe, t.loop.unsure = now, true // its watches go on where they were, if that is its past still
	t.suspected.Store(false)
	t.mu.Lock()
	t.gen = g
	t.health = HealthCheckingState{LastProbeTime: now, LastProbeSuccessTime: now}
	t.mu.Unlock()
	t.throttle.Load().Reset()
	g.transport.Gate().Open()
	t.bind(g)
	t.cache.availability.Connected(t.key, now)
	t.update(func(s *Status) {
		t.establish(s)
		s.Held = false
		s.KubernetesVersion, s.NextAttempt = version, time.Time{}
		s.inUse(t.loop.registration)
	}, EventConnected)
}
