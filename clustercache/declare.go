package clustercache

import (
	"fmt"
	"maps"
	"slices"

	"github.com/trellis-hub/trellis/clustercache/internal/watching"
)

// declaredWatch is a watch of a target.
type declaredWatch struct {
	*watching.Declared
	boundTo int64 // number of the generation that it is bound to; only used by the target's loop
}

// declare adds a watch; the loop starts it.
func (t *target) declare(w Watcher) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watches == nil {
		return fmt.Errorf("target %s: %w", t.key, ErrClusterUnknown)
	}
	if _, exists := t.watches[w.Name]; exists {
		return nil
	}
	t.watches[w.Name] = &declaredWatch{Declared: watching.Declare(t.ctx, watching.Spec{
		Cluster: t.key, Name: w.Name, Kind: w.Kind, MetadataOnly: w.MetadataOnly, Namespace: w.Namespace,
		LabelSelector: w.LabelSelector, FieldSelector: w.FieldSelector, Fields: w.Fields, Transform: w.Transform, Handler: w.Handler, Room: t.room,
	})}
	t.poke()
	return nil
}

// withdraw ends a watch.
func (t *target) withdraw(name string) {
	t.mu.Lock()
	w := t.watches[name]
	delete(t.watches, name)
	t.mu.Unlock()
	if w != nil {
		w.Close()
	}
}

// declared returns all watches.
func (t *target) declared() []*declaredWatch {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.watches))
}

// bind starts the watches that do not run in a generation yet.
func (t *target) bind(g *generation) {
	for _, w := range t.declared() {
		if w.boundTo == g.number {
			continue
		}
		w.boundTo = g.number
		b := watching.Bind(w.Declared, g.watching)
		w.Promote(b)
		b.Start(&t.work)
	}
}

// reader reads from the watches.
func (t *target) reader() *watching.Reader {
	return &watching.Reader{Scheme: t.cache.options.Scheme, Watches: func() []*watching.Declared {
		watches := t.declared()
		all := make([]*watching.Declared, len(watches))
		for i, w := range watches {
			all[i] = w.Declared
		}
		return all
	}}
}
