package clustercache

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// versionEvery is how many probes there are to each that also reads the version.
const versionEvery = 12

// pastShare is the part of the time for a probe that there is beside it for a look at the target's history.
const pastShare = 4

// probeResult is what a probe found.
type probeResult struct {
	gen     *connection
	err     error
	uid     types.UID // empty if the target did not say
	version string    // empty if it was not asked
	took    time.Duration
	past    *pastResult // nil if it was not asked for
}

func (t *target) lastProbe() time.Time {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.health.LastProbeTime
}

// startProbe asks the target for a sign of life, beside the loop.
func (t *target) startProbe(g *connection) {
	t.loop.probing = true
	t.loop.suspected = t.suspected.Swap(false)
	t.loop.unsure = t.loop.unsure || t.loop.suspected
	withVersion, withPast, past := t.loop.probeNo%versionEvery == 0, t.asksPast(), t.remembered()
	t.loop.probeNo++
	patience, pastPatience := t.cache.options.Probe.Timeout, time.Duration(0)
	if withPast { // beside the time for the answer that decides
		pastPatience = patience / pastShare
	}
	t.work.Go(func() {
		result := probeResult{gen: g}
		result.err = t.cache.probes.do(g.ctx, t.key, patience+pastPatience, func(ctx context.Context) error {
			if withPast {
				result.past = g.readPast(ctx, past, pastPatience)
			}
			started := t.clock.Now()
			err := g.probe(ctx, withVersion, &result)
			result.took = t.clock.Since(started)
			return err
		})
		t.probes <- result // has room for the only probe under way
		t.poke()
	})
}

// probe reads what identifies the cluster: that needs its storage too, and notices when an address leads elsewhere. Any
// answer is a sign of life but one that refuses the credential and one that says that the server does not work.
func (g *connection) probe(ctx context.Context, withVersion bool, result *probeResult) (err error) {
	if withVersion {
		if result.version, err = g.readVersion(ctx); err != nil {
			return err
		}
	}
	result.uid, err = g.readUID(ctx)
	if apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// probed takes the result of a probe.
func (t *target) probed(result probeResult) {
	t.loop.probing = false
	g := t.current()
	if g == nil || g.number != result.gen.number {
		return // the connection was dropped or replaced meanwhile
	}
	now := t.clock.Now()
	if result.err != nil && !result.gen.access.equal(g.access) {
		t.loop.nextProbe = now // its token was changed meanwhile
		return
	}
	if t.loop.fenced = t.fenced(result.err); t.loop.fenced {
		t.suspected.Store(t.loop.suspected) // that its socket was a new one is no news; what it was started for still is
		t.loop.nextProbe = now.Add(jitter(hurry))
		t.mu.Lock()
		t.health.LastProbeTime = now // the hub is at work
		t.mu.Unlock()
		return
	}
	t.cache.metrics.probed(result.err)
	t.cache.metrics.probeTime.Observe(result.took.Seconds())
	if t.probeTime != nil {
		t.probeTime.Observe(result.took.Seconds())
	}
	if result.err == nil && result.uid != "" && result.uid != g.uid {
		t.drop(g, onUnreachable, ReasonProbeFailed, "the address leads to another cluster now; its identity is verified")
		t.retryNow()
		return
	}
	if result.err == nil {
		t.probeSucceeded(now, result)
		t.looked(result.past, g, now)
		t.settle()
		t.mendWatches(now)
		return
	}
	t.probeFailed(now, g, result.err)
}

// fenced tells whether a call got no answer because the hub did not let it out. Nobody asked the target then.
func (t *target) fenced(err error) bool {
	if err == nil || !t.cache.options.Fenced(err) {
		return false
	}
	t.log.V(1).Info("The target was not asked, for a reason of the hub's own", "reason", err.Error())
	return true
}

func (t *target) probeSucceeded(now time.Time, result probeResult) {
	recovered := t.loop.failures > 0
	t.loop.failures = 0
	// Hints that come to nothing are worth less each time: where each call opens a socket, each call is one.
	if t.loop.suspected {
		t.loop.suspectPause = min(2*max(t.loop.suspectPause, hurry), t.cache.options.Probe.Interval)
	} else {
		t.loop.suspectPause = 0
	}
	t.loop.nextProbe = now.Add(jitter(t.cache.options.Probe.Interval))
	t.mu.Lock()
	t.health = HealthCheckingState{LastProbeTime: now, LastProbeSuccessTime: now}
	t.mu.Unlock()
	var events []EventType
	if recovered || result.version != "" && result.version != t.snapshot().KubernetesVersion {
		events = []EventType{EventProbed}
	}
	t.update(func(s *Status) {
		s.RoundTrip = result.took
		if result.version != "" {
			s.KubernetesVersion = result.version
		}
	}, events...)
}

// mendWatches has watches opened again that are silent though the target answers.
func (t *target) mendWatches(now time.Time) {
	for _, w := range t.streams() {
		if mend := w.Silent(now); mend != nil {
			t.cache.metrics.silent.Inc()
			t.log.V(1).Info("A watch is silent; it is opened again", "watch", w.Name())
			t.work.Go(mend)
		}
	}
}

func (t *target) probeFailed(now time.Time, g *connection, err error) {
	t.loop.failures++
	t.loop.suspectPause, t.loop.unsure = 0, true
	t.loop.nextProbe = now.Add(jitter(hurry))
	t.mu.Lock()
	t.health.LastProbeTime = now
	t.health.ConsecutiveFailures = t.loop.failures
	t.mu.Unlock()

	reason, message, details := explain(err, g.access)
	t.reasons.log(t.log, now, details)
	// A call that failed and a probe that gets no connection confirm each other.
	down := t.loop.failures >= t.cache.options.Probe.Failures || t.loop.suspected && isConnectionLevel(err)
	var f *failure
	refused := errors.As(err, &f) && f.reason == ReasonUnauthorized
	switch {
	case refused && t.renews():
		t.cache.hub.Publish(t.key, EventProbed) // the new token is being tried, and if it is as bad the next probe says so
		return
	case refused:
		t.drop(g, onUnreachable, reason, message)
	case down:
		t.lose(g, ReasonProbeFailed, message)
	default:
		t.cache.hub.Publish(t.key, EventProbed)
		return
	}
	if !t.wantsAttempt(nil) {
		return
	}
	t.loop.retry = 0
	t.loop.nextAttempt = now.Add(jitter(retryMin))
	t.update(func(s *Status) { s.NextAttempt = t.loop.nextAttempt })
}

// renews tells whether another token is being tried that would go on with the connection.
func (t *target) renews() bool { return t.loop.attempt != nil && t.loop.attempt.mode == modeToken }
