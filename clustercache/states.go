package clustercache

import "fmt"

const messageDraining = "the registration is gone; the connection serves those who clean up"

// stateEvent is what changes the state of a target. Unlike an EventType it is not for consumers.
type stateEvent int

const (
	// onRegistered: a registration came that can be used, and there is no connection.
	onRegistered stateEvent = iota
	// onInvalid: a registration came that cannot be used, and there is no connection.
	onInvalid
	// onRetained: a registration came, and the connection that there is continues.
	onRetained
	// onEstablished: a connection attempt succeeded, or a lost connection is back.
	onEstablished
	// onUnreachable: a connection attempt failed, or the connection was lost.
	onUnreachable
	// onRefused: the target is not to be connected to until an operator decides, and there is no connection any longer.
	onRefused
	// onHibernated: the target is meant to be away.
	onHibernated
	// onAwakened: it is no longer meant to be away.
	onAwakened
	// onUnregistered: the registration is gone, and a consumer still cleans up in the target.
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

// draft is a status that is being changed.
type draft struct {
	*Status
	refused []stateEvent // which the state did not allow
}

// transition changes the state by an event. It returns false if the state does not allow the event, and stays as it is:
// that is a fault of this package.
func (d *draft) transition(e stateEvent) bool {
	next, allowed := transitions[d.State][e]
	if !allowed {
		d.refused = append(d.refused, e)
		return false
	}
	d.State = next
	return true
}

// transitionTo changes the state by an event, and says why, if the state allows it.
func (d *draft) transitionTo(e stateEvent, reason, message string) {
	if d.transition(e) {
		d.Reason, d.Message = reason, message
	}
}

// register notes that a registration can be used. A target that is disconnected stays so until the attempt that this
// causes has ended.
func (d *draft) register() {
	if d.transition(onRegistered) && d.State == StateConnecting {
		d.Reason, d.Message = "", ""
	}
}

// establish notes that there is a connection.
func (d *draft) establish() {
	if !d.transition(onEstablished) {
		return
	}
	if d.Reason, d.Message = ReasonConnected, ""; d.State == StateDraining {
		d.Reason, d.Message = ReasonRegistrationGone, messageDraining
	}
}
