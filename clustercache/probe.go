package clustercache

import (
	"time"

	"github.com/trellis-hub/trellis/clustercache/internal/connection"
)

// versionEvery is how many probes there are to each that also reads the version.
const versionEvery = 12

func (t *target) lastProbe() time.Time {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.health.LastProbeTime
}

// startProbe asks the target for a sign of life, beside the loop.
func (t *target) startProbe(conn *connection.Connection) {
	probes := &t.loop.probes
	probes.underWay, probes.bySuspicion = true, t.suspected.Swap(false)
	t.loop.history.unverified = t.loop.history.unverified || probes.bySuspicion
	asked := connection.Inquiry{Version: probes.count%versionEvery == 0}
	if t.comparesHistory() {
		known := t.knownHistory()
		asked.History = &known
	}
	probes.count++
	t.work.Go(func() {
		t.probes <- conn.Probe(asked) // buffered for the only probe under way
		t.poke()
	})
}

// probed takes the result of a probe.
func (t *target) probed(result connection.ProbeResult) {
	t.loop.probes.underWay = false
	conn := t.current()
	if conn != result.Connection {
		return // the connection was dropped or replaced meanwhile
	}
	now := t.clock.Now()
	if result.Err != nil && !result.Access.Equal(conn.Access()) {
		t.loop.probes.next = now // its token was changed meanwhile
		return
	}
	if t.loop.probes.fenced = t.fenced(result.Err); t.loop.probes.fenced {
		// That its socket was a new one means nothing. What it was started for still does.
		t.suspected.Store(t.loop.probes.bySuspicion)
		t.loop.probes.next = now.Add(jitter(probePause))
		t.mu.Lock()
		t.health.LastProbeTime = now // the hub is at work
		t.mu.Unlock()
		return
	}
	t.cache.metrics.Probed(t.key, result.Took, result.Err)
	if result.Err == nil && result.UID != "" && result.UID != conn.Peer().UID {
		t.drop(conn, onUnreachable, ReasonProbeFailed, "the address leads to another cluster now; its identity is verified")
		t.retryNow()
		return
	}
	if result.Err == nil {
		t.probeSucceeded(now, result)
		t.historyCompared(result.History, conn, now)
		t.mendWatches(now)
		return
	}
	t.probeFailed(now, conn, result.Err)
}

// fenced reports whether a call got no answer because the hub did not let it out. The target was not asked then.
func (t *target) fenced(err error) bool {
	if err == nil || !t.cache.options.Fenced(err) {
		return false
	}
	t.log.V(1).Info("The target was not asked, for a reason of the hub's own", "reason", err.Error())
	return true
}

func (t *target) probeSucceeded(now time.Time, result connection.ProbeResult) {
	recovered := t.loop.probes.failures > 0
	t.loop.probes.failures = 0
	// Suspicions that come to nothing count less each time: where each call opens a socket, each call is one.
	if t.loop.probes.bySuspicion {
		t.loop.probes.suspectPause = min(2*max(t.loop.probes.suspectPause, probePause), t.cache.options.Probe.Interval)
	} else {
		t.loop.probes.suspectPause = 0
	}
	t.loop.probes.next = now.Add(jitter(t.cache.options.Probe.Interval))
	t.mu.Lock()
	t.health = HealthCheckingState{LastProbeTime: now, LastProbeSuccessTime: now}
	t.mu.Unlock()
	var events []EventType
	if recovered || result.Version != "" && result.Version != t.snapshot().KubernetesVersion {
		events = []EventType{EventProbed}
	}
	t.update(func(s *draft) {
		s.RoundTrip = result.Took
		if result.Version != "" {
			s.KubernetesVersion = result.Version
		}
	}, events...)
}

// mendWatches has watches opened again that are silent though the target answers.
func (t *target) mendWatches(now time.Time) {
	t.watches.MendSilent(now, func(name string) {
		t.cache.metrics.Silent.Inc()
		t.log.V(1).Info("A watch is silent; it is opened again", "watch", name)
	})
}

func (t *target) probeFailed(now time.Time, conn *connection.Connection, err error) {
	t.loop.probes.failures++
	t.loop.probes.suspectPause, t.loop.history.unverified = 0, true
	t.loop.probes.next = now.Add(jitter(probePause))
	t.mu.Lock()
	t.health.LastProbeTime = now
	t.health.ConsecutiveFailures = t.loop.probes.failures
	t.mu.Unlock()

	reason, message, details := connection.Explain(err, conn.Access())
	t.reasons.Log(t.log, now, details)
	// A call that failed and a probe that gets no connection confirm each other.
	down := t.loop.probes.failures >= t.cache.options.Probe.Failures ||
		t.loop.probes.bySuspicion && connection.IsConnectionLevel(err)
	refused := reason == ReasonUnauthorized
	switch {
	case refused && t.renews():
		t.cache.hub.Publish(t.key, EventProbed) // the new token is being tried, and if it is as bad the next probe says so
		return
	case refused:
		t.drop(conn, onUnreachable, reason, message)
	case down:
		t.lose(conn, ReasonProbeFailed, message)
	default:
		t.cache.hub.Publish(t.key, EventProbed)
		return
	}
	if !t.wantsAttempt(nil) {
		return
	}
	t.loop.attempts.backoff = 0
	t.loop.attempts.next = now.Add(jitter(retryMin))
	t.update(func(s *draft) { s.NextAttempt = t.loop.attempts.next })
}

// renews reports whether another token is being tried that would continue with the connection.
func (t *target) renews() bool {
	return t.loop.attempts.underWay != nil && t.loop.attempts.underWay.mode == modeToken
}
