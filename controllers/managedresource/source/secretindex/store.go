package secretindex

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

type runtimeObject = runtime.Object

// store is the index as the reflector of a namespace sees it: it takes events and keeps next to nothing.
type store struct {
	index     *Index
	namespace string // empty for all
	listed    bool

	// streams is true while a list is read without foreign Secrets, and from how many references had been noted when it
	// began. Only used by the goroutine of the reflector.
	streams bool
	from    uint64
}

var _ toolscache.ReflectorStore = &store{}

func (s *store) Add(obj any) error    { return s.Update(obj) }
func (s *store) Resync() error        { return nil }
func (s *store) Update(obj any) error { return s.event(obj, false) }
func (s *store) Delete(obj any) error { return s.event(obj, true) }

func (s *store) event(obj any, gone bool) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("unexpected object in the watch of Secrets: %w", err)
	}
	version := Version{UID: m.GetUID(), ResourceVersion: m.GetResourceVersion()}
	if gone {
		version = Version{}
	}
	s.index.changed(types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, version, m.GetResourceVersion())
	return nil
}

// Replace takes a complete list: what is referenced and not in it does not exist, unless the reference came while the
// list was read and the Secret may have counted as foreign.
func (s *store) Replace(list []any, resourceVersion string) error {
	x := s.index
	present := make(map[types.NamespacedName]Version)
	x.mu.Lock()
	referenced := make(map[types.NamespacedName]bool, len(x.refs)) // false: not to be found in the list for certain
	for name := range x.refs {
		if s.namespace == metav1.NamespaceAll || s.namespace == name.Namespace {
			referenced[name] = !s.streams || x.noted[name] <= s.from
		}
	}
	x.mu.Unlock()
	s.streams = false
	for _, obj := range list {
		if obj == someForeign {
			continue
		}
		m, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("unexpected object in the list of Secrets: %w", err)
		}
		name := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
		if _, wanted := referenced[name]; wanted {
			present[name] = Version{UID: m.GetUID(), ResourceVersion: m.GetResourceVersion()}
		}
	}
	for name, certain := range referenced {
		if !certain && !present[name].Exists() {
			x.lose(name) // it counted as foreign, or is not there: it is read
			continue
		}
		at := resourceVersion
		if v := present[name]; v.Exists() {
			at = v.ResourceVersion
		}
		x.changed(name, present[name], at)
	}
	if !s.listed {
		s.listed = true
		x.listed()
	}
	return nil
}

// begin begins to read a list that comes object by object, at the start of a watch. The reflector gets none of the
// foreign Secrets in it: it keeps whatever it gets until the list is complete. Of a hundred thousand that would be more
// than the rest of the hub, and their names alone would be as much.
func (s *store) begin(w watch.Interface) watch.Interface {
	s.index.mu.Lock()
	s.streams, s.from = true, s.index.notes
	s.index.mu.Unlock()
	f := &familiar{Interface: w, index: s.index, events: make(chan watch.Event), stopped: make(chan struct{})}
	go f.run()
	return f
}

// whole begins to read a list with all Secrets, which comes at once.
func (s *store) whole() { s.streams = false }

// someForeign stands for foreign Secrets, of which one in so many is told: a reflector that hears of nothing takes the
// watch for one that does not work.
var someForeign = &metav1.PartialObjectMetadata{}

const seldom = 1000

// familiar is a watch that begins with a list, without the foreign Secrets of that list. What comes later is whole: the
// reflector goes on from the last event that it got.
type familiar struct {
	watch.Interface
	index   *Index
	events  chan watch.Event
	stop    sync.Once
	stopped chan struct{}
}

func (f *familiar) ResultChan() <-chan watch.Event { return f.events }

func (f *familiar) Stop() {
	f.stop.Do(func() { close(f.stopped) })
	f.Interface.Stop()
}

func (f *familiar) run() {
	defer close(f.events)
	listing, left := true, 0
	for event := range f.Interface.ResultChan() {
		listing = listing && event.Type == watch.Added // a bookmark ends the list
		if listing && f.index.foreign(event.Object) {
			if left++; left%seldom != 0 {
				continue
			}
			event.Object = someForeign
		}
		select {
		case f.events <- event:
		case <-f.stopped:
			return
		}
	}
}

// foreign tells of a Secret whether nobody refers to it.
func (x *Index) foreign(secret runtime.Object) bool {
	m, err := meta.Accessor(secret)
	if err != nil {
		return false // whoever gets it has an error to tell
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.refs[types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}].none()
}

// listed notes that one more watch has seen a list. The last one makes the index synced.
func (x *Index) listed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unlisted--; x.unlisted == 0 {
		close(x.synced)
	}
}
