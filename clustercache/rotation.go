package clustercache

import (
	"context"
	"time"

	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/clustercache/internal/watching"
)

// Modes of attempts.
const (
	modeConnect    = "connect"    // there is no connection
	modeResume     = "resume"     // there is one that was lost a moment ago
	modeToken      = "token"      // only the token differs: it is changed in the connection that serves
	modeGeneration = "generation" // a new connection is built beside the one that serves
)

func modeOf(g *connection, r *registration) string {
	switch {
	case g == nil:
		return modeConnect
	case g.access.equalButToken(r.access):
		return modeToken
	}
	return modeGeneration
}

// startAttempt begins to turn the registration into the connection: a first one, one with another token, or a new
// generation beside the one that serves.
func (t *target) startAttempt(g *connection) {
	r := t.loop.registration
	ctx, cancel := context.WithCancel(t.ctx)
	a := &attempt{registration: r, mode: modeOf(g, r), cancel: cancel}
	t.loop.attempt = a
	held := t.loop.lost
	if held != nil {
		a.mode = modeResume
	}
	number := t.loop.generations + 1
	first := !t.loop.tried
	t.loop.tried = true
	t.work.Go(func() {
		defer cancel()
		result := attemptResult{attempt: a}
		if first {
			_ = t.cache.firstDials.wait(ctx, t.key) // the end of ctx shows below
		}
		switch a.mode {
		case modeConnect:
			result.gen, result.err = t.connect(ctx, number, r, nil)
		case modeResume:
			result.resumes = held.gen
			result.version, result.err = t.meetAgain(ctx, held.gen, r)
		case modeToken:
			result.err = t.changeToken(ctx, g, r)
		default:
			result.gen, result.bindings, result.err = t.buildNext(ctx, number, r, g)
		}
		t.attempts <- result // has room for the only attempt under way
		t.poke()
	})
}

// changeToken tries a new token beside the one that serves, over the same connection: it goes with each request, and
// to meet the target once more would take a handshake, and as long as that takes. Who is there at the other end is
// known.
func (t *target) changeToken(ctx context.Context, g *connection, r *registration) error {
	ctx = transport.WithToken(ctx, r.access.token())
	return t.cache.probes.do(ctx, t.key, t.cache.options.Dial.ConnectTimeout, func(ctx context.Context) error {
		uid, err := g.identity(ctx)
		if err != nil || uid == g.uid {
			return err
		}
		return t.verifyIdentity(ctx, uid, r)
	})
}

// buildNext builds a generation beside the one that serves, and waits until its watches have what those of the other
// have.
func (t *target) buildNext(
	ctx context.Context, number int64, r *registration, g *connection,
) (next *connection, bindings map[*watch]*watching.Binding, err error) {
	done, err := t.rotations.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { done(err == nil) }()
	if next, err = t.connect(ctx, number, r, g); err != nil {
		return nil, nil, err
	}
	watches := t.streams()
	bindings = make(map[*watch]*watching.Binding, len(watches))
	var awaited []awaitedWatch
	for _, w := range watches {
		b := watching.Bind(w.Stream, next.watching)
		bindings[w] = b
		if w.Synced() {
			awaited = append(awaited, awaitedWatch{w, b})
		}
		b.Start(&t.work)
	}
	if err = t.awaitWatches(ctx, g, awaited); err != nil {
		next.stop(ErrConnectionReplaced)
		return nil, nil, err
	}
	return next, bindings, nil
}

// awaitedWatch is a watch that works, with the binding that is to take over.
type awaitedWatch struct {
	*watch
	next *watching.Binding
}

// awaitWatches waits until the bindings of a new generation have their initial lists, or the old generation is of no
// use any more.
func (t *target) awaitWatches(ctx context.Context, old *connection, watches []awaitedWatch) error {
	deadline := t.clock.NewTimer(t.cache.options.Watch.SyncTimeout)
	defer deadline.Stop()
	for _, w := range watches {
		var err error
		select {
		case err = <-w.next.Outcome():
		case <-w.Done():
		case <-old.ctx.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C():
			err = watching.ErrStalled
		}
		if err == nil {
			continue
		}
		reason := ReasonUnreachable
		if watching.IsAnswer(err) {
			reason = ReasonForbidden
		}
		return failed(reason, "the new connection cannot watch %q as the present one does: %w", w.Name(), err)
	}
	return nil
}

// attempted takes the result of an attempt.
func (t *target) attempted(result attemptResult) {
	a := result.attempt
	a.cancel()
	t.loop.attempt = nil
	if t.loop.asleep {
		if result.gen != nil {
			result.gen.stop(ErrClusterNotConnected)
		}
		return
	}
	g := t.current()
	if t.fenced(result.err) {
		if !a.outdated {
			t.retryWithin(t.cache.options.Dial.RetryMax)
		}
		if g == nil {
			t.update(func(s *Status) { s.NextAttempt = t.loop.nextAttempt })
		}
		return
	}
	if result.resumes != nil {
		t.resumed(result)
		return
	}
	if result.err == nil && result.gen == nil && g == nil {
		result.err = failed(ReasonUnreachable, "the connection was lost while its token was changed")
	}
	if !a.registration.access.equal(t.loop.registration.access) {
		if result.gen != nil {
			result.gen.stop(ErrConnectionReplaced)
		}
		return // it was for a registration that is outdated
	}
	t.cache.metrics.attempted(a.mode, result.err)
	if result.err != nil && a.outdated {
		return // the next one is due at once
	}
	if result.err != nil {
		t.attemptFailed(g, result.err)
		return
	}
	t.loop.retry = 0
	if result.gen == nil {
		t.installToken(g, a.registration)
	} else {
		t.install(result.gen, result.bindings, g)
	}
}

// installToken lets the generation that serves go on with another token.
func (t *target) installToken(g *connection, r *registration) {
	g.transport.SetToken(r.access.token())
	next := *g
	next.access = r.access
	t.setConnection(&next)
	t.loop.failures, t.loop.nextProbe = 0, t.clock.Now() // what probes found with the old token says nothing
	t.update(func(s *Status) { s.inUse(t.loop.registration) }, EventRotated)
}

// install lets a generation serve.
func (t *target) install(next *connection, bindings map[*watch]*watching.Binding, previous *connection) {
	now := t.clock.Now()
	t.loop.generations, t.loop.failures, t.loop.fenced = next.number, 0, false
	t.loop.nextProbe = now.Add(jitter(t.cache.options.Probe.Interval))
	t.suspected.Store(false)
	t.loop.unsure = true
	t.throttle.Load().Reset()
	event := EventConnected
	if previous != nil {
		event = EventRotated
	}
	server := next.access.server()
	t.mu.Lock()
	t.gen = next
	if t.status.UID != next.uid {
		t.past = history{} // of another cluster
	}
	// Whoever gets the new connection must not take it for the old cluster, so its identity is published with it.
	t.status.Generation, t.status.UID, t.status.Server = next.number, next.uid, server
	t.health = HealthCheckingState{LastProbeTime: now, LastProbeSuccessTime: now}
	t.mu.Unlock()
	t.cache.availability.Connected(t.key, now)
	for w, b := range bindings {
		w.boundTo = next.number
		w.Promote(b)
	}
	t.bind(next)
	t.update(func(s *Status) {
		t.establish(s)
		s.KubernetesVersion, s.NextAttempt = next.version, time.Time{}
		s.inUse(t.loop.registration)
	}, event)
	if previous != nil {
		t.retire(previous)
	}
}

// retire ends a generation once the calls that were made through it have had their time.
func (t *target) retire(g *connection) {
	grace := t.clock.NewTimer(t.throttle.Load().Timeout())
	t.work.Go(func() {
		defer grace.Stop()
		select {
		case <-grace.C():
		case <-t.ctx.Done():
		}
		g.stop(ErrConnectionReplaced)
	})
}

// attemptFailed says why there is no new connection, and when it is tried again.
func (t *target) attemptFailed(g *connection, err error) {
	reason, message, details := explain(err, t.loop.registration.access)
	t.reasons.log(t.log, t.clock.Now(), details)
	if reason == ReasonIdentityChanged {
		t.refuseIdentity(g, message)
		return
	}
	if reason != ReasonUnreachable {
		t.endGrace() // it is there, and says no
	} else if g == nil {
		message = t.explainOutage(message, t.clock.Now())
	}
	limit := t.cache.options.Dial.RetryMax
	if reason != ReasonUnreachable || g != nil {
		limit = t.cache.options.Dial.RefusedRetryMax
	}
	t.retryWithin(limit)

	if g == nil {
		t.mu.Lock()
		t.health.LastProbeTime = t.clock.Now()
		t.health.ConsecutiveFailures++
		t.mu.Unlock()
	}
	before := t.snapshot()
	var events []EventType
	shown := before.State == StateDisconnected && before.Reason == reason && before.Message == message
	pending := before.PendingReason == reason && before.PendingMessage == message
	if g == nil && !shown || g != nil && !pending {
		events = []EventType{EventProbed}
	}
	t.update(func(s *Status) {
		if g != nil {
			s.PendingReason, s.PendingMessage = reason, message
			return
		}
		s.NextAttempt = t.loop.nextAttempt
		t.transition(s, onUnreachable)
		s.Reason, s.Message = reason, message
	}, events...)
}

// retryWithin has the next attempt wait twice as long as the one before, but no longer than limit.
func (t *target) retryWithin(limit time.Duration) {
	t.loop.retry = min(max(2*t.loop.retry, retryMin), limit)
	t.loop.nextAttempt = t.clock.Now().Add(jitter(t.loop.retry))
}

// refuseIdentity stops everything until someone decides.
func (t *target) refuseIdentity(g *connection, message string) {
	t.loop.blocked = true
	t.drop(g, onRefused, ReasonIdentityChanged, message)
}

// drop ends the connection, if there is one, for a reason that only this target has: the network has nothing to do
// with it.
func (t *target) drop(g *connection, e stateEvent, reason, message string) {
	t.cache.availability.Removed(t.key, t.clock.Now())
	t.disconnect(g, e, reason, message)
}

// disconnect ends the connection, if there is one, and says why. If the registration has had a fault while the
// connection went on, that is why there will be no other.
func (t *target) disconnect(g *connection, e stateEvent, reason, message string) {
	if fault := t.loop.registration.fault; fault != nil && t.loop.removedAt.IsZero() {
		e, reason, message = onRefused, string(fault.Reason), fault.Message
	}
	event := EventProbed
	if g != nil {
		event = EventDisconnected
		t.setConnection(nil)
		g.stop(ErrClusterNotConnected)
	}
	t.closeLost()
	t.update(func(s *Status) {
		s.Held = false
		t.transition(s, e)
		s.Reason, s.Message, s.NextAttempt = reason, message, time.Time{}
		s.PendingSecretResourceVersion, s.PendingReason, s.PendingMessage = "", "", ""
		s.SecretResourceVersion = t.loop.registration.resourceVersion
	}, event)
}
