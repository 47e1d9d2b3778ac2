package run

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Interrupted are the ManagedResources with something left to do for which their target was missing. The dispatcher
// asks when the target is back.
type Interrupted struct {
	mu    sync.Mutex
	names map[types.NamespacedName]bool
}

// Set notes whether something is left to do.
func (i *Interrupted) Set(name types.NamespacedName, left bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !left {
		delete(i.names, name)
		return
	}
	if i.names == nil {
		i.names = map[types.NamespacedName]bool{}
	}
	i.names[name] = true
}

// Take reports whether something is left to do. A run follows, so it is said once.
func (i *Interrupted) Take(name types.NamespacedName) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	left := i.names[name]
	delete(i.names, name)
	return left
}
