package clustercache

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

func init() {
	badTransition = func(_ *target, from State, e stateEvent) {
		panic(fmt.Sprintf("%s must not happen in state %s", e, from))
	}
}

// The table of transitions is what this says, in each state for each event.
func TestTransitions(t *testing.T) {
	const none = State("")
	columns := []stateEvent{
		onRegistered, onInvalid, onRetained, onEstablished, onUnreachable, onRefused, onHibernated, onAwakened,
		onUnregistered,
	}
	c, o, d, r, h, x := StateConnecting, StateConnected, StateDisconnected, StateRefused, StateHibernated, StateDraining
	want := map[State][]State{
		c: {c, r, none, o, d, r, h, none, x},
		o: {none, none, o, o, d, r, h, none, x},
		d: {d, r, none, o, d, r, h, none, x},
		r: {c, r, none, o, d, r, h, none, x},
		h: {h, none, none, none, none, r, h, c, x},
		x: {c, r, o, x, x, r, x, x, none},
	}
	g := NewWithT(t)
	g.Expect(columns).To(HaveLen(int(stateEvents)))
	g.Expect(transitions).To(HaveLen(len(want)))
	for from, row := range want {
		for i, e := range columns {
			t.Run(fmt.Sprintf("%s, %s", from, e), func(t *testing.T) {
				g := NewWithT(t)
				s := &Status{State: from}
				if row[i] == none {
					g.Expect(func() { new(target).transition(s, e) }).To(Panic())
					g.Expect(s.State).To(Equal(from))
					return
				}
				g.Expect(new(target).transition(s, e)).To(Equal(row[i]))
				g.Expect(s.State).To(Equal(row[i]))
			})
		}
	}
}

// From each state every other one can be reached: no target is stuck for ever.
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
