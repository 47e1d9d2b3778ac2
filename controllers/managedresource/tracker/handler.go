package tracker

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/health"
	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
)

// handler is the tracker as the watches see it.
type handler Tracker

var _ clustercache.WatchHandler = (*handler)(nil)

// news collects whom to notify, so that nobody is called under a lock.
type news map[types.NamespacedName]Cause

func (n news) add(mr types.NamespacedName, cause Cause) {
	if old, ok := n[mr]; !ok || cause > old {
		n[mr] = cause
	}
}

func (h *handler) tell(n news) {
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
	n := news{}
	if scaler, ok := value.(*autoscaler); ok {
		before, _ := old.(*autoscaler)
		tgt.mu.Lock()
		h.autoscalerChanged(n, tgt, before, scaler)
		tgt.mu.Unlock()
		h.tell(n)
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
		for _, mr := range tgt.owners[key] {
			tgt.mrs[mr].update(n, mr, key, before, obs)
		}
		if obs.Pod != nil && (before == nil || before.Pod == nil || before.Pod.Relevant != obs.Pod.Relevant) {
			h.podChanged(n, tgt, name.Namespace, obs.Pod.Labels)
		}
	}
	tgt.mu.Unlock()
	h.tell(n)
}

// update judges one object of one ManagedResource.
func (m *tracked) update(n news, mr types.NamespacedName, key inventory.Key, before, obs *Observation) {
	o := m.objects[key]
	if o == nil || o.known && obs.olderThan(o.accepted.ResourceVersion) {
		return
	}
	o.missing = false
	if m.busy {
		return // judged when the run is over
	}
	if !o.known {
		if !m.waiting {
			n.add(mr, CauseHealth)
		}
		return
	}
	if !o.createOnly && !obs.Terminating && (m.exact.of(obs.State) != o.accepted.State || obs.UID != o.accepted.UID) {
		n.add(mr, CauseDrift)
	}
	if !o.seen {
		o.seen = true
		if m.unseen--; m.unseen == 0 {
			if m.shown != nil {
				close(m.shown)
				m.shown = nil
			} else {
				n.add(mr, CauseHealth)
			}
		}
	}
	if m.unseen == 0 && before != nil && !sameJudgement(before, obs) {
		n.add(mr, CauseHealth)
	}
}

// OnDelete notes that an object left the selection.
func (h *handler) OnDelete(cluster clustercache.ClusterKey, watch string, name types.NamespacedName, old any) {
	tgt := (*Tracker)(h).target(cluster)
	if tgt == nil {
		return
	}
	n := news{}
	tgt.mu.Lock()
	if scaler, ok := old.(*autoscaler); ok {
		h.autoscalerChanged(n, tgt, scaler, nil)
	} else if need := tgt.watches[watch]; need != nil {
		key := keyIn(need.watcher, name)
		for _, mr := range tgt.owners[key] {
			m := tgt.mrs[mr]
			if o := m.objects[key]; o != nil {
				o.missing = true
			}
			if !m.busy {
				n.add(mr, CauseDrift)
			}
		}
		if before, ok := old.(*Observation); ok && before.Pod != nil {
			h.podChanged(n, tgt, name.Namespace, before.Pod.Labels)
		}
	}
	tgt.mu.Unlock()
	h.tell(n)
}

// OnSynced tells those who wait for it.
func (h *handler) OnSynced(cluster clustercache.ClusterKey, watch string) {
	h.watchChanged(cluster, watch, nil)
}

// OnError tells those who wait that they wait in vain.
func (h *handler) OnError(cluster clustercache.ClusterKey, watch string, err error) {
	h.watchChanged(cluster, watch, err)
}

func (h *handler) watchChanged(cluster clustercache.ClusterKey, watch string, err error) {
	tgt := (*Tracker)(h).target(cluster)
	if tgt == nil {
		return
	}
	n := news{}
	tgt.mu.Lock()
	if need := tgt.watches[watch]; need != nil {
		failedBefore := need.err != nil
		need.err = err
		if err == nil || !failedBefore {
			for mr, m := range tgt.mrs {
				if m.busy || !m.uses(watch) {
					continue
				}
				if err == nil && !m.waiting {
					// A later generation's list: what changed meanwhile came as events already. Deletes may need a look.
					continue
				}
				n.add(mr, CauseHealth)
			}
		}
	}
	tgt.mu.Unlock()
	h.tell(n)
}

func (m *tracked) uses(watch string) bool {
	for _, o := range m.objects {
		if o.watch == watch || slices.Contains(o.more, watch) {
			return true
		}
	}
	return false
}

// podChanged notifies the owners of the Deployments that a pod may belong to.
func (h *handler) podChanged(n news, tgt *target, namespace string, podLabels map[string]string) {
	for key, owners := range tgt.owners {
		if !needsPods(key) || key.Namespace != namespace {
			continue
		}
		value, found, _ := h.clusters.Lookup(tgt.key, key.GroupKind().String(), key.NamespacedName())
		obs, ok := value.(*Observation)
		if !found || !ok || obs.Judgement == nil {
			continue
		}
		if s := obs.Judgement.Progress.Selector; s != nil && s.Matches(labels.Set(podLabels)) {
			for _, mr := range owners {
				if !tgt.mrs[mr].busy {
					n.add(mr, CauseHealth)
				}
			}
		}
	}
}

// Pods returns the pods of a namespace that the watch of a target shows, and whether that watch is synced.
func (t *Tracker) Pods(cluster clustercache.ClusterKey, namespace string) (pods iter.Seq[health.Pod], synced bool) {
	var found []health.Pod
	synced = t.clusters.Range(cluster, podWatch, func(key types.NamespacedName, value any) bool {
		if obs, ok := value.(*Observation); ok && obs.Pod != nil && key.Namespace == namespace {
			found = append(found, *obs.Pod)
		}
		return true
	})
	return slices.Values(found), synced
}

func keyIn(w clustercache.Watcher, name types.NamespacedName) inventory.Key {
	return inventory.Key{Group: w.Kind.Group, Kind: w.Kind.Kind, Namespace: name.Namespace, Name: name.Name}
}
