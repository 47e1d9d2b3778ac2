package tracker

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/engine/health"
)

// Pods are the pods of a target, by namespace. They are of use to one goroutine.
type Pods map[string]*podsIn

// podsIn are the pods of a namespace.
type podsIn struct {
	all []*health.Pod
	// by has those with a label, by its name and value, for names that selectors ask for: each workload would have to go
	// over all pods of its namespace otherwise.
	by map[string]map[string][]*health.Pod
}

// Of iterates over pods of a namespace among which are all that a selector matches, and not many more.
func (p Pods) Of(namespace string, selector labels.Selector) iter.Seq[*health.Pod] {
	here := p[namespace]
	if here == nil {
		return func(func(*health.Pod) bool) {}
	}
	found := here.all
	if requirements, selectable := selector.Requirements(); selectable {
		for i := range requirements {
			r := &requirements[i]
			if operator := r.Operator(); operator != selection.Equals && operator != selection.DoubleEquals &&
				operator != selection.In {
				continue
			}
			if values := r.ValuesUnsorted(); len(values) == 1 {
				if with := here.with(r.Key(), values[0]); len(with) < len(found) {
					found = with
				}
			}
		}
	}
	return slices.Values(found)
}

// with returns the pods that have a label.
func (p *podsIn) with(name, value string) []*health.Pod {
	grouped, ok := p.by[name]
	if !ok {
		grouped = map[string][]*health.Pod{}
		for _, pod := range p.all {
			if v, has := pod.Labels.Lookup(name); has {
				grouped[v] = append(grouped[v], pod)
			}
		}
		if p.by == nil {
			p.by = map[string]map[string][]*health.Pod{}
		}
		p.by[name] = grouped
	}
	return grouped[value]
}

// Pods returns the pods that the watch of a target shows, and whether that watch is synced. It goes over all of them,
// so a caller that judges many workloads should ask once.
func (t *Tracker) Pods(cluster clustercache.ClusterKey) (pods Pods, synced bool) {
	pods = Pods{}
	tgt := t.target(cluster)
	if tgt == nil {
		return pods, false
	}
	tgt.mu.Lock()
	need := tgt.watches[PodWatch]
	if need == nil || need.objects == nil {
		tgt.mu.Unlock()
		return pods, false
	}
	objects := need.objects
	tgt.mu.Unlock()
	synced = objects.Range(func(key types.NamespacedName, value any) bool {
		if obs, ok := value.(*Observation); ok && obs.Pod != nil {
			if pods[key.Namespace] == nil {
				pods[key.Namespace] = &podsIn{}
			}
			pods[key.Namespace].all = append(pods[key.Namespace].all, obs.Pod)
		}
		return true
	})
	return pods, synced
}
