package clustercache

import "fmt"

// declare adds a watch; the loop starts it.
func (t *target) declare(watcher Watcher) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watches == nil {
		return fmt.Errorf("target %s: %w", t.key, ErrClusterUnknown)
	}
	if _, exists := t.watches[watcher.Name]; !exists {
		t.watches[watcher.Name] = newDeclaredWatch(t.ctx, t.key, watcher)
		t.poke()
	}
	return nil
}

// withdraw ends a watch.
func (t *target) withdraw(name string) {
	t.mu.Lock()
	w := t.watches[name]
	delete(t.watches, name)
	t.mu.Unlock()
	if w != nil {
		w.close()
	}
}
