package testbed

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// patience is how long anything may take until it counts as not happening.
const patience = time.Minute

// Ref names an object that an Observer sees.
type Ref struct {
	// Kind is ManagedResource or TargetCluster.
	Kind string
	client.ObjectKey
}

// The kinds that an Observer sees.
const (
	ManagedResourceKind = "ManagedResource"
	TargetClusterKind   = "TargetCluster"
)

// String names the object for people.
func (r Ref) String() string { return fmt.Sprintf("%s %s", r.Kind, r.ObjectKey) }

// ManagedResourceRef refers to a ManagedResource.
func ManagedResourceRef(namespace, name string) Ref {
	return Ref{Kind: ManagedResourceKind, ObjectKey: client.ObjectKey{Namespace: namespace, Name: name}}
}

// TargetClusterRef refers to a TargetCluster.
func TargetClusterRef(namespace, name string) Ref {
	return Ref{Kind: TargetClusterKind, ObjectKey: client.ObjectKey{Namespace: namespace, Name: name}}
}

// Entry is one object as it is since a moment.
type Entry struct {
	Ref Ref
	// Since is when it was seen.
	Since time.Time
	// Object has no inventory and no managedFields. Nil means that the object does not exist.
	Object client.Object
}

// Condition returns the status, reason and message of a condition; all are empty if there is none.
func (e Entry) Condition(conditionType string) (status, reason, message string) {
	return Condition(e.Object, conditionType)
}

// Is reports whether a condition has a status.
func (e Entry) Is(conditionType, status string) bool {
	is, _, _ := e.Condition(conditionType)
	return is == status
}

// Describe says for people whether an object is ready, and why not.
func (e Entry) Describe() string {
	if e.Object == nil {
		return "does not exist"
	}
	status, reason, message := e.Condition("Ready")
	return fmt.Sprintf("has Ready=%s (%s: %s)", status, reason, message)
}

// Condition returns the status, reason and message of a condition of a ManagedResource, a TargetCluster or an
// unstructured object; all are empty if there is none.
func Condition(object client.Object, conditionType string) (status, reason, message string) {
	switch o := object.(type) {
	case *resourcesv1alpha1.ManagedResource:
		if c := resourcesv1alpha1.GetCondition(o.Status.Conditions, resourcesv1alpha1.ConditionType(
			conditionType)); c != nil {
			return string(c.Status), c.Reason, c.Message
		}
	case *hubv1alpha1.TargetCluster:
		if c := meta.FindStatusCondition(o.Status.Conditions, conditionType); c != nil {
			return string(c.Status), c.Reason, c.Message
		}
	case *unstructured.Unstructured:
		if o == nil {
			return "", "", ""
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			condition, ok := c.(map[string]any)
			if !ok || condition["type"] != conditionType {
				continue
			}
			status, _, _ = unstructured.NestedString(condition, "status")
			reason, _, _ = unstructured.NestedString(condition, "reason")
			message, _, _ = unstructured.NestedString(condition, "message")
		}
	}
	return status, reason, message
}

// ObserverOptions say what an Observer keeps.
type ObserverOptions struct {
	// History keeps everything that was seen, and not only the latest.
	History bool
}

// Observer sees the ManagedResources and TargetClusters of a source cluster as they change.
type Observer struct {
	options ObserverOptions
	cancel  context.CancelFunc
	done    chan struct{} // closed when it has ended

	mu       sync.Mutex
	entries  map[Ref]Entry
	history  []Entry
	awaiting map[*Expectation]struct{}
	latest   time.Time // when a ManagedResource was last seen to change
}

// Observe watches a source cluster until Stop is called or ctx ends.
func Observe(ctx context.Context, source *Cluster, options ObserverOptions) (*Observer, error) {
	o := &Observer{options: options, done: make(chan struct{}), entries: map[Ref]Entry{},
		awaiting: map[*Expectation]struct{}{}}
	config := source.RESTConfig()
	config.QPS, config.UserAgent = -1, "observer"
	all, err := cache.New(config, cache.Options{Scheme: Scheme(), DefaultTransform: trim})
	if err != nil {
		return nil, fmt.Errorf("observing the source: %w", err)
	}
	ctx, o.cancel = context.WithCancel(ctx)
	go func() {
		defer close(o.done)
		_ = all.Start(ctx) // it ends with ctx
	}()
	for kind, example := range map[string]client.Object{
		ManagedResourceKind: &resourcesv1alpha1.ManagedResource{}, TargetClusterKind: &hubv1alpha1.TargetCluster{},
	} {
		informer, err := all.GetInformer(ctx, example)
		if err == nil {
			_, err = informer.AddEventHandler(o.handler(kind))
		}
		if err != nil {
			o.Stop()
			return nil, fmt.Errorf("observing the source: %w", err)
		}
	}
	return o, nil
}

func (o *Observer) handler(kind string) toolscache.ResourceEventHandler {
	see := func(object any, gone bool) {
		if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		if object, ok := object.(client.Object); ok {
			o.see(Ref{Kind: kind, ObjectKey: client.ObjectKeyFromObject(object)}, object, gone)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { see(object, false) },
		UpdateFunc: func(_, object any) { see(object, false) },
		DeleteFunc: func(object any) { see(object, true) },
	}
}

// trim drops what is long and not needed.
func trim(object any) (any, error) {
	if o, ok := object.(client.Object); ok {
		o.SetManagedFields(nil)
	}
	if mr, ok := object.(*resourcesv1alpha1.ManagedResource); ok {
		mr.Status.Resources = nil
	}
	return object, nil
}

// Stop ends the watches. Stopping twice is fine.
func (o *Observer) Stop() {
	o.cancel()
	<-o.done
}

func (o *Observer) see(ref Ref, object client.Object, gone bool) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if ref.Kind == ManagedResourceKind {
		o.latest = now
	}
	entry := Entry{Ref: ref, Since: now, Object: object}
	if gone {
		entry.Object = nil
		delete(o.entries, ref)
	} else {
		o.entries[ref] = entry
	}
	if o.options.History {
		o.history = append(o.history, entry)
	}
	for e := range o.awaiting {
		e.look(entry)
	}
}

// Entries are the objects that there are now.
func (o *Observer) Entries() map[Ref]Entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.entries)
}

// History is everything that was seen since a moment, if it is kept.
func (o *Observer) History(since time.Time) []Entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []Entry
	for _, e := range o.history {
		if e.Since.After(since) {
			out = append(out, e)
		}
	}
	return out
}

// Version is a ManagedResource as it was seen at a time.
type Version struct {
	*resourcesv1alpha1.ManagedResource
	At time.Time
}

// Of returns the versions of a ManagedResource that were seen so far, if the history is kept.
func (o *Observer) Of(key types.NamespacedName) []Version {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []Version
	for _, e := range o.history {
		if mr, ok := e.Object.(*resourcesv1alpha1.ManagedResource); ok && e.Ref.ObjectKey == key {
			out = append(out, Version{mr, e.Since})
		}
	}
	return out
}

// Latest is when a ManagedResource was last seen to change.
func (o *Observer) Latest() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.latest
}

// Count counts the objects of a kind for which something is so.
func (o *Observer) Count(kind string, is func(client.Object) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for ref, entry := range o.entries {
		if ref.Kind == kind && is(entry.Object) {
			n++
		}
	}
	return n
}

// Await waits until an object is as wanted, and returns it.
func (o *Observer) Await(ctx context.Context, ref Ref, wanted func(Entry) bool) (Entry, error) {
	var found Entry
	e := o.expect(ref.String(), []Ref{ref}, func(entry Entry) bool {
		if !wanted(entry) {
			return false
		}
		found = entry
		return true
	})
	defer e.End()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-e.met:
		return found, nil
	case <-timeout.C:
		_, example := e.Open()
		return Entry{Ref: ref}, fmt.Errorf("not as expected after %s: %s", patience, example)
	case <-ctx.Done():
		return Entry{Ref: ref}, fmt.Errorf("waiting for %s: %w", ref, context.Cause(ctx))
	}
}

// Expectation is about some objects: that each comes to be in a certain way.
type Expectation struct {
	observer *Observer
	what     string
	wanted   func(Entry) bool
	open     map[Ref]struct{}
	seen     map[Ref]time.Time
	met      chan struct{} // closed when all are as wanted
}

// Expect begins to look for what is wanted of each object, which is nil while it does not exist. What is so already
// counts as seen now. An expectation that is not waited for must be ended.
func (o *Observer) Expect(what string, refs []Ref, wanted func(client.Object) bool) *Expectation {
	now := time.Now()
	return o.expect(what, refs, func(entry Entry) bool { return wanted(entry.Object) }).notBefore(now)
}

func (o *Observer) expect(what string, refs []Ref, wanted func(Entry) bool) *Expectation {
	e := &Expectation{
		observer: o, what: what, wanted: wanted, open: map[Ref]struct{}{}, seen: map[Ref]time.Time{},
		met: make(chan struct{}),
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ref := range refs {
		e.open[ref] = struct{}{}
	}
	if len(refs) == 0 {
		close(e.met)
	}
	for _, ref := range refs {
		entry, exists := o.entries[ref]
		if !exists {
			entry = Entry{Ref: ref, Since: time.Now()}
		}
		e.look(entry)
	}
	o.awaiting[e] = struct{}{}
	return e
}

// notBefore has everything that was seen before a moment count as seen then.
func (e *Expectation) notBefore(moment time.Time) *Expectation {
	e.observer.mu.Lock()
	defer e.observer.mu.Unlock()
	for ref, seen := range e.seen {
		if seen.Before(moment) {
			e.seen[ref] = moment
		}
	}
	return e
}

// look is called with the observer locked.
func (e *Expectation) look(entry Entry) {
	if _, open := e.open[entry.Ref]; !open || !e.wanted(entry) {
		return
	}
	delete(e.open, entry.Ref)
	e.seen[entry.Ref] = entry.Since
	if len(e.open) == 0 {
		close(e.met)
	}
}

// End stops looking, and returns what was seen.
func (e *Expectation) End() map[Ref]time.Time {
	e.observer.mu.Lock()
	defer e.observer.mu.Unlock()
	delete(e.observer.awaiting, e)
	return e.seen
}

// Open is how many objects are not as wanted yet, and example says for people what one of them is like.
func (e *Expectation) Open() (n int, example string) {
	e.observer.mu.Lock()
	defer e.observer.mu.Unlock()
	for ref := range e.open {
		return len(e.open), fmt.Sprintf("%s %s", ref, e.observer.entries[ref].Describe())
	}
	return 0, ""
}

// Poller polls until something is done, and prints meanwhile what it waits for.
type Poller interface {
	Until(ctx context.Context, patience, every time.Duration, what string, done func() (bool, error)) error
}

// Wait waits until all are as wanted and returns when each was seen to be.
func (e *Expectation) Wait(ctx context.Context, p Poller, patience time.Duration) (map[Ref]time.Time, error) {
	err := p.Until(ctx, patience, 20*time.Millisecond, e.what, func() (bool, error) {
		n, _ := e.Open()
		return n == 0, nil
	})
	if err != nil {
		n, example := e.Open()
		err = fmt.Errorf("%w: %d are missing, such as %s", err, n, example)
	}
	return e.End(), err
}
