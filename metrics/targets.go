package metrics

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Targets has what the metrics of each target are made of, for a collector: from Engage to Forget. The zero value is
// empty. It is safe for concurrent use.
type Targets[T any] struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*T
}

// Engage begins with a value for a target.
func (t *Targets[T]) Engage(key types.NamespacedName, value T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[types.NamespacedName]*T{}
	}
	t.all[key] = &value
}

// Forget drops a target: its metrics have no series any longer.
func (t *Targets[T]) Forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, key)
}

// Update changes the value of a target. A target that is not engaged has none, and nothing happens.
func (t *Targets[T]) Update(key types.NamespacedName, change func(*T)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if value := t.all[key]; value != nil {
		change(value)
	}
}

// Range shows visit the value of each target, with the value of the label "target". visit must be quick, and not call
// Targets.
func (t *Targets[T]) Range(visit func(target string, value *T)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, value := range t.all {
		visit(TargetName(key), value)
	}
}
