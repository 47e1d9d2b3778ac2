package clustercache

import "time"

const messageHibernated = "the target is hibernated: it is neither dialled nor probed"

// askAsleep finds out whether the target is meant to be away, and follows.
func (t *target) askAsleep() {
	before := t.loop.asleep
	t.loop.asleep = t.cache.options.Asleep(t.key)
	switch {
	case t.loop.asleep && !before:
		t.sleep()
	case before && !t.loop.asleep:
		t.awake()
	}
}

// sleep ends all work in the target.
func (t *target) sleep() {
	if t.loop.attempts.underWay != nil {
		t.loop.attempts.underWay.cancel()
	}
	event := EventProbed
	if conn := t.current(); conn != nil {
		event = EventDisconnected
		t.setConnection(nil)
		conn.Stop(ErrClusterNotConnected)
	}
	t.closeLost()
	t.suspected.Store(false)
	t.loop.probes.failures = 0
	t.cache.availability.Removed(t.key, t.clock.Now())
	t.mu.Lock()
	t.health.ConsecutiveFailures = 0
	t.mu.Unlock()
	t.update(func(s *draft) {
		s.transitionTo(onHibernated, ReasonHibernated, messageHibernated)
		s.InGrace, s.NextAttempt = false, time.Time{}
	}, event)
}

// awake has the target dialled at once.
func (t *target) awake() {
	t.retryNow()
	r := t.loop.registration
	t.update(func(s *draft) {
		switch {
		case s.State == StateDraining:
			s.transitionTo(onAwakened, ReasonRegistrationGone, messageDraining)
		case r != nil && r.Fault != nil:
			s.transitionTo(onRefused, string(r.Fault.Reason), r.Fault.Message)
		default:
			s.transitionTo(onAwakened, "", "")
		}
	}, EventProbed)
}
