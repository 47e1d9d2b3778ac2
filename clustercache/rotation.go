package clustercache

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache/internal/connection"
	"github.com/trellis-hub/trellis/clustercache/internal/registration"
	"github.com/trellis-hub/trellis/clustercache/internal/subscription"
	"github.com/trellis-hub/trellis/clustercache/internal/watching"
)

// Modes of attempts. They are values of a label of metrics.
const (
	modeConnect = "connect"    // there is no connection
	modeResume  = "resume"     // there is one that was lost a moment ago
	modeToken   = "token"      // only the token differs: it is changed in the connection that serves
	modeReplace = "generation" // a new connection is built beside the one that serves
)

func modeOf(conn *connection.Connection, r *registration.Registration) string {
	switch {
	case conn == nil:
		return modeConnect
	case conn.Access().EqualButToken(r.Access):
		return modeToken
	}
	return modeReplace
}

// startAttempt begins to turn the registration into the connection: a first one, one with another token, or a new one
// beside the one that serves.
func (t *target) startAttempt(conn *connection.Connection) {
	r := t.loop.registration
	ctx, cancel := context.WithCancel(t.ctx)
	a := &attempt{registration: r, mode: modeOf(conn, r), cancel: cancel}
	attempts := &t.loop.attempts
	attempts.underWay = a
	lost := t.loop.lost
	if lost != nil {
		a.mode = modeResume
	}
	number := t.loop.connections + 1
	first := !attempts.started
	attempts.started = true
	verify := func(ctx context.Context, uid types.UID) error { return t.verifyIdentity(ctx, uid, r) }
	t.work.Go(func() {
		defer cancel()
		result := attemptResult{attempt: a}
		if first {
			_ = t.cache.firstDials.Wait(ctx, t.key) // the end of ctx shows below
		}
		switch a.mode {
		case modeConnect:
			result.next, result.err = t.dialer.Dial(ctx, number, r.Access, verify, nil)
		case modeResume:
			result.resumes = lost.connection
			result.version, result.err = t.dialer.Reconnect(ctx, lost.connection, verify)
		case modeToken:
			result.err = t.dialer.TryToken(ctx, conn, r.Access, verify)
		default:
			result.next, result.replacement, result.err = t.replace(ctx, conn, func() (*connection.Connection, error) {
				return t.dialer.Dial(ctx, number, r.Access, verify, conn)
			})
		}
		t.attempts <- result // buffered for the only attempt under way
		t.poke()
	})
}

// verifyIdentity reports whether a cluster with a UID is the right one.
func (t *target) verifyIdentity(ctx context.Context, uid types.UID, r *registration.Registration) error {
	if t.cache.options.VerifyIdentity == nil {
		if known := t.snapshot().UID; known != "" && known != uid {
			return connection.Failed(ReasonIdentityChanged,
				"the kubeconfig leads to the cluster with UID %s, before it was %s", uid, known)
		}
		return nil
	}
	err := t.cache.options.VerifyIdentity(ctx, t.key, uid, r.Annotations)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrIdentityUndecided), ctx.Err() != nil:
		return connection.Failed(ReasonUnreachable, "cannot verify the identity of the cluster: %w", err)
	default:
		return connection.Failed(ReasonIdentityChanged, "%w", err)
	}
}

// replace builds a connection beside the one that serves, and waits until its watches have what those of the other
// have.
func (t *target) replace(
	ctx context.Context, serving *connection.Connection, dial func() (*connection.Connection, error),
) (next *connection.Connection, replacement *subscription.Replacement, err error) {
	done, err := t.rotations.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { done(err == nil) }()
	if next, err = dial(); err != nil {
		return nil, nil, err
	}
	replacement = t.watches.Replace(next.Watching())
	deadline := t.clock.NewTimer(t.cache.options.Watch.SyncTimeout)
	defer deadline.Stop()
	name, err := replacement.Await(ctx, serving.Done(), deadline.C())
	if err == nil {
		return next, replacement, nil
	}
	next.Stop(ErrConnectionReplaced)
	if name != "" {
		reason := ReasonUnreachable
		if watching.IsAnswer(err) {
			reason = ReasonForbidden
		}
		err = connection.Failed(reason, "the new connection cannot watch %q as the present one does: %w", name, err)
	}
	return nil, nil, err
}

// attempted takes the result of an attempt.
func (t *target) attempted(result attemptResult) {
	a := result.attempt
	a.cancel()
	t.loop.attempts.underWay = nil
	if t.loop.asleep {
		if result.next != nil {
			result.next.Stop(ErrClusterNotConnected)
		}
		return
	}
	conn := t.current()
	if t.fenced(result.err) {
		if !a.outdated {
			t.retryWithin(t.cache.options.Dial.RetryMax)
		}
		if conn == nil {
			t.update(func(s *draft) { s.NextAttempt = t.loop.attempts.next })
		}
		return
	}
	if result.resumes != nil {
		t.resumed(result)
		return
	}
	if result.err == nil && result.next == nil && conn == nil {
		result.err = connection.Failed(ReasonUnreachable, "the connection was lost while its token was changed")
	}
	if !a.registration.Access.Equal(t.loop.registration.Access) {
		if result.next != nil {
			result.next.Stop(ErrConnectionReplaced)
		}
		return // it was for a registration that is outdated
	}
	if a.mode == modeConnect {
		t.cache.metrics.Connected(result.err)
	} else {
		t.cache.metrics.Rotated(a.mode, result.err)
	}
	if result.err != nil && a.outdated {
		return // the next one is due at once
	}
	if result.err != nil {
		t.attemptFailed(conn, result.err)
		return
	}
	t.loop.attempts.backoff = 0
	if result.next == nil {
		t.installToken(conn, a.registration)
	} else {
		t.install(result.next, result.replacement, conn)
	}
}

// installToken lets the connection that serves continue with another token.
func (t *target) installToken(conn *connection.Connection, r *registration.Registration) {
	conn.SetToken(r.Access)
	t.loop.probes.failures, t.loop.probes.next = 0, t.clock.Now() // what probes found with the old token says nothing
	t.update(func(s *draft) { s.inUse(t.loop.registration) }, EventRotated)
}

// install lets a connection serve.
func (t *target) install(next *connection.Connection, replacement *subscription.Replacement,
	previous *connection.Connection) {
	now, peer := t.clock.Now(), next.Peer()
	t.loop.connections, t.loop.probes.failures, t.loop.probes.fenced = next.Number(), 0, false
	t.loop.probes.next = now.Add(jitter(t.cache.options.Probe.Interval))
	t.suspected.Store(false)
	t.loop.history.unverified = true
	t.throttle.Load().Reset()
	event := EventConnected
	if previous != nil {
		event = EventRotated
	}
	server := ServerID(next.Access().ServerID())
	t.mu.Lock()
	t.conn = next
	if t.status.UID != peer.UID {
		t.history = connection.History{} // of another cluster
	}
	// A consumer that gets the new connection must not take it for the old cluster, so its identity is published with it.
	t.status.Connection, t.status.UID, t.status.Server = next.Number(), peer.UID, server
	t.health = HealthCheckingState{LastProbeTime: now, LastProbeSuccessTime: now}
	t.mu.Unlock()
	t.cache.availability.Connected(t.key, now)
	if replacement != nil {
		replacement.Promote()
	}
	t.watches.Bind(next.Watching())
	t.update(func(s *draft) {
		s.establish()
		s.KubernetesVersion, s.NextAttempt = peer.Version, time.Time{}
		s.inUse(t.loop.registration)
	}, event)
	if previous != nil {
		t.retire(previous)
	}
}

// retire ends a connection once the calls that were made through it have had their time.
func (t *target) retire(conn *connection.Connection) {
	grace := t.clock.NewTimer(t.throttle.Load().Timeout())
	t.work.Go(func() {
		defer grace.Stop()
		select {
		case <-grace.C():
		case <-t.ctx.Done():
		}
		conn.Stop(ErrConnectionReplaced)
	})
}

// attemptFailed says why there is no new connection, and when it is tried again.
func (t *target) attemptFailed(conn *connection.Connection, err error) {
	reason, message, details := connection.Explain(err, t.loop.registration.Access)
	t.reasons.Log(t.log, t.clock.Now(), details)
	if reason == ReasonIdentityChanged {
		t.refuseIdentity(conn, message)
		return
	}
	if reason != ReasonUnreachable {
		t.endGrace() // it is there, and says no
	} else if conn == nil {
		message = t.explainOutage(message, t.clock.Now())
	}
	limit := t.cache.options.Dial.RetryMax
	if reason != ReasonUnreachable || conn != nil {
		limit = t.cache.options.Dial.RefusedRetryMax
	}
	t.retryWithin(limit)

	if conn == nil {
		t.mu.Lock()
		t.health.LastProbeTime = t.clock.Now()
		t.health.ConsecutiveFailures++
		t.mu.Unlock()
	}
	before := t.snapshot()
	var events []EventType
	shown := before.State == StateDisconnected && before.Reason == reason && before.Message == message
	pending := before.PendingReason == reason && before.PendingMessage == message
	if conn == nil && !shown || conn != nil && !pending {
		events = []EventType{EventProbed}
	}
	t.update(func(s *draft) {
		if conn != nil {
			s.PendingReason, s.PendingMessage = reason, message
			return
		}
		s.NextAttempt = t.loop.attempts.next
		s.transitionTo(onUnreachable, reason, message)
	}, events...)
}

// retryWithin has the next attempt wait twice as long as the one before, but no longer than limit.
func (t *target) retryWithin(limit time.Duration) {
	t.loop.attempts.backoff = min(max(2*t.loop.attempts.backoff, retryMin), limit)
	t.loop.attempts.next = t.clock.Now().Add(jitter(t.loop.attempts.backoff))
}

// refuseIdentity closes the connection, and nothing is tried until an operator decides.
func (t *target) refuseIdentity(conn *connection.Connection, message string) {
	t.loop.identityRefused = true
	t.drop(conn, onRefused, ReasonIdentityChanged, message)
}

// drop ends the connection, if there is one, for a reason that only this target has: the network has nothing to do
// with it.
func (t *target) drop(conn *connection.Connection, e stateEvent, reason, message string) {
	t.cache.availability.Removed(t.key, t.clock.Now())
	t.disconnect(conn, e, reason, message)
}

// disconnect ends the connection, if there is one, and says why. If the registration has had a fault while the
// connection continued, that is why there will be no other.
func (t *target) disconnect(conn *connection.Connection, e stateEvent, reason, message string) {
	if fault := t.loop.registration.Fault; fault != nil && t.loop.removedAt.IsZero() {
		e, reason, message = onRefused, string(fault.Reason), fault.Message
	}
	event := EventProbed
	if conn != nil {
		event = EventDisconnected
		t.setConnection(nil)
		conn.Stop(ErrClusterNotConnected)
	}
	t.closeLost()
	t.update(func(s *draft) {
		s.InGrace = false
		s.transitionTo(e, reason, message)
		s.NextAttempt = time.Time{}
		s.PendingSecretResourceVersion, s.PendingReason, s.PendingMessage = "", "", ""
		s.SecretResourceVersion = t.loop.registration.ResourceVersion
	}, event)
}
