package clustercache

import "fmt"

// stateEvent is what changes the state of a target. Unlike an EventType it is not for consumers.
type stateEvent int

const (
	// onRegistered: a registration came that can be used, and there is no connection.
	onRegistered stateEvent = iota
	// onInvalid: a registration came that cannot be used, and there is no connection.
	onInvalid
	// onRetained: a registration came, and the connection that there is goes on.
	onRetained
	// onEstablished: a connection attempt succeeded, or a lost connection is back.
	onEstablished
	// onUnreachable: a connection attempt failed, or the connection was lost.
	onUnreachable
	// onRefused: the target is not to be connected to until someone decides, and there is no connection any more.
	onRefused
	// onHibernated: the target is meant to be away.
	onHibernated
	// onAwakened: it is no longer meant to be away.
	onAwakened
	// onUnregistered: the registration is gone, and someone still cleans up in the target.
	onUnregistered

	stateEvents // how many there are
)

var stateEventNames = [stateEvents]string{
	"registered", "invalid", "retained", "established", "unreachable", "refused", "hibernated", "awakened", "unregistered",
}

// String implements fmt.Stringer.
func (e stateEvent) String() string {
	if e < 0 || e >= stateEvents {
		return fmt.Sprintf("event %d", int(e))
	}
	return stateEventNames[e]
}

// transitions are the states that a target comes to by each event. What is not here cannot happen.
//
// A target that drains stays so whatever becomes of its connection, until it is registered again, or leads to another
// cluster, which refuses it.
var transitions = map[State]map[stateEvent]State{
	StateConnecting: {
		onRegistered:   StateConnecting,
		onInvalid:      StateRefused,
		onEstablished:  StateConnected,
		onUnreachable:  StateDisconnected,
		onRefused:      StateRefused,
		onHibernated:   StateHibernated,
		onUnregistered: StateDraining,
	},
	StateConnected: {
		onRetained:     StateConnected,
		onEstablished:  StateConnected, // a rotation
		onUnreachable:  StateDisconnected,
		onRefused:      StateRefused,
		onHibernated:   StateHibernated,
		onUnregistered: StateDraining,
	},
	StateDisconnected: {
		onRegistered:   StateDisconnected, // until the attempt that it causes has ended
		onInvalid:      StateRefused,
		onEstablished:  StateConnected,
		onUnreachable:  StateDisconnected,
		onRefused:      StateRefused,
		onHibernated:   StateHibernated,
		onUnregistered: StateDraining,
	},
	StateRefused: {
		onRegistered:   StateConnecting,
		onInvalid:      StateRefused,
		onEstablished:  StateConnected, // Recheck has it tried again
		onUnreachable:  StateDisconnected,
		onRefused:      StateRefused,
		onHibernated:   StateHibernated,
		onUnregistered: StateDraining,
	},
	StateHibernated: {
		onRegistered:   StateHibernated,
		onHibernated:   StateHibernated,
		onAwakened:     StateConnecting,
		onRefused:      StateRefused, // awakened, with a registration that cannot be used
		onUnregistered: StateDraining,
	},
	StateDraining: {
		onRegistered:  StateConnecting,
		onInvalid:     StateRefused,
		onRetained:    StateConnected,
		onEstablished: StateDraining,
		onUnreachable: StateDraining,
		onRefused:     StateRefused,
		onHibernated:  StateDraining,
		onAwakened:    StateDraining,
	},
}

// badTransition is called for an event that must not happen in a state. Tests replace it.
var badTransition = func(t *target, from State, e stateEvent) {
	t.log.Error(nil, "The state of the target does not allow an event; it stays as it is", "state", from, "event",
		e.String())
}

// transition changes the state by an event, and returns the new one. It is called with t.mu held.
func (t *target) transition(s *Status, e stateEvent) State {
	next, allowed := transitions[s.State][e]
	if !allowed {
		badTransition(t, s.State, e)
		return s.State
	}
	s.State = next
	return next
}
