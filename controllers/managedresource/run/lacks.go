package run

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// Lacks are the ManagedResources that failed because something is missing in their target that others may bring: a
// kind, or a namespace.
type Lacks struct {
	mu      sync.Mutex
	in      map[types.NamespacedName]clustercache.ClusterKey
	brought map[types.NamespacedName]bool
}

// Set notes whether a ManagedResource lacks something in a target.
func (l *Lacks) Set(name types.NamespacedName, target clustercache.ClusterKey, lacking bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !lacking {
		delete(l.in, name)
		return
	}
	if l.in == nil {
		l.in, l.brought = map[types.NamespacedName]clustercache.ClusterKey{}, map[types.NamespacedName]bool{}
	}
	l.in[name] = target
}

// Forget drops what is known of a ManagedResource.
func (l *Lacks) Forget(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.in, name)
	delete(l.brought, name)
}

// bring returns those that lack something in a target, because something came there. Their next run takes note of it.
func (l *Lacks) bring(target clustercache.ClusterKey) (names []types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, in := range l.in {
		if in == target {
			l.brought[name] = true
			names = append(names, name)
		}
	}
	return names
}

// Retry has others tried again for which a run has created what they lack in its target, by what it applied.
func (l *Lacks) Retry(s *Subject, applied []apply.Outcome, enqueue func(types.NamespacedName)) {
	known := s.Book()
	for _, o := range applied {
		if gk := o.Key.GroupKind(); o.UID == "" || o.Unchanged || !inventory.IsNamespace(gk) && !inventory.ServesKinds(gk) {
			continue
		}
		if ref := known.Find(o.Key); ref != nil && ref.UID == o.UID {
			continue
		}
		for _, name := range l.bring(s.Target) {
			if name != s.Name {
				enqueue(name)
			}
		}
		return
	}
}

// Take reports, once, whether something came since a ManagedResource was found to lack something.
func (l *Lacks) Take(name types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	came := l.brought[name]
	delete(l.brought, name)
	return came
}
