package clustercache

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/clustercache/internal/watching"
)

// watch is a stream of a target, which its subscriptions share.
type watch struct {
	*watching.Stream
	key           watchKey
	subscriptions int   // guarded by the target's mu
	boundTo       int64 // number of the generation that it is bound to; only used by the target's loop
}

// watchKey is what the subscriptions to a stream have in common. own is nil but for one that is shared with nobody.
type watchKey struct {
	kind                       schema.GroupVersionKind
	metadataOnly               bool
	namespace, labels, objects string
	form, fields               string
	own                        *Watcher
}

func keyOf(w *Watcher) watchKey {
	key := watchKey{kind: w.Kind, metadataOnly: w.MetadataOnly, namespace: w.Namespace, form: w.Form}
	if w.LabelSelector != nil {
		key.labels = w.LabelSelector.String()
	}
	if w.FieldSelector != nil {
		key.objects = w.FieldSelector.String()
	}
	if w.Fields != nil {
		paths := make([]string, len(w.Fields))
		for i, path := range w.Fields {
			paths[i] = strings.Join(path, "/")
		}
		key.fields = fmt.Sprintf("%q", paths)
	}
	if w.Transform != nil && w.Form == "" {
		key.own = w
	}
	return key
}

// subscription implements Subscription.
type subscription struct {
	*watching.Subscription
	target *target
	watch  *watch
}

// subscribe adds a subscription. Its stream is opened by the loop if it is new.
func (t *target) subscribe(watcher Watcher) (Subscription, error) {
	key := keyOf(&watcher)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watches == nil {
		return nil, fmt.Errorf("target %s: %w", t.key, ErrClusterUnknown)
	}
	w, exists := t.watches[key]
	if !exists {
		w = &watch{key: key, Stream: watching.NewStream(t.ctx, watching.Spec{
			Cluster: t.key, Name: watcher.Name, Kind: watcher.Kind, MetadataOnly: watcher.MetadataOnly,
			Namespace: watcher.Namespace, LabelSelector: watcher.LabelSelector, FieldSelector: watcher.FieldSelector,
			Fields: watcher.Fields, Transform: watcher.Transform, Quota: t.quota,
		})}
		t.watches[key] = w
	}
	w.subscriptions++
	s := &subscription{Subscription: w.Subscribe(watcher.Name, watcher.Handler), target: t, watch: w}
	if exists {
		t.work.Go(s.Join) // handlers may be at work, and this may be called by one
		return s, nil
	}
	s.Join() // nobody else has the stream yet
	t.poke()
	return s, nil
}

// Close implements Subscription.
func (s *subscription) Close() {
	if !s.Subscription.Close() {
		return
	}
	t, w := s.target, s.watch
	t.mu.Lock()
	w.subscriptions--
	last := w.subscriptions == 0
	if last && t.watches[w.key] == w {
		delete(t.watches, w.key)
	}
	t.mu.Unlock()
	if last {
		w.Close()
	}
}

// streams returns all streams.
func (t *target) streams() []*watch {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.watches))
}

// bind starts the streams that do not run in a generation yet.
func (t *target) bind(g *connection) {
	for _, w := range t.streams() {
		if w.boundTo == g.number {
			continue
		}
		w.boundTo = g.number
		b := watching.Bind(w.Stream, g.watching)
		w.Promote(b)
		b.Start(&t.work)
	}
}

// reader reads from the streams.
func (t *target) reader() *watching.Reader {
	return &watching.Reader{Scheme: t.cache.options.Scheme, Watches: func() []*watching.Stream {
		watches := t.streams()
		all := make([]*watching.Stream, len(watches))
		for i, w := range watches {
			all[i] = w.Stream
		}
		return all
	}}
}
