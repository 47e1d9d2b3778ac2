package tracker

import (
	"context"
	"maps"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/engine/inventory"
)

// Comparison is the comparison of a ManagedResource's objects with how they were accepted.
type Comparison struct {
	// Synced is false while the watch of some object did not deliver its first list. Then the rest says nothing about the
	// objects of that watch, and the ManagedResource is notified when the watch is there.
	Synced bool
	// Failed are the errors of watches that cannot be established, by the name of the watch.
	Failed map[string]error
	// Drifted objects differ from what was accepted.
	Drifted []inventory.Key
	// Missing objects seem to be gone, or were never seen. They are to be read live before acting.
	Missing []inventory.Key
	// Lost are those of the Missing that were accepted once.
	Lost []inventory.Key
	// Unknown objects are there but nothing was accepted yet, as after a restart.
	Unknown []inventory.Key
	// Unseen counts objects whose last write the watches did not show yet; it will come without asking.
	Unseen int
	// Believed are objects that are as they were accepted for all that is known: their watch did not show the last write
	// yet, or delivers its first list yet and has not failed to since that write: a watch of a kind fails until the kind
	// is served, which the write shows. What it will show is judged then.
	Believed []inventory.Key
	// Done are Jobs that are gone because they have succeeded. They are among the believed.
	Done []inventory.Key
	// Outdated objects are shown as they were before their last write, or not at all without having been deleted, for
	// longer than UnseenGrace. They are in Drifted or Missing, too, unless they are on their way out, because only the
	// live object can show. Until it was read, nothing may be said of their health: what is known is how they were
	// before the write.
	Outdated []inventory.Key
	// Overdue is true if there are Outdated objects, or would be without a live read: what is unseen was not shown for
	// longer than UnseenGrace, although the live object was found to be right meanwhile.
	Overdue bool
	// PodsUnknown is true if there are Deployments whose pods count and the watch of pods is not synced. Then their
	// roll-out cannot be judged; the ManagedResource is notified when it is.
	PodsUnknown bool
	// AutoscalersUnknown is true if there are objects that may be scaled by others and the watch of autoscalers is not
	// synced.
	AutoscalersUnknown bool
	// Observed are the objects as they are now, of all synced watches. Compare leaves it out.
	Observed map[inventory.Key]Accepted
}

// Judge compares. A ManagedResource that is not tracked gets an empty Comparison that is not synced.
func (t *Tracker) Judge(mr types.NamespacedName) Comparison { return t.judge(mr, true) }

// Compare is Judge without the objects themselves, which take more memory than all the rest.
func (t *Tracker) Compare(mr types.NamespacedName) Comparison { return t.judge(mr, false) }

func (t *Tracker) judge(mr types.NamespacedName, withObjects bool) Comparison {
	v := Comparison{Synced: true}
	tgt, m := t.lock(mr)
	if m == nil {
		return Comparison{}
	}
	defer tgt.mu.Unlock()
	unseenTooLong := t.clock.Now().Add(-UnseenGrace)
	if withObjects {
		v.Observed = make(map[inventory.Key]Accepted, len(m.objects))
	}
	failed := func(watch string) {
		if need := tgt.watches[watch]; need != nil && need.err != nil {
			if v.Failed == nil {
				v.Failed = map[string]error{}
			}
			v.Failed[watch] = need.err
		}
	}
	var scaled map[inventory.Key]bool
	var scalersKnown bool
	if m.scalable() {
		scaled, scalersKnown = t.autoscaled(tgt)
	}
	for h, o := range m.objects {
		key := h.Value()
		if o.scalable && !scalersKnown {
			v.AutoscalersUnknown = true
			failed(autoscalerWatch)
		}
		if countsPods(key) && !o.createOnly && !v.PodsUnknown {
			if !tgt.synced(PodWatch) {
				v.PodsUnknown = true
				failed(PodWatch)
			}
		}
		obs, found, synced := tgt.observed(o.watch, key)
		if !synced {
			failed(o.watch)
			v.Synced = false
			if o.known && !o.missing && tgt.watches[o.watch].fine(o.since) {
				v.Believed = append(v.Believed, key)
			}
			continue
		}
		if shown := found && !obs.olderThan(o.accepted.ResourceVersion); o.known && !shown && !o.seen && !o.missing &&
			!o.hidden.After(unseenTooLong) {
			v.Overdue = true
		}
		switch {
		case !found && m.isDone(h, o):
			v.Done, v.Believed = append(v.Done, key), append(v.Believed, key)
		case !found && o.known && !o.seen && !o.missing && o.since.After(unseenTooLong):
			v.Unseen++
			v.Believed = append(v.Believed, key)
		case !found:
			v.Missing = append(v.Missing, key)
			if o.known {
				v.Lost = append(v.Lost, key)
			}
			if o.known && !o.seen && !o.missing {
				v.Outdated = append(v.Outdated, key)
			}
		case o.known && obs.olderThan(o.accepted.ResourceVersion) && o.since.After(unseenTooLong):
			v.Unseen++
			v.Believed = append(v.Believed, key)
		default:
			outdated := o.known && obs.olderThan(o.accepted.ResourceVersion)
			if outdated {
				v.Outdated = append(v.Outdated, key)
			}
			o.seen, o.missing = !outdated, false
			now := Accepted{UID: obs.UID, ResourceVersion: obs.ResourceVersion, State: m.exact.of(obs.State),
				Autoscaled: o.accepted.Autoscaled, Intent: o.accepted.Intent}
			unscaled := false
			if o.scalable && scalersKnown {
				now.Autoscaled = scaled[canonical(key)]
				unscaled = o.lostAutoscaler(now.Autoscaled, unseenTooLong)
				if !now.Autoscaled && o.accepted.Autoscaled && !unscaled {
					v.Unseen++
				}
			}
			if o.createOnly {
				now.State = o.accepted.State // what others do to it is no drift
			}
			if withObjects {
				v.Observed[key] = now
			}
			switch {
			case !o.known:
				v.Unknown = append(v.Unknown, key)
			case outdated && !obs.Terminating:
				v.Drifted = append(v.Drifted, key)
			case o.createOnly, obs.Terminating: // what is going is made again when it is gone
			case unscaled, now.State != o.accepted.State, obs.UID != o.accepted.UID:
				v.Drifted = append(v.Drifted, key)
			}
		}
	}
	m.recount()
	m.waiting = !v.Synced || v.PodsUnknown || v.AutoscalersUnknown
	return v
}

// Settled reports whether all objects of a ManagedResource are as they were accepted, as far as the watches have shown,
// and no run is at work on it.
func (t *Tracker) Settled(mr types.NamespacedName) bool {
	tgt, m := t.lock(mr)
	if m == nil {
		return false
	}
	defer tgt.mu.Unlock()
	if m.busy {
		return false
	}
	for h, o := range m.objects {
		obs, found, _ := tgt.observed(o.watch, h.Value())
		if !found && m.isDone(h, o) {
			continue
		}
		// whether it still is needs another comparison
		if !found || !o.known || o.missing || obs.Terminating || o.accepted.Autoscaled {
			return false
		}
		if !o.createOnly && (m.exact.of(obs.State) != o.accepted.State || obs.UID != o.accepted.UID) {
			return false
		}
	}
	return true
}

// lock returns what is tracked of a ManagedResource, and its target, which is locked; nil, and nothing is locked, if it
// is not tracked.
func (t *Tracker) lock(mr types.NamespacedName) (*target, *tracked) {
	tgt := t.of(mr)
	if tgt == nil {
		return nil, nil
	}
	tgt.mu.Lock()
	m := tgt.mrs[mr]
	if m == nil {
		tgt.mu.Unlock()
		return nil, nil
	}
	return tgt, m
}

// AwaitShown waits until the watches show the last write of every object of a ManagedResource, but no longer than
// limit.
func (t *Tracker) AwaitShown(ctx context.Context, mr types.NamespacedName, limit time.Duration) {
	if t.Compare(mr).Unseen == 0 {
		return
	}
	tgt := t.of(mr)
	if tgt == nil {
		return
	}
	tgt.mu.Lock()
	m := tgt.mrs[mr]
	if m == nil || m.unseen == 0 {
		tgt.mu.Unlock()
		return
	}
	shown := make(chan struct{})
	m.shown = shown
	tgt.mu.Unlock()
	patience := time.NewTimer(limit)
	defer patience.Stop()
	select {
	case <-shown:
		return
	case <-patience.C:
	case <-ctx.Done():
	}
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	if m.shown == shown {
		m.shown = nil
	}
}

// lostAutoscaler reports whether an object's autoscaler is gone. One that appears is only noted: as long as it is there
// the replicas are its own. One that the target returned and the watch did not show yet is given time.
func (o *object) lostAutoscaler(scaled bool, unseenTooLong time.Time) bool {
	if !o.known {
		return false
	}
	if scaled {
		o.accepted.Autoscaled, o.scaledSeen = true, true
		return false
	}
	return o.accepted.Autoscaled && (o.scaledSeen || !o.since.After(unseenTooLong))
}

// AcceptObserved accepts objects as a Comparison has them.
func (t *Tracker) AcceptObserved(mr types.NamespacedName, observed map[inventory.Key]Accepted) {
	for key, accepted := range observed {
		t.Accept(mr, key, accepted)
	}
}

// Known reports whether something was accepted for every object.
func (t *Tracker) Known(mr types.NamespacedName) bool {
	tgt, m := t.lock(mr)
	if m == nil {
		return false
	}
	defer tgt.mu.Unlock()
	for _, o := range m.objects {
		if !o.known {
			return false
		}
	}
	return true
}

// AcceptedStates returns what was accepted, and whether that is so for every object.
func (t *Tracker) AcceptedStates(mr types.NamespacedName) (states map[inventory.Key]Accepted, complete bool) {
	tgt, m := t.lock(mr)
	if m == nil {
		return nil, false
	}
	defer tgt.mu.Unlock()
	states, complete = make(map[inventory.Key]Accepted, len(m.objects)), true
	for h, o := range m.objects {
		if !o.known {
			complete = false
			continue
		}
		accepted := o.accepted
		accepted.Done = m.isDone(h, o)
		states[h.Value()] = accepted
	}
	return states, complete
}

// Observed returns what the watches show of an object.
func (t *Tracker) Observed(mr types.NamespacedName, key inventory.Key) (obs *Observation, found, synced bool) {
	tgt := t.of(mr)
	if tgt == nil {
		return nil, false, false
	}
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	o := tgt.object(mr, key)
	if o == nil {
		return nil, false, false
	}
	return tgt.observed(o.watch, key)
}

// WatchOf returns the name of the watch that shows an object of a ManagedResource, as in Comparison.Failed; "" if there
// is none.
func (t *Tracker) WatchOf(mr types.NamespacedName, key inventory.Key) string {
	tgt := t.of(mr)
	if tgt == nil {
		return ""
	}
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	if o := tgt.object(mr, key); o != nil {
		return o.watch
	}
	return ""
}

// object returns what is known of an object of a ManagedResource, nil if it is none.
func (tgt *target) object(mr types.NamespacedName, key inventory.Key) *object {
	if m := tgt.mrs[mr]; m != nil {
		return m.objects[unique.Make(key)]
	}
	return nil
}

// observed returns what a watch shows of an object. It is called with mu.
func (tgt *target) observed(watch string, key inventory.Key) (*Observation, bool, bool) {
	need := tgt.watches[watch]
	if need == nil || need.objects == nil {
		return nil, false, false
	}
	value, found, synced := need.objects.Lookup(key.NamespacedName())
	if !found {
		return nil, false, synced
	}
	obs, ok := value.(*Observation)
	return obs, ok, synced
}

// synced reports whether a watch shows everything. It is called with mu.
func (tgt *target) synced(watch string) bool {
	_, _, synced := tgt.observed(watch, inventory.Key{})
	return synced
}

// WithoutAutoscalers returns states as they would be without any autoscaler. An autoscaler that appeared while the hub
// was down changes nothing, so fingerprints are compared without it.
func WithoutAutoscalers(states map[inventory.Key]Accepted) map[inventory.Key]Accepted {
	states = maps.Clone(states)
	for key, s := range states {
		s.Autoscaled = false
		states[key] = s
	}
	return states
}
