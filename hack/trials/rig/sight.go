package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/demo/stage"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// Sight sees the ManagedResources and TargetClusters of the source, without their inventories.
type Sight struct {
	done chan struct{}
	err  error // how it ended; read after done

	mu       sync.Mutex
	objects  map[Ref]client.Object
	awaiting map[*Expectation]struct{}
	latest   time.Time     // when a ManagedResource was last seen to change
	changed  chan struct{} // closed at the next change that an expectation cares for
}

// Ref names an object of the source.
type Ref struct {
	// Kind is ManagedResource or TargetCluster.
	Kind string
	client.ObjectKey
}

const (
	managedResource = "ManagedResource"
	targetCluster   = "TargetCluster"
)

// TargetClusterOf refers to what the hub says of a target.
func TargetClusterOf(target *fleetsim.Target) Ref {
	return Ref{Kind: targetCluster, ObjectKey: client.ObjectKey{Namespace: Namespace(target), Name: target.Name()}}
}

// TargetClustersOf is TargetClusterOf for all of them.
func TargetClustersOf(targets []*fleetsim.Target) []Ref {
	refs := make([]Ref, 0, len(targets))
	for _, target := range targets {
		refs = append(refs, TargetClusterOf(target))
	}
	return refs
}

// ManagedResource refers to one.
func ManagedResource(namespace, name string) Ref {
	return Ref{Kind: managedResource, ObjectKey: client.ObjectKey{Namespace: namespace, Name: name}}
}

// newSight looks until ctx ends.
func newSight(ctx context.Context, source *stage.Cluster) (*Sight, error) {
	s := &Sight{done: make(chan struct{}), objects: map[Ref]client.Object{}, awaiting: map[*Expectation]struct{}{}, changed: make(chan struct{})}
	config := source.RESTConfig()
	config.QPS, config.UserAgent = -1, "sight"
	all, err := cache.New(config, cache.Options{Scheme: hubtest.Scheme(), DefaultTransform: trim})
	if err != nil {
		return nil, fmt.Errorf("watching the source: %w", err)
	}
	go func() {
		defer close(s.done)
		s.err = all.Start(ctx)
	}()
	for kind, example := range map[string]client.Object{managedResource: &resourcesv1alpha1.ManagedResource{}, targetCluster: &hubv1alpha1.TargetCluster{}} {
		informer, err := all.GetInformer(ctx, example)
		if err != nil {
			return s, fmt.Errorf("watching the source: %w", err)
		}
		see := func(object any, gone bool) {
			if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if o, ok := object.(client.Object); ok {
				s.see(Ref{Kind: kind, ObjectKey: client.ObjectKeyFromObject(o)}, o, gone)
			}
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { see(o, false) },
			UpdateFunc: func(_, o any) { see(o, false) },
			DeleteFunc: func(o any) { see(o, true) },
		}); err != nil {
			return s, fmt.Errorf("watching the source: %w", err)
		}
	}
	return s, nil
}

// trim drops what is long and nobody asks for.
func trim(object any) (any, error) {
	if o, ok := object.(client.Object); ok {
		o.SetManagedFields(nil)
	}
	if mr, ok := object.(*resourcesv1alpha1.ManagedResource); ok {
		mr.Status.Resources = nil
	}
	return object, nil
}

func (s *Sight) wait() { <-s.done }

func (s *Sight) see(ref Ref, object client.Object, gone bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if ref.Kind == managedResource {
		s.latest = now
	}
	if gone {
		delete(s.objects, ref)
		object = nil
	} else {
		s.objects[ref] = object
	}
	news := false
	for e := range s.awaiting {
		news = e.look(ref, object, now) || news
	}
	if news {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// Expectation is about some objects: that each comes to be in a certain way.
type Expectation struct {
	sight  *Sight
	what   string
	wanted func(client.Object) bool
	open   map[Ref]struct{}
	seen   map[Ref]time.Time
}

// look returns true if it was waiting for that.
func (e *Expectation) look(ref Ref, object client.Object, now time.Time) bool {
	if _, open := e.open[ref]; !open || !e.wanted(object) {
		return false
	}
	delete(e.open, ref)
	e.seen[ref] = now
	return true
}

// Expect begins to look for what is wanted of each object, which is nil while it does not exist. What is so already counts as
// seen now. An expectation that is not waited for must be ended.
func (s *Sight) Expect(what string, refs []Ref, wanted func(client.Object) bool) *Expectation {
	e := &Expectation{sight: s, what: what, wanted: wanted, open: map[Ref]struct{}{}, seen: map[Ref]time.Time{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, ref := range refs {
		e.open[ref] = struct{}{}
		e.look(ref, s.objects[ref], now)
	}
	s.awaiting[e] = struct{}{}
	return e
}

// End stops looking, and returns what was seen.
func (e *Expectation) End() map[Ref]time.Time {
	e.sight.mu.Lock()
	defer e.sight.mu.Unlock()
	delete(e.sight.awaiting, e)
	return e.seen
}

// Open is how many objects are not as wanted yet, and Example says for people what one of them is like.
func (e *Expectation) Open() (n int, example string) {
	e.sight.mu.Lock()
	defer e.sight.mu.Unlock()
	for ref := range e.open {
		return len(e.open), fmt.Sprintf("%s %s: %s", ref.Kind, ref.ObjectKey, describe(e.sight.objects[ref]))
	}
	return 0, ""
}

// Wait waits until all are as wanted and returns when each was seen to be.
func (e *Expectation) Wait(ctx context.Context, r *Rig, patience time.Duration) (map[Ref]time.Time, error) {
	err := r.Until(ctx, patience, 20*time.Millisecond, e.what, func() (bool, error) {
		n, _ := e.Open()
		return n == 0, nil
	})
	if err != nil {
		n, example := e.Open()
		err = fmt.Errorf("%w: %d are missing, such as %s", err, n, example)
	}
	return e.End(), err
}

// Count counts the objects of a kind for which something is so.
func (s *Sight) Count(kind string, is func(client.Object) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for ref, object := range s.objects {
		if ref.Kind == kind && is(object) {
			n++
		}
	}
	return n
}

// AwaitStill waits until no ManagedResource has changed for a while: what the hub knows of them it has written down then.
func (s *Sight) AwaitStill(ctx context.Context, r *Rig, patience, while time.Duration) error {
	began := time.Now()
	return r.Until(ctx, patience, while/10, fmt.Sprintf("nothing has been written to ManagedResources for %s", while), func() (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return time.Since(began) > while && time.Since(s.latest) > while, nil
	})
}

// Is tells that a TargetCluster has a condition with this status.
func Is(condition string, status metav1.ConditionStatus) func(client.Object) bool {
	return func(object client.Object) bool {
		tc, ok := object.(*hubv1alpha1.TargetCluster)
		return ok && meta.IsStatusConditionPresentAndEqual(tc.Status.Conditions, condition, status)
	}
}

// Applied tells that a ManagedResource is applied as it is now, and noted.
func Applied(object client.Object) bool {
	return has(object, resourcesv1alpha1.ConditionResourcesApplied) && object.GetAnnotations()[hubv1alpha1.AppliedAnnotation] != ""
}

// Ready tells that a ManagedResource is ready as it is now.
func Ready(object client.Object) bool { return has(object, resourcesv1alpha1.ConditionReady) }

// Gone tells that there is none.
func Gone(object client.Object) bool { return object == nil }

func has(object client.Object, condition resourcesv1alpha1.ConditionType) bool {
	mr, ok := object.(*resourcesv1alpha1.ManagedResource)
	if !ok || mr.Status.ObservedGeneration != mr.Generation {
		return false
	}
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, condition)
	return c != nil && c.Status == resourcesv1alpha1.ConditionTrue
}

// describe says what an object is like.
func describe(object client.Object) string {
	switch o := object.(type) {
	case *resourcesv1alpha1.ManagedResource:
		c := resourcesv1alpha1.GetCondition(o.Status.Conditions, resourcesv1alpha1.ConditionReady)
		if c == nil {
			return "nothing is said of it"
		}
		return fmt.Sprintf("Ready is %s (%s): %s", c.Status, c.Reason, c.Message)
	case *hubv1alpha1.TargetCluster:
		c := meta.FindStatusCondition(o.Status.Conditions, hubv1alpha1.ConditionReady)
		if c == nil {
			return "nothing is said of it"
		}
		return fmt.Sprintf("Ready is %s (%s): %s", c.Status, c.Reason, c.Message)
	}
	return "it does not exist"
}

// Describe says for people what the source says of a target and its ManagedResources.
func (s *Sight) Describe(target *fleetsim.Target) string {
	refs := append(s.managedResources([]*fleetsim.Target{target}), TargetClusterOf(target))
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := make([]string, 0, len(refs))
	for _, ref := range refs {
		lines = append(lines, fmt.Sprintf("%s %s: %s", ref.Kind, ref.Name, describe(s.objects[ref])))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
