package barrier_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/barrier"
)

// state is what one side holds: versions by name. Each page of a list has one item.
type state struct {
	mu      sync.Mutex
	version int
	items   map[string]int
	fails   error
	gets    int
}

func (s *state) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	version, ok := s.items[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: resourcesv1alpha1.GroupName, Resource: "managedresources"}, key.Name)
	}
	obj.SetResourceVersion(strconv.Itoa(version))
	return nil
}

func (s *state) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return s.fails
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	page, _ := strconv.Atoi(o.Continue)
	i := 0
	for _, name := range []string{"a", "b", "c", "d"} {
		version, ok := s.items[name]
		if !ok {
			continue
		}
		meta := metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: strconv.Itoa(version)}
		switch l := list.(type) {
		case *resourcesv1alpha1.ManagedResourceList:
			l.Items = append(l.Items, resourcesv1alpha1.ManagedResource{ObjectMeta: meta})
		case *metav1.PartialObjectMetadataList:
			if i == page {
				l.Items = append(l.Items, metav1.PartialObjectMetadata{ObjectMeta: meta})
			}
			if i == page+1 {
				l.Continue = strconv.Itoa(i)
			}
		}
		i++
	}
	list.SetResourceVersion(strconv.Itoa(s.version))
	return nil
}

func TestAwait(t *testing.T) {
	type change func(live, cached *state)
	for name, test := range map[string]struct {
		live, cached map[string]int
		changes      []change // each is waited for
		behind       int
	}{
		"nothing is there": {},
		"all is known":     {live: map[string]int{"a": 5, "b": 100}, cached: map[string]int{"a": 5, "b": 100}},
		"newer is known":   {live: map[string]int{"a": 5}, cached: map[string]int{"a": 101, "b": 102}},
		"older is known": {live: map[string]int{"a": 5, "b": 100, "c": 7}, cached: map[string]int{"a": 5, "b": 99, "c": 6}, behind: 2, changes: []change{
			func(_, cached *state) { cached.items["b"] = 100 },
			func(_, cached *state) { cached.items["c"] = 120 },
		}},
		"one is not known": {live: map[string]int{"a": 5}, cached: map[string]int{}, behind: 1, changes: []change{
			func(_, cached *state) { cached.items["a"] = 4 },
			func(_, cached *state) { cached.items["a"] = 5 },
		}},
		"one is gone": {live: map[string]int{}, cached: map[string]int{"a": 5}, behind: 1, changes: []change{
			func(_, cached *state) { delete(cached.items, "a") },
		}},
		"one is gone and came back": {live: map[string]int{}, cached: map[string]int{"a": 5}, behind: 1, changes: []change{
			func(_, cached *state) { cached.items["a"] = 101 },
		}},
		"one that is not known goes": {live: map[string]int{"a": 5}, cached: map[string]int{}, behind: 1, changes: []change{
			func(live, _ *state) { delete(live.items, "a") },
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				live := &state{version: 100, items: test.live}
				cached := &state{version: 90, items: test.cached}
				done := make(chan error, 1)
				behind := 0
				go func() {
					var err error
					behind, err = barrier.Await(t.Context(), live, cached)
					done <- err
				}()
				for _, change := range test.changes {
					time.Sleep(10 * time.Second)
					synctest.Wait()
					g.Expect(done).NotTo(Receive(), "it must wait")
					live.mu.Lock()
					cached.mu.Lock()
					change(live, cached)
					live.mu.Unlock()
					cached.mu.Unlock()
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				g.Expect(done).To(Receive(BeNil()))
				g.Expect(behind).To(Equal(test.behind))
				if test.behind == 0 {
					g.Expect(live.gets+cached.gets).To(BeZero(), "one list is all")
				}
			})
		})
	}
}

func TestAwaitFails(t *testing.T) {
	g := NewWithT(t)
	_, err := barrier.Await(t.Context(), &state{fails: errors.New("no")}, &state{})
	g.Expect(err).To(MatchError(ContainSubstring("no")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = barrier.Await(ctx, &state{items: map[string]int{"a": 1}}, &state{})
	g.Expect(err).To(MatchError(context.Canceled))
}
