package clustercache

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

// states are all states, and events all that changes them.
var states = []State{
	StateConnecting, StateConnected, StateDisconnected, StateRefused, StateHibernated, StateDraining,
}

func stateEventsAll() []stateEvent {
	all := make([]stateEvent, stateEvents)
	for i := range all {
		all[i] = stateEvent(i)
	}
	return all
}

// allowed returns the states from which an event leads to others that satisfy a condition, in the order of states.
func allowed(e stateEvent, to func(State) bool) []State {
	return slices.DeleteFunc(slices.Clone(states), func(from State) bool {
		next, ok := transitions[from][e]
		return !ok || !to(next)
	})
}

func anyState(State) bool { return true }

// Every state has transitions, to known states by known events, and every event has a name and happens somewhere.
func TestTransitionsAreComplete(t *testing.T) {
	g := NewWithT(t)
	g.Expect(transitions).To(HaveLen(len(states)))
	names := map[string]bool{}
	for _, e := range stateEventsAll() {
		g.Expect(allowed(e, anyState)).NotTo(BeEmpty(), e.String())
		g.Expect(names[e.String()]).To(BeFalse(), e.String())
		names[e.String()] = true
	}
	for from, row := range transitions {
		g.Expect(states).To(ContainElement(from))
		for e, next := range row {
			g.Expect(stateEventsAll()).To(ContainElement(e))
			g.Expect(states).To(ContainElement(next), "from %s by %s", from, e)
		}
	}
}

// From each state every other one can be reached: no target is stuck for ever. The end of a target is no state.
func TestNoStateIsFinal(t *testing.T) {
	g := NewWithT(t)
	for from := range transitions {
		reached := []State{from}
		for i := 0; i < len(reached); i++ {
			for _, next := range transitions[reached[i]] {
				if !slices.Contains(reached, next) {
					reached = append(reached, next)
				}
			}
		}
		g.Expect(reached).To(HaveLen(len(transitions)), "from %s", from)
	}
}

// What each event must and must not lead to.
func TestPropertiesOfTransitions(t *testing.T) {
	g := NewWithT(t)
	isState := func(wanted State) func(State) bool { return func(s State) bool { return s == wanted } }
	except := func(excluded ...State) []State {
		return slices.DeleteFunc(slices.Clone(states), func(s State) bool { return slices.Contains(excluded, s) })
	}
	for _, from := range []State{StateConnecting, StateDisconnected, StateRefused, StateConnected} {
		g.Expect(transitions[from][onEstablished]).To(Equal(StateConnected))
		g.Expect(transitions[from][onUnreachable]).To(Equal(StateDisconnected))
	}
	g.Expect(allowed(onRefused, isState(StateRefused))).To(Equal(states), "a refusal holds in each state")
	g.Expect(allowed(onHibernated, isState(StateHibernated))).To(Equal(except(StateDraining)))
	g.Expect(allowed(onUnregistered, isState(StateDraining))).To(Equal(except(StateDraining)))

	for _, e := range []stateEvent{onEstablished, onUnreachable, onHibernated, onAwakened} {
		g.Expect(transitions[StateDraining][e]).To(Equal(StateDraining), "%s does not end draining", e)
	}
	for _, e := range []stateEvent{onRegistered, onInvalid, onRetained} {
		g.Expect(transitions[StateDraining][e]).NotTo(Equal(StateDraining), "%s ends draining", e)
	}
	for _, from := range []State{StateConnecting, StateDisconnected, StateRefused} {
		for _, e := range []stateEvent{onRetained, onAwakened} {
			g.Expect(transitions[from]).NotTo(HaveKey(e), "%s has no connection and is not asleep", from)
		}
	}
	for _, e := range []stateEvent{onRegistered, onInvalid, onAwakened} {
		g.Expect(transitions[StateConnected]).NotTo(HaveKey(e), "these are for targets without a connection")
	}
	for _, e := range []stateEvent{onInvalid, onRetained, onEstablished, onUnreachable} {
		g.Expect(transitions[StateHibernated]).NotTo(HaveKey(e), "nothing is sent to a target that hibernates")
	}
	g.Expect(transitions[StateDraining]).NotTo(HaveKey(onUnregistered), "that is how it came to be so")
}

// An event that a state does not allow changes nothing, and is remembered for the log and the metric.
func TestRefusedTransition(t *testing.T) {
	for _, from := range states {
		for _, e := range stateEventsAll() {
			g := NewWithT(t)
			d := &draft{Status: &Status{State: from, Reason: "before"}}
			next, ok := transitions[from][e]
			d.transitionTo(e, "after", "")
			if ok {
				g.Expect(d.State).To(Equal(next))
				g.Expect(d.Reason).To(Equal("after"))
				g.Expect(d.refused).To(BeEmpty())
			} else {
				g.Expect(*d.Status).To(Equal(Status{State: from, Reason: "before"}))
				g.Expect(d.refused).To(Equal([]stateEvent{e}))
			}
		}
	}
}
