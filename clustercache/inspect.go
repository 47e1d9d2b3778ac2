package clustercache

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Inspection is what an operator may want to see of a target. It holds no secret.
type Inspection struct {
	Status Status
	Health HealthCheckingState
	// Usable is true if calls are possible.
	Usable bool
	// InFlight is how many calls wait for an answer, MaxInFlight how many may.
	InFlight, MaxInFlight int
	// Succeeded and Failed count the calls since the target was registered.
	Succeeded, Failed uint64
	// Watches are ordered by name.
	Watches []WatchInspection
}

// WatchInspection is one stream of objects of a target, under the name of the subscription that opened it.
type WatchInspection struct {
	Name string
	// Synced is true if the watch shows everything.
	Synced bool
	// Absent is true if the target does not have the kind, and may do without it.
	Absent bool
	// Objects is how many it keeps.
	Objects int
}

// Inspect returns all targets, static ones and those that are refused included, in the order of their keys.
func (c *Cache) Inspect() []Inspection {
	var found []Inspection
	for _, t := range c.all() {
		in := t.inspect()
		slices.SortFunc(in.Watches, func(a, b WatchInspection) int { return cmp.Compare(a.Name, b.Name) })
		found = append(found, in)
	}
	for _, status := range c.refusals("") {
		status.Labels, status.Annotations = nil, nil
		found = append(found, Inspection{Status: status})
	}
	slices.SortFunc(found, func(a, b Inspection) int {
		return strings.Compare(a.Status.Cluster.String(), b.Status.Cluster.String())
	})
	return found
}

// all returns the targets in no order.
func (c *Cache) all() []*target {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.targets))
}

func (t *target) inspect() Inspection {
	t.mu.RLock()
	in := Inspection{Status: t.status, Health: t.health, Usable: t.conn != nil}
	t.mu.RUnlock()
	in.Status.Labels, in.Status.Annotations = nil, nil // of the Secret, whose owner may have put anything there
	throttle := t.throttle.Load()
	in.InFlight, in.MaxInFlight = throttle.InFlight(), throttle.MaxInFlight()
	in.Succeeded, in.Failed = t.meter.Requests()
	states := t.watches.States()
	in.Watches = make([]WatchInspection, len(states))
	for i, state := range states {
		in.Watches[i] = WatchInspection{
			Name: state.Name, Synced: state.Synced, Absent: state.Absent, Objects: state.Objects,
		}
	}
	return in
}
