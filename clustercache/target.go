package clustercache

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/clustercache/internal/follow"
	"github.com/trellis-hub/trellis/clustercache/internal/seats"
	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/clustercache/internal/watching"
	"github.com/trellis-hub/trellis/metrics"
)

const (
	// retryMin is the shortest pause before a failed connection attempt is repeated.
	retryMin = time.Second
	// hurry is the pause before a probe that follows a failed one, and the shortest before one that follows a hint.
	hurry = 500 * time.Millisecond
	// drainCheck is how often Options.StillNeeded is asked.
	drainCheck = time.Second
)

// target is the state machine of one target. Its loop decides and never waits for anything but its inputs: connection
// attempts and probes run beside it, at most one of each, and report back. What others may read is behind mu, which is
// never held over a call.
type target struct {
	key      ClusterKey
	cache    *Cache
	log      logr.Logger
	clock    clock.WithTickerAndDelayedExecution
	throttle atomic.Pointer[transport.Throttle]

	// These are the shares of the target in places that all targets share. An identification is the second step
	// of connecting.
	identifications, lists, openings, rotations *seats.Flow
	// quota is what its watches may keep, and budget what they may read and decode at a time.
	quota  *watching.Quota
	budget *follow.Share

	meter     *transport.Meter
	connects  atomic.Uint64       // how often it came to be connected
	probeTime prometheus.Observer // nil if there is no histogram of each target
	reasons   reasonLog

	ctx    context.Context
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // everything the loop starts

	wake      chan struct{} // there is something new in the inbox or among the watches
	attempts  chan attemptResult
	probes    chan probeResult
	suspected atomic.Bool // a call failed in a way that may mean that the connection is dead

	mu      sync.RWMutex
	inbox   inbox
	status  Status
	health  HealthCheckingState
	gen     *connection
	watches map[watchKey]*watch
	asking  []func() // those who asked whether the target answers
	past    history

	loop loopState
}

// inbox is what others tell the loop.
type inbox struct {
	registration *registration // the newest, or nil
	removed      bool          // the registration is gone
	recheck      bool
}

// loopState is only touched by the loop.
type loopState struct {
	registration *registration
	removedAt    time.Time // zero while the registration exists
	blocked      bool      // the identity was refused
	asleep       bool      // it is meant to be away
	generations  int64     // how many there were

	lost *lostConnection // was lost a moment ago, or nil

	tried       bool     // there was an attempt
	attempt     *attempt // under way, or nil
	nextAttempt time.Time
	retry       time.Duration

	probing      bool
	nextProbe    time.Time
	suspected    bool          // the probe under way was started by a hint
	suspectPause time.Duration // after a probe, before one that a hint starts
	fenced       bool          // the last probe was not let out, so another one at once would not be either
	failures     int
	probeNo      int

	unsure    bool      // the connection was lost or suspected since the target's history was looked at
	rewound   bool      // the target went back in time, and it was too early to act on that
	rewoundAt time.Time // when that was acted on last
}

// attempt is a connection attempt, or a rotation, under way.
type attempt struct {
	registration *registration
	mode         string
	cancel       context.CancelFunc
	// outdated is true if there was a reason to try again since it began. Its failure says nothing then: the identity that
	// it refused may be the one that was confirmed meanwhile.
	outdated bool
}

type attemptResult struct {
	attempt *attempt
	// gen is the new generation, with bindings that collect for it; nil if only the token changed.
	gen      *connection
	bindings map[*watch]*watching.Binding
	err      error
	// resumes is the connection that was held and could go on, with the version that the target has now.
	resumes *connection
	version string
}

func newTarget(ctx context.Context, c *Cache, key ClusterKey, r *registration) *target {
	now := c.options.Clock.Now()
	t := &target{
		key:   key,
		cache: c,
		log:   c.options.Logger.WithValues("target", metrics.TargetName(key)),
		meter: transport.NewMeter(&c.metrics.traffic),
		clock: c.options.Clock,

		identifications: c.identifications.Flow(key), lists: c.lists.Flow(key),
		openings: c.openings.Flow(key), rotations: c.rotations.Flow(key),

		wake:     make(chan struct{}, 1),
		attempts: make(chan attemptResult, 1),
		probes:   make(chan probeResult, 1),
		inbox:    inbox{registration: r},
		status:   Status{Cluster: key, State: StateConnecting, Since: now},
		watches:  map[watchKey]*watch{},
	}
	t.quota = watching.NewQuota(c.options.maxKept(key), c.pools[key.Namespace], t.quotaChanged)
	t.budget = c.budget.Share(key)
	t.status.describe(r)
	t.throttle.Store(c.options.throttle(key, t.broke))
	t.probeTime = c.metrics.probeTimeOf(key)
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// describe takes what Status shows of the Secret, but for its version.
func (s *Status) describe(r *registration) {
	s.SecretName, s.Labels, s.Annotations = r.secretName, r.labels, r.annotations
	if s.UID == "" {
		s.Server = r.access.server()
	}
}

// tell changes the inbox and wakes the loop.
func (t *target) tell(change func(*inbox)) {
	t.mu.Lock()
	change(&t.inbox)
	t.mu.Unlock()
	t.poke()
}

func (t *target) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// suspect makes the loop probe at once.
func (t *target) suspect() {
	if !t.suspected.Swap(true) {
		t.poke()
	}
}

// broke takes note that the target answers no calls, so that none are made for a while.
func (t *target) broke() {
	t.cache.metrics.broken.Inc()
	t.log.Info("The target does not answer calls; none are made for a while")
}

// unanswered logs why a call got no answer, since its caller does not learn it.
func (t *target) unanswered(err error, a access) {
	details := transport.Reason(err)
	if serving := t.current(); serving != nil { // its token may have been changed since
		details = serving.access.redact(details)
	}
	t.reasons.log(t.log, t.clock.Now(), a.shown(details))
}

// quotaChanged takes note that there is no room for what a watch brings, or that there is again.
func (t *target) quotaChanged() {
	if t.ctx.Err() == nil {
		t.update(func(s *Status) { s.Overfull = t.quota.Refused() }, EventProbed)
	}
}

func (t *target) snapshot() Status {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.status
}

func (t *target) current() *connection {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.gen
}

func (t *target) setConnection(g *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gen = g
}

// update changes the status and announces it.
func (t *target) update(change func(*Status), events ...EventType) {
	t.mu.Lock()
	before := t.status.State
	change(&t.status)
	now := t.status
	if now.State != before {
		t.status.Since = t.clock.Now()
		t.count(before)
	}
	t.mu.Unlock()
	if now.State != before {
		t.reasons.again()
		t.log.Info("Target changes state", "state", now.State, "reason", now.Reason, "message", now.Message)
	}
	t.cache.hub.Publish(t.key, events...)
}

// count takes note of a change of the state.
func (t *target) count(before State) {
	if t.status.State == StateConnected {
		t.connects.Add(1)
	} else if before == StateConnected {
		t.cache.metrics.disconnects.WithLabelValues(t.status.Reason).Inc()
	}
}

// run is the loop. It returns when nothing is left of the target.
func (t *target) run() {
	defer t.stop()
	t.askAsleep()
	timer := t.clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.wake:
		case <-timer.C():
		case result := <-t.attempts:
			t.attempted(result)
		case result := <-t.probes:
			t.probed(result)
		}
		t.readInbox()
		if t.drained() && t.cache.forget(t) {
			return
		}
		t.proceed()
		if !timer.Stop() {
			select {
			case <-timer.C():
			default:
			}
		}
		timer.Reset(t.pause())
	}
}

// stop ends everything the target started and waits for it.
func (t *target) stop() {
	t.cancel(ErrClusterUnknown)
	t.mu.Lock()
	g, watches := t.gen, t.watches
	t.gen, t.watches = nil, nil
	t.mu.Unlock()
	if g != nil {
		g.stop(ErrClusterUnknown)
	}
	t.settle()
	t.closeLost()
	t.cache.availability.Removed(t.key, t.clock.Now())
	for _, w := range watches {
		w.Close()
	}
	t.work.Wait()
	for {
		select {
		case result := <-t.attempts:
			if result.gen != nil {
				result.gen.stop(ErrClusterUnknown)
			}
		default:
			return
		}
	}
}

// readInbox takes note of what changed around the target.
func (t *target) readInbox() {
	t.mu.Lock()
	in := t.inbox
	t.inbox = inbox{}
	t.mu.Unlock()

	if in.recheck {
		t.throttle.Store(t.cache.options.throttle(t.key, t.broke))
		t.loop.blocked = false
		t.retryNow()
		t.outdateAttempt()
		t.askAsleep()
	}
	switch {
	case in.registration != nil:
		t.take(in.registration)
	case in.removed && t.loop.removedAt.IsZero():
		t.loop.removedAt = t.clock.Now()
	}
}

// take replaces the registration.
func (t *target) take(r *registration) {
	before, returned := t.loop.registration, !t.loop.removedAt.IsZero()
	t.loop.registration, t.loop.removedAt = r, time.Time{}
	if before != nil && before.same(r) && !returned {
		return
	}
	events := []EventType{EventProbed}
	if before == nil || returned || !maps.Equal(before.labels, r.labels) ||
		!maps.Equal(before.annotations, r.annotations) {
		events = []EventType{EventRegistered}
	}
	t.loop.blocked = false
	t.retryNow()
	t.outdateAttempt()
	if t.loop.attempt != nil && !t.loop.attempt.registration.access.equal(r.access) {
		t.loop.attempt.cancel()
	}
	t.update(func(s *Status) {
		s.describe(r)
		switch {
		case t.loop.asleep:
			t.transition(s, onRegistered)
			t.transition(s, onHibernated)
			s.Reason, s.Message = ReasonHibernated, messageHibernated
			s.SecretResourceVersion = r.resourceVersion
		case t.gen == nil && r.fault != nil:
			t.transition(s, onInvalid)
			s.Reason, s.Message = string(r.fault.Reason), r.fault.Message
			s.SecretResourceVersion, s.NextAttempt = r.resourceVersion, time.Time{}
		case t.gen == nil:
			if t.transition(s, onRegistered) == StateConnecting {
				s.Reason, s.Message = "", ""
			}
			s.SecretResourceVersion = r.resourceVersion
		case r.fault != nil:
			t.retain(s)
			s.PendingSecretResourceVersion, s.PendingReason, s.PendingMessage = r.resourceVersion, string(r.fault.Reason),
				r.fault.Message
		case t.gen.access.equal(r.access):
			t.retain(s)
			s.inUse(r)
		default:
			t.retain(s)
			s.PendingSecretResourceVersion, s.PendingReason, s.PendingMessage = r.resourceVersion, "", ""
		}
	}, events...)
}

// retain notes that the connection serves a registration, maybe again.
func (t *target) retain(s *Status) {
	t.transition(s, onRetained)
	s.Reason, s.Message = ReasonConnected, ""
}

// establish notes that there is a connection.
func (t *target) establish(s *Status) {
	if t.transition(s, onEstablished) == StateConnected {
		s.Reason, s.Message = ReasonConnected, ""
	}
}

// inUse notes that the content of a registration is what the connection uses.
func (s *Status) inUse(r *registration) {
	s.SecretResourceVersion = r.resourceVersion
	s.CredentialIssued, s.CredentialExpiry = r.access.validity()
	s.PendingSecretResourceVersion, s.PendingReason, s.PendingMessage = "", "", ""
}

func (t *target) retryNow() {
	t.loop.nextAttempt, t.loop.retry = time.Time{}, 0
}

func (t *target) outdateAttempt() {
	if t.loop.attempt != nil {
		t.loop.attempt.outdated = true
	}
}

// drained tells whether the registration is gone and nobody needs the target any more.
func (t *target) drained() bool {
	if t.loop.removedAt.IsZero() {
		return false
	}
	needed := t.cache.options.StillNeeded
	if needed == nil || t.clock.Since(t.loop.removedAt) >= t.cache.options.DrainTimeout || !needed(t.key) {
		return true
	}
	if t.snapshot().State != StateDraining {
		t.update(func(s *Status) {
			t.transition(s, onUnregistered)
			s.drains()
		}, EventDraining)
	}
	return false
}

// drains says why a target is draining.
func (s *Status) drains() {
	s.Reason = ReasonRegistrationGone
	s.Message = "the registration is gone; the connection serves those who clean up"
}

// proceed starts what is due. It compares what is with what should be, and does not care what led there.
func (t *target) proceed() {
	now := t.clock.Now()
	t.checkGrace(now)
	g := t.current()
	if t.loop.attempt == nil && t.wantsAttempt(g) && !now.Before(t.loop.nextAttempt) {
		t.startAttempt(g)
	}
	if g == nil {
		t.settle()
		return
	}
	t.bind(g)
	if t.suspected.Load() && !t.loop.probing {
		t.loop.nextProbe = earlier(t.loop.nextProbe, t.lastProbe().Add(max(t.loop.suspectPause, hurry)))
	}
	if t.loop.failures == 0 && !t.loop.probing && !t.loop.fenced && t.asked() {
		t.loop.nextProbe = earlier(t.loop.nextProbe, t.lastProbe().Add(freshAnswer))
	}
	if !t.loop.probing && !now.Before(t.loop.nextProbe) {
		t.startProbe(g)
	}
}

// wantsAttempt tells whether the connection is not what the registration asks for.
func (t *target) wantsAttempt(g *connection) bool {
	r := t.loop.registration
	if r == nil || r.access.empty() || t.loop.blocked || t.loop.asleep {
		return false
	}
	return g == nil || t.loop.removedAt.IsZero() && !g.access.equal(r.access)
}

// pause returns the time until something is due.
func (t *target) pause() time.Duration {
	now := t.clock.Now()
	due := now.Add(time.Hour)
	g := t.current()
	if t.loop.attempt == nil && t.wantsAttempt(g) {
		due = earlier(due, t.loop.nextAttempt)
	}
	if t.loop.lost != nil {
		due = earlier(due, t.graceEnds(now))
	}
	if g != nil && !t.loop.probing {
		due = earlier(due, t.loop.nextProbe)
	}
	if !t.loop.removedAt.IsZero() {
		due = earlier(due, now.Add(drainCheck))
	}
	return max(due.Sub(now), time.Millisecond)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// jitter returns a duration between 3/4 d and d.
func jitter(d time.Duration) time.Duration {
	return d - rand.N(d/4+1)
}
