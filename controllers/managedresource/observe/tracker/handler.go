package tracker

import (
	"iter"
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/engine/health"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// handler is the tracker as the watches see it.
type handler Tracker

var _ clustercache.WatchHandler = (*handler)(nil)

// notifications collects the ManagedResources to notify, so that no callback runs under a lock.
type notifications map[types.NamespacedName]Cause

func (n notifications) add(mr types.NamespacedName, cause Cause) {
	if old, ok := n[mr]; !ok || cause > old {
		n[mr] = cause
	}
}

func (h *handler) send(n notifications) {
	for mr, cause := range n {
		h.notify(mr, cause)
	}
}

// OnUpdate judges an object that appeared or changed.
func (h *handler) OnUpdate(cluster clustercache.ClusterKey, watch string, name types.NamespacedName, old, value any) {
	tgt := (*Tracker)(h).target(cluster)
	if tgt == nil {
		return
	}
	n := notifications{}
	if scaler, ok := value.(*autoscaler); ok {
		before, _ := old.(*autoscaler)
		tgt.mu.Lock()
		h.autoscalerChanged(n, tgt, before, scaler)
		tgt.mu.Unlock()
		h.send(n)
		return
	}
	obs, ok := value.(*Observation)
	if !ok {
		return
	}
	before, _ := old.(*Observation)
	tgt.mu.Lock()
	if need := tgt.watches[watch]; need != nil {
		key := keyIn(need.watcher, name)
		for m, o := range tgt.watchedBy(watch, key) {
			m.showsAgain(n, key, o)
			m.update(n, o, before, obs)
		}
		if obs.Pod != nil {
			var previous *health.Pod
			if before != nil {
				previous = before.Pod
			}
			h.podChanged(n, tgt, name.Namespace, previous, obs.Pod)
		}
	}
	tgt.mu.Unlock()
	h.send(n)
}

// update judges one object of one ManagedResource.
func (m *tracked) update(n notifications, o *object, before, obs *Observation) {
	if o.known && obs.olderThan(o.accepted.ResourceVersion) {
		if !m.busy && before != nil && before.UID == obs.UID && obs.olderThan(before.ResourceVersion) {
			n.add(m.name, CauseDrift) // the watch is not late: the target went back in time
		}
		return
	}
	o.missing = false
	if m.busy {
		return // judged when the run is over
	}
	if !o.known {
		if !m.waiting {
			n.add(m.name, CauseHealth)
		}
		return
	}
	if !o.createOnly && !obs.Terminating && (m.exact.of(obs.State) != o.accepted.State || obs.UID != o.accepted.UID) {
		n.add(m.name, CauseDrift)
	}
	if !o.seen {
		o.seen = true
		if m.unseen--; m.unseen == 0 {
			if m.shown != nil {
				close(m.shown)
				m.shown = nil
			} else {
				n.add(m.name, CauseHealth)
			}
		}
	}
	// As long as something is not shown, nothing good is said, and what is wrong at the start of a roll-out is over soon.
	if (m.unseen == 0 || obs.fails()) && before != nil && !sameJudgement(before, obs, o.createOnly) {
		n.add(m.name, CauseHealth)
	}
}

// OnDelete notes that an object left the selection.
func (h *handler) OnDelete(cluster clustercache.ClusterKey, watch string, name types.NamespacedName, old any) {
	tgt := (*Tracker)(h).target(cluster)
	if tgt == nil {
		return
	}
	n := notifications{}
	tgt.mu.Lock()
	if scaler, ok := old.(*autoscaler); ok {
		h.autoscalerChanged(n, tgt, scaler, nil)
	} else if need := tgt.watches[watch]; need != nil {
		key := keyIn(need.watcher, name)
		before, _ := old.(*Observation)
		for m, o := range tgt.watchedBy(watch, key) {
			o.missing = true
			m.noteOwner(unique.Make(key), before)
			cause := CauseDrift
			if before != nil && before.Done && m.finish(unique.Make(key), o, before.UID) {
				cause = CauseHealth // it is right, and there is something else to note
			}
			if !m.busy {
				n.add(m.name, cause)
			}
		}
		if before != nil && before.Pod != nil {
			h.podChanged(n, tgt, name.Namespace, before.Pod, nil)
		}
	}
	tgt.mu.Unlock()
	h.send(n)
}

// OnSynced notifies the ManagedResources that wait for this watch and for no other. One notification for each watch
// would multiply the runs of a fleet that starts.
func (h *handler) OnSynced(cluster clustercache.ClusterKey, watch string) {
	h.watchChanged(cluster, watch, nil)
}

// OnError notifies the ManagedResources that wait for the watch that it fails.
func (h *handler) OnError(cluster clustercache.ClusterKey, watch string, err error) {
	h.watchChanged(cluster, watch, err)
}

func (h *handler) watchChanged(cluster clustercache.ClusterKey, watch string, err error) {
	tgt := (*Tracker)(h).target(cluster)
	if tgt == nil {
		return
	}
	n := notifications{}
	tgt.mu.Lock()
	if need := tgt.watches[watch]; need != nil {
		failedBefore := need.err != nil
		need.err, need.failed = err, h.clock.Now()
		if err == nil || !failedBefore {
			for mr, m := range tgt.mrs {
				if err == nil && !m.waiting {
					// A later generation's list: what changed meanwhile came as events already.
					continue
				}
				if m.busy || !m.uses(watch) {
					continue
				}
				if err == nil && !h.settled(tgt, m) {
					continue // the last of its watches that syncs notifies it
				}
				n.add(mr, CauseHealth)
			}
		}
	}
	tgt.mu.Unlock()
	h.send(n)
}

// settled reports whether all watches of a ManagedResource show everything, but for those that fail. A watch is synced
// before its handler is called, so the last of several that sync at once finds all synced.
func (h *handler) settled(tgt *target, m *tracked) bool {
	done := func(watch string) bool {
		if need := tgt.watches[watch]; need == nil || need.err != nil {
			return true
		}
		return tgt.synced(watch)
	}
	for _, o := range m.objects {
		if !done(o.watch) || slices.ContainsFunc(o.more, func(watch string) bool { return !done(watch) }) {
			return false
		}
	}
	return true
}

func (m *tracked) uses(watch string) bool {
	for _, o := range m.objects {
		if o.watch == watch || slices.Contains(o.more, watch) {
			return true
		}
	}
	return false
}

// watchedBy iterates over the ManagedResources whose object a watch shows. Others may list it in another version, or
// through a watch of this object alone.
func (tgt *target) watchedBy(watch string, key inventory.Key) iter.Seq2[*tracked, *object] {
	return func(yield func(*tracked, *object) bool) {
		h := unique.Make(key)
		for _, m := range tgt.owners[h] {
			if o := m.objects[h]; o != nil && o.watch == watch && !yield(m, o) {
				return
			}
		}
	}
}

// podChanged notifies the owners of the workloads that a pod belongs to, if it may make a difference to what is said of
// them: to the number of their pods, or to why they are not well. before and after are nil for a pod that came or went.
func (h *handler) podChanged(n notifications, tgt *target, namespace string, before, after *health.Pod) {
	for workload := range tgt.workloads[namespace] {
		for _, m := range tgt.owners[workload] {
			if m.busy {
				continue
			}
			if obs, found, _ := tgt.observed(m.objects[workload].watch, workload.Value()); found &&
				obs.Judgement.concerned(before, after) {
				n.add(m.name, CauseHealth)
			}
		}
	}
}

// concerned reports whether the change of a pod may change what is said of a workload. before and after are nil if
// there was, or is, none.
func (j *Judgement) concerned(before, after *health.Pod) bool {
	if j == nil {
		return false
	}
	var was, is health.Pod // of this workload; the zero value if the pod is not
	if j.selects(before) {
		was = *before
	}
	if j.selects(after) {
		is = *after
	}
	if j.Progress.CountPods && (was.Relevant != is.Relevant || was.Terminating != is.Terminating &&
		j.Progress.Ending > 0) {
		return true
	}
	return was.Problem != is.Problem && (j.Progress.Progressing || !j.Health.Healthy)
}

func (j *Judgement) selects(pod *health.Pod) bool {
	return pod != nil && j.Progress.Selector != nil && j.Progress.Selector.Matches(&pod.Labels)
}

func keyIn(w *clustercache.Watcher, name types.NamespacedName) inventory.Key {
	return inventory.Key{Group: w.Kind.Group, Kind: w.Kind.Kind, Namespace: name.Namespace, Name: name.Name}
}
