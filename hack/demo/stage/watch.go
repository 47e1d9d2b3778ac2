package stage

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// patience is how long anything may take until it counts as not happening.
const patience = time.Minute

// Follower is a watch of one object.
type Follower struct {
	name  string
	watch watch.Interface
}

// Follow begins to watch an object, which may or may not exist. Whatever happens after it returned is seen.
func Follow(ctx context.Context, cluster *Cluster, kind schema.GroupVersionKind, key client.ObjectKey) (*Follower, error) {
	w, err := cluster.Watch.Watch(ctx, listOf(kind), client.InNamespace(key.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", key.Name)})
	name := fmt.Sprintf("%s %s in %s", kind.Kind, key, cluster.Name)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", name, err)
	}
	return &Follower{name: name, watch: w}, nil
}

// Until waits for a state of the object and returns when it was seen. A state of nil means that it does not exist.
func (f *Follower) Until(ctx context.Context, wanted func(*unstructured.Unstructured) bool) (time.Time, error) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	var last *unstructured.Unstructured
	for {
		select {
		case event, open := <-f.watch.ResultChan():
			now := time.Now()
			if err := failure(event, open); err != nil {
				return now, fmt.Errorf("watching %s: %w", f.name, err)
			}
			last, _ = event.Object.(*unstructured.Unstructured)
			if event.Type == watch.Deleted {
				last = nil
			}
			if wanted(last) {
				return now, nil
			}
		case <-timeout.C:
			return time.Now(), fmt.Errorf("%s is not as expected after %s, but: %v", f.name, patience, last)
		case <-ctx.Done():
			return time.Now(), fmt.Errorf("watching %s: %w", f.name, context.Cause(ctx))
		}
	}
}

// Stop ends the watch.
func (f *Follower) Stop() { f.watch.Stop() }

func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	kind.Kind += "List"
	list.SetGroupVersionKind(kind)
	return list
}

func failure(event watch.Event, open bool) error {
	switch {
	case !open:
		return fmt.Errorf("the watch ended")
	case event.Type == watch.Error:
		return apierrors.FromObject(event.Object)
	}
	return nil
}

// Board shows the ManagedResources and TargetClusters of a source cluster, as they change.
type Board struct {
	mu      sync.Mutex
	entries map[Ref]Entry
	history []Entry
	changed chan struct{} // closed at the next change
	err     error
}

// Ref names an entry of a board.
type Ref struct {
	// Kind is ManagedResource or TargetCluster.
	Kind string
	// ObjectKey is the name within the kind.
	client.ObjectKey
}

// String names the entry for people.
func (r Ref) String() string { return fmt.Sprintf("%s %s", r.Kind, r.ObjectKey) }

// ManagedResource refers to a ManagedResource.
func ManagedResource(namespace, name string) Ref {
	return Ref{Kind: "ManagedResource", ObjectKey: client.ObjectKey{Namespace: namespace, Name: name}}
}

// TargetCluster refers to a TargetCluster.
func TargetCluster(namespace, name string) Ref {
	return Ref{Kind: "TargetCluster", ObjectKey: client.ObjectKey{Namespace: namespace, Name: name}}
}

// Entry is what one object says since a moment.
type Entry struct {
	Ref Ref
	// Since is when it was seen.
	Since time.Time
	// Object lacks the inventory. Nil means that the object does not exist.
	Object *unstructured.Unstructured
}

// Condition returns the status, reason and message of a condition; all are empty if there is none.
func (e Entry) Condition(conditionType string) (status, reason, message string) {
	if e.Object == nil {
		return "", "", ""
	}
	conditions, _, _ := unstructured.NestedSlice(e.Object.Object, "status", "conditions")
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok || condition["type"] != conditionType {
			continue
		}
		status, _, _ = unstructured.NestedString(condition, "status")
		reason, _, _ = unstructured.NestedString(condition, "reason")
		message, _, _ = unstructured.NestedString(condition, "message")
	}
	return status, reason, message
}

// Is tells whether a condition has a status.
func (e Entry) Is(conditionType, status string) bool {
	is, _, _ := e.Condition(conditionType)
	return is == status
}

// Describe says for people what an entry is ready for, and why not.
func (e Entry) Describe() string {
	if e.Object == nil {
		return "does not exist"
	}
	status, reason, message := e.Condition("Ready")
	return fmt.Sprintf("has Ready=%s (%s: %s)", status, reason, message)
}

// NewBoard shows what there is in a source cluster until ctx ends.
func NewBoard(ctx context.Context, source *Cluster) (*Board, error) {
	b := &Board{entries: map[Ref]Entry{}, changed: make(chan struct{})}
	for _, kind := range []schema.GroupVersionKind{
		resourcesv1alpha1.GroupVersion.WithKind("ManagedResource"),
		hubv1alpha1.GroupVersion.WithKind("TargetCluster"),
	} {
		w, err := source.Watch.Watch(ctx, listOf(kind))
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", kind.Kind, err)
		}
		go b.follow(kind.Kind, w)
	}
	return b, nil
}

func (b *Board) follow(kind string, w watch.Interface) {
	defer w.Stop()
	for {
		event, open := <-w.ResultChan()
		now := time.Now()
		err := failure(event, open)
		b.mu.Lock()
		if object, ok := event.Object.(*unstructured.Unstructured); ok && err == nil {
			// The inventory is long and nobody looks at it here.
			unstructured.RemoveNestedField(object.Object, "status", "resources")
			object.SetManagedFields(nil)
			entry := Entry{Ref: Ref{Kind: kind, ObjectKey: client.ObjectKeyFromObject(object)}, Since: now, Object: object}
			b.entries[entry.Ref] = entry
			if event.Type == watch.Deleted {
				entry.Object = nil
				delete(b.entries, entry.Ref)
			}
			b.history = append(b.history, entry)
		} else if err != nil {
			b.err = fmt.Errorf("watching %s: %w", kind, err)
		}
		close(b.changed)
		b.changed = make(chan struct{})
		b.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Entries returns what the board shows now.
func (b *Board) Entries() map[Ref]Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.entries)
}

// History returns everything that the board showed since a moment.
func (b *Board) History(since time.Time) []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Entry
	for _, e := range b.history {
		if e.Since.After(since) {
			out = append(out, e)
		}
	}
	return out
}

// Await waits until an entry is as wanted, and returns it. An entry without an object does not exist.
func (b *Board) Await(ctx context.Context, ref Ref, wanted func(Entry) bool) (Entry, error) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		entry, changed, err := b.entries[ref], b.changed, b.err
		b.mu.Unlock()
		if entry.Object == nil {
			entry = Entry{Ref: ref, Since: time.Now()}
		}
		if wanted(entry) {
			return entry, nil
		}
		if err != nil {
			return entry, err
		}
		select {
		case <-changed:
		case <-timeout.C:
			return entry, fmt.Errorf("%s is not as expected after %s: it %s", ref, patience, entry.Describe())
		case <-ctx.Done():
			return entry, fmt.Errorf("waiting for %s: %w", ref, context.Cause(ctx))
		}
	}
}
