package clustercache

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/clustercache/internal/connection"
	"github.com/trellis-hub/trellis/clustercache/internal/registration"
	"github.com/trellis-hub/trellis/clustercache/internal/seats"
	"github.com/trellis-hub/trellis/clustercache/internal/subscription"
	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/clustercache/internal/watching"
	"github.com/trellis-hub/trellis/metrics"
)

const (
	// retryMin is the shortest pause before a failed connection attempt is repeated.
	retryMin = time.Second
	// probePause is the pause before a probe that follows a failed one, and the shortest before one that a suspicion
	// causes.
	probePause = 500 * time.Millisecond
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

	dialer    *connection.Dialer
	watches   *subscription.Set
	rotations *seats.Flow     // the share of the target in the seats for rotations
	quota     *watching.Quota // bounds what its watches keep

	meter    *transport.Meter
	connects atomic.Uint64 // how often it came to be connected
	reasons  connection.FailureLog

	ctx    context.Context
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // everything the loop starts

	wake      chan struct{} // there is something new in the inbox or among the watches
	attempts  chan attemptResult
	probes    chan connection.ProbeResult
	suspected atomic.Bool // a call failed in a way that may mean that the connection is dead

	mu      sync.RWMutex
	inbox   inbox
	status  Status
	health  HealthCheckingState
	conn    *connection.Connection // the one that serves, or nil
	history connection.History

	loop loopState
}

// inbox is what others send to the loop.
type inbox struct {
	registration *registration.Registration // the newest, or nil
	removed      bool                       // the registration is gone
	recheck      bool
}

// loopState is only touched by the loop.
type loopState struct {
	registration    *registration.Registration
	removedAt       time.Time       // zero while the registration exists
	identityRefused bool            // nothing is tried until an operator decides
	asleep          bool            // it is meant to be away
	connections     int64           // how many there were
	lost            *lostConnection // was lost a moment ago, or nil
	attempts        attemptState
	probes          probeState
	history         historyState
}

// attemptState is about connection attempts, of which one at most is under way.
type attemptState struct {
	underWay *attempt // or nil
	started  bool     // there was one, so the next is not the first
	next     time.Time
	backoff  time.Duration // the last pause between two of them; zero if the next one is due at once
}

// probeState is about probes, of which one at most is under way.
type probeState struct {
	underWay     bool
	bySuspicion  bool // the one under way, or the last one, was started by a suspicion
	count        int
	next         time.Time
	failures     int           // in a row
	suspectPause time.Duration // after a probe, before one that a suspicion starts
	fenced       bool          // the hub did not let out the last one, and would not let out another one at once
}

// historyState is about the past of the target.
type historyState struct {
	unverified bool      // the connection was lost or suspected since the history was compared
	rewound    bool      // the target went back in time, and it was too early to act on that
	rewoundAt  time.Time // when that was acted on last
}

// attempt is a connection attempt, or a rotation, under way.
type attempt struct {
	registration *registration.Registration
	mode         string
	cancel       context.CancelFunc
	// outdated is true if there was a reason to try again since it began. Its failure says nothing then: the identity that
	// it refused may be the one that was confirmed meanwhile.
	outdated bool
}

type attemptResult struct {
	attempt *attempt
	// next is the new connection, with what its watches have collected; nil if only the token changed.
	next        *connection.Connection
	replacement *subscription.Replacement
	err         error
	// resumes is the connection that was suspended and could continue, with the version that the target has now.
	resumes *connection.Connection
	version string
}

func newTarget(ctx context.Context, c *Cache, key ClusterKey, r *registration.Registration) *target {
	now := c.options.Clock.Now()
	t := &target{
		key:       key,
		cache:     c,
		log:       c.options.Logger.WithValues("target", metrics.TargetName(key)),
		meter:     transport.NewMeter(&c.metrics.Traffic),
		clock:     c.options.Clock,
		rotations: c.rotations.Flow(key),
		wake:      make(chan struct{}, 1),
		attempts:  make(chan attemptResult, 1),
		probes:    make(chan connection.ProbeResult, 1),
		inbox:     inbox{registration: r},
		status:    Status{Cluster: key, State: StateConnecting, Since: now},
	}
	t.quota = watching.NewQuota(c.options.maxKept(key), c.pools[key.Namespace], t.quotaChanged)
	t.status.describe(r)
	t.throttle.Store(c.options.throttle(key, t.broke))
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.watches = subscription.NewSet(t.ctx, &t.work, t.poke)       //nolint:contextcheck // that of the target
	t.dialer = connection.NewDialer(t.ctx, t.connectionOptions()) //nolint:contextcheck // that of the target
	return t
}

// connectionOptions are what the connections to the target have in common.
func (t *target) connectionOptions() connection.Options {
	c, o, budget := t.cache, &t.cache.options, t.cache.budget.Share(t.key)
	lists := c.lists.Flow(t.key)
	options := connection.Options{
		Cluster: t.key, UserAgent: o.UserAgent, Scheme: o.Scheme, Mappers: c.mappers, Reader: t.watches.Reader(o.Scheme),
		Transport: transport.Options{
			Throttle: &t.throttle, Suspect: t.suspect, Meter: t.meter, Openings: c.openings.Flow(t.key),
			Answers: c.answers, Owner: t.key, WrapConn: o.Dial.WrapConn, Resolver: o.Dial.resolver, Fenced: o.Fenced,
			Calling:      o.Calling,
			PingInterval: o.Probe.PingInterval, PingTimeout: o.Probe.PingTimeout,
		},
		Watching: func() *watching.Connection {
			return &watching.Connection{
				Fenced: o.Fenced, Clock: o.Clock, Logger: t.log, SyncTimeout: o.Watch.SyncTimeout,
				SilenceTimeout: o.Watch.SilenceTimeout, Events: &c.metrics.WatchEvents, Lists: lists, Budget: budget,
			}
		},
		Addresses: o.Dial.Addresses, Dials: c.dials, Probes: c.probes, Identifications: c.identifications.Flow(t.key),
		ReachTimeout: o.Probe.Timeout, ResumeTimeout: o.Dial.ResumeTimeout, IdentifyTimeout: o.Dial.ConnectTimeout,
		ProbeTimeout: o.Probe.Timeout, Unanswered: t.unanswered, Clock: o.Clock, Logger: t.log,
	}
	if wrap := o.WrapTransport; wrap != nil {
		options.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return wrap(t.key, next) }
	}
	return options
}

// describe takes what Status shows of the Secret, but for its version.
func (s *Status) describe(r *registration.Registration) {
	s.SecretName, s.Labels, s.Annotations = r.SecretName, r.Labels, r.Annotations
	if s.UID == "" {
		s.Server = ServerID(r.Access.ServerID())
	}
}

// send changes the inbox and wakes the loop.
func (t *target) send(change func(*inbox)) {
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
	t.cache.metrics.Broken.Inc()
	t.log.Info("The target does not answer calls; none are made for a while")
}

// unanswered logs why a call got no answer, since its caller does not learn it.
func (t *target) unanswered(details string) { t.reasons.Log(t.log, t.clock.Now(), details) }

// quotaChanged takes note that the quota refuses what a watch brings, or does not any longer.
func (t *target) quotaChanged() {
	if t.ctx.Err() == nil {
		t.update(func(s *draft) { s.Overfull = t.quota.Refused() }, EventProbed)
	}
}

func (t *target) snapshot() Status {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.status
}

func (t *target) current() *connection.Connection {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.conn
}

func (t *target) setConnection(conn *connection.Connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conn = conn
}

// update changes the status and announces it.
func (t *target) update(change func(*draft), events ...EventType) {
	t.mu.Lock()
	before := t.status.State
	d := &draft{Status: &t.status}
	change(d)
	now := t.status
	if now.State != before {
		t.status.Since = t.clock.Now()
		t.count(before)
	}
	t.mu.Unlock()
	for _, e := range d.refused {
		t.cache.transitionRefused(t, now.State, e)
	}
	if now.State != before {
		t.reasons.Repeat()
		t.log.Info("Target changes state", "state", now.State, "reason", now.Reason, "message", now.Message)
	}
	t.cache.hub.Publish(t.key, events...)
}

// count takes note of a change of the state.
func (t *target) count(before State) {
	if t.status.State == StateConnected {
		t.connects.Add(1)
	} else if before == StateConnected {
		t.cache.metrics.Disconnected(t.status.Reason)
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
	conn := t.conn
	t.conn = nil
	t.mu.Unlock()
	if conn != nil {
		conn.Stop(ErrClusterUnknown)
	}
	t.closeLost()
	t.cache.availability.Removed(t.key, t.clock.Now())
	t.watches.Close()
	t.work.Wait()
	for {
		select {
		case result := <-t.attempts:
			if result.next != nil {
				result.next.Stop(ErrClusterUnknown)
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
		t.loop.identityRefused = false
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
func (t *target) take(r *registration.Registration) {
	before, returned := t.loop.registration, !t.loop.removedAt.IsZero()
	t.loop.registration, t.loop.removedAt = r, time.Time{}
	if before != nil && before.Same(r) && !returned {
		return
	}
	events := []EventType{EventProbed}
	if before == nil || returned || !maps.Equal(before.Labels, r.Labels) ||
		!maps.Equal(before.Annotations, r.Annotations) {
		events = []EventType{EventRegistered}
	}
	t.loop.identityRefused = false
	t.retryNow()
	t.outdateAttempt()
	if t.loop.attempts.underWay != nil && !t.loop.attempts.underWay.registration.Access.Equal(r.Access) {
		t.loop.attempts.underWay.cancel()
	}
	conn := t.current()
	t.update(func(s *draft) {
		s.describe(r)
		switch {
		case t.loop.asleep:
			s.register()
			s.transitionTo(onHibernated, ReasonHibernated, messageHibernated)
			s.SecretResourceVersion = r.ResourceVersion
		case conn == nil && r.Fault != nil:
			s.transitionTo(onInvalid, string(r.Fault.Reason), r.Fault.Message)
			s.SecretResourceVersion, s.NextAttempt = r.ResourceVersion, time.Time{}
		case conn == nil:
			s.register()
			s.SecretResourceVersion = r.ResourceVersion
		case r.Fault != nil:
			s.transitionTo(onRetained, ReasonConnected, "")
			s.PendingSecretResourceVersion, s.PendingReason, s.PendingMessage = r.ResourceVersion, string(r.Fault.Reason),
				r.Fault.Message
		case conn.Access().Equal(r.Access):
			s.transitionTo(onRetained, ReasonConnected, "")
			s.inUse(r)
		default:
			s.transitionTo(onRetained, ReasonConnected, "")
			s.PendingSecretResourceVersion, s.PendingReason, s.PendingMessage = r.ResourceVersion, "", ""
		}
	}, events...)
}

// inUse notes that the content of a registration is what the connection uses.
func (s *Status) inUse(r *registration.Registration) {
	s.SecretResourceVersion = r.ResourceVersion
	s.CredentialIssued, s.CredentialExpiry = r.Access.Validity()
	s.CA, s.ServiceAccount = nil, types.NamespacedName{}
	if c := r.Access.Kubeconfig; c != nil {
		s.CA, s.ServiceAccount = c.CA, c.ServiceAccount()
	}
	s.PendingSecretResourceVersion, s.PendingReason, s.PendingMessage = "", "", ""
}

func (t *target) retryNow() {
	t.loop.attempts.next, t.loop.attempts.backoff = time.Time{}, 0
}

func (t *target) outdateAttempt() {
	if t.loop.attempts.underWay != nil {
		t.loop.attempts.underWay.outdated = true
	}
}

// drained reports whether the registration is gone and the target is not needed any longer.
func (t *target) drained() bool {
	if t.loop.removedAt.IsZero() {
		return false
	}
	needed := t.cache.options.StillNeeded
	if needed == nil || t.clock.Since(t.loop.removedAt) >= t.cache.options.DrainTimeout || !needed(t.key) {
		return true
	}
	if t.snapshot().State != StateDraining {
		t.update(func(s *draft) {
			s.transitionTo(onUnregistered, ReasonRegistrationGone, messageDraining)
		}, EventDraining)
	}
	return false
}

// proceed starts what is due. It compares what is with what should be, and does not care what led there.
func (t *target) proceed() {
	now := t.clock.Now()
	t.checkGrace(now)
	conn := t.current()
	if t.loop.attempts.underWay == nil && t.wantsAttempt(conn) && !now.Before(t.loop.attempts.next) {
		t.startAttempt(conn)
	}
	if conn == nil {
		return
	}
	t.watches.Bind(conn.Watching())
	probes := &t.loop.probes
	if probes.underWay {
		return
	}
	if t.suspected.Load() {
		probes.next = earlier(probes.next, t.lastProbe().Add(max(probes.suspectPause, probePause)))
	}
	if !now.Before(probes.next) {
		t.startProbe(conn)
	}
}

// wantsAttempt reports whether the connection is not what the registration asks for.
func (t *target) wantsAttempt(conn *connection.Connection) bool {
	r := t.loop.registration
	if r == nil || r.Access.Empty() || t.loop.identityRefused || t.loop.asleep {
		return false
	}
	return conn == nil || t.loop.removedAt.IsZero() && !conn.Access().Equal(r.Access)
}

// pause returns the time until something is due.
func (t *target) pause() time.Duration {
	now := t.clock.Now()
	due := now.Add(time.Hour)
	conn := t.current()
	if t.loop.attempts.underWay == nil && t.wantsAttempt(conn) {
		due = earlier(due, t.loop.attempts.next)
	}
	if t.loop.lost != nil {
		due = earlier(due, t.graceEnds(now))
	}
	if conn != nil && !t.loop.probes.underWay {
		due = earlier(due, t.loop.probes.next)
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
