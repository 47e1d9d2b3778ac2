package storage

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Errors of a Store.
var (
	// ErrExpired says that a version is older than what is kept.
	ErrExpired = errors.New("the resource version is too old")
	// ErrSlow says that a watch has fallen behind further than events are kept.
	ErrSlow = errors.New("the watch is too slow")
	// ErrEnded says that there is nothing to watch any longer: the resource is gone, watches are to begin again, or the
	// store is closed.
	ErrEnded = errors.New("the watch has ended")
)

// Store holds the objects of one server. Its methods may be called by many at a time.
type Store struct {
	window int

	mu      sync.Mutex
	version uint64
	held    int    // bytes that nothing but events holds, about
	base    uint64 // no event up to this version is known
	tables  map[schema.GroupResource]*table
	expired int // how often Expire was called
	ended   int // how often EndWatches was called
	closed  bool
}

// table holds the objects of one resource.
type table struct {
	objects []*Object // sorted by key
	events  []Event   // the last ones, oldest first
	floor   uint64    // version up to which events are not known
	changed chan struct{}
	served  bool // Serve or Load began it
	dropped bool
}

// EventType is what happened to an object.
type EventType byte

// The types of an Event.
const (
	Added    EventType = 'A'
	Modified EventType = 'M'
	Deleted  EventType = 'D'
)

// Event is one change of an object.
type Event struct {
	Version uint64
	// Object after the change; nil: it was deleted. Before is nil if it was created.
	Object, Before *Object
}

// Type of the event.
func (e Event) Type() EventType {
	switch {
	case e.Object == nil:
		return Deleted
	case e.Before == nil:
		return Added
	}
	return Modified
}

// NewStore returns an empty store that keeps this many events of every resource, or fewer if they are large: those of all resources
// hold less than a megabyte together.
func NewStore(window int) *Store {
	return &Store{window: max(window, 1), version: 1, tables: map[schema.GroupResource]*table{}}
}

// table returns the table of a resource. The lock is held.
func (s *Store) table(r schema.GroupResource) *table {
	t := s.tables[r]
	if t == nil {
		t = &table{floor: s.base}
		s.tables[r] = t
	}
	return t
}

func (t *table) find(key string) (int, bool) {
	return slices.BinarySearchFunc(t.objects, key, func(o *Object, key string) int { return strings.Compare(o.Key(), key) })
}

// Version of the last write.
func (s *Store) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Count returns how many objects there are.
func (s *Store) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, t := range s.tables {
		n += len(t.objects)
	}
	return n
}

// Resources returns the resources there are objects of, sorted.
func (s *Store) Resources() []schema.GroupResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var resources []schema.GroupResource
	for r, t := range s.tables {
		if len(t.objects) > 0 {
			resources = append(resources, r)
		}
	}
	slices.SortFunc(resources, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return resources
}

// Get returns an object, nil if there is none.
func (s *Store) Get(r schema.GroupResource, key string) *Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(r, key)
}

func (s *Store) get(r schema.GroupResource, key string) *Object {
	t := s.tables[r]
	if t == nil {
		return nil
	}
	if i, ok := t.find(key); ok {
		return t.objects[i]
	}
	return nil
}

// List returns the objects of a namespace, of all if it is empty, sorted by key, and the version they are of. At asks for the
// state at an older version; 0: the newest. ErrExpired: it is not known any longer.
func (s *Store) List(r schema.GroupResource, namespace string, at uint64) ([]*Object, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(r)
	if at == 0 || at >= s.version {
		return within(slices.Clone(t.objects), namespace), s.version, nil
	}
	if at < t.floor {
		return nil, 0, ErrExpired
	}
	// What happened since is undone, the newest first.
	then := map[string]*Object{}
	for _, e := range slices.Backward(t.events) {
		if e.Version <= at {
			break
		}
		if e.Before != nil {
			then[e.Before.Key()] = e.Before
		} else {
			then[e.Object.Key()] = nil
		}
	}
	objects := make([]*Object, 0, len(t.objects))
	for _, o := range t.objects {
		if _, ok := then[o.Key()]; !ok {
			objects = append(objects, o)
		}
	}
	for _, o := range then {
		if o != nil {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, func(a, b *Object) int { return strings.Compare(a.Key(), b.Key()) })
	return within(objects, namespace), at, nil
}

// within returns the part of a sorted list that is in the namespace.
func within(objects []*Object, namespace string) []*Object {
	if namespace == "" {
		return objects
	}
	from, _ := slices.BinarySearchFunc(objects, namespace+"/", func(o *Object, key string) int { return strings.Compare(o.Key(), key) })
	n := 0
	for from+n < len(objects) && strings.HasPrefix(objects[from+n].Key(), namespace+"/") {
		n++
	}
	return objects[from : from+n]
}

// Tx is one transaction: no other goroutine reads or writes meanwhile. There is no rollback: what was put stays.
type Tx struct{ s *Store }

// Write runs fn in a transaction. It must be quick and do no I/O.
func (s *Store) Write(fn func(tx Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fn(Tx{s})
}

// Get returns an object, nil if there is none.
func (tx Tx) Get(r schema.GroupResource, key string) *Object { return tx.s.get(r, key) }

// Version of the last write.
func (tx Tx) Version() uint64 { return tx.s.version }

// Put stores the object in place of the one with the same key, if any, and returns it with its version.
func (tx Tx) Put(r schema.GroupResource, o *Object) *Object {
	t := tx.s.table(r)
	tx.s.version++
	stored := *o
	stored.version = tx.s.version
	event := Event{Version: stored.version, Object: &stored}
	if i, ok := t.find(stored.Key()); ok {
		event.Before, t.objects[i] = t.objects[i], &stored
	} else {
		t.objects = slices.Insert(t.objects, i, &stored)
	}
	tx.s.emit(t, event)
	return &stored
}

// Delete removes an object and returns the version of that.
func (tx Tx) Delete(r schema.GroupResource, key string) uint64 {
	t := tx.s.table(r)
	i, ok := t.find(key)
	if !ok {
		return tx.s.version
	}
	tx.s.version++
	event := Event{Version: tx.s.version, Before: t.objects[i]}
	t.objects = slices.Delete(t.objects, i, i+1)
	tx.s.emit(t, event)
	return event.Version
}

// Serve begins a resource, unless it was begun and not dropped since: nothing is known of it up to now. Watches that
// began before that, when there was no such resource, end.
func (s *Store) Serve(r schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[r]; t == nil || !t.served {
		Tx{s}.Drop(r)
		s.tables[r] = &table{floor: s.version, served: true}
	}
}

// Drop forgets a resource with all its objects; watches of it end.
func (tx Tx) Drop(r schema.GroupResource) {
	if t := tx.s.tables[r]; t != nil {
		t.dropped = true
		t.wake()
		for _, e := range t.events {
			tx.s.held -= e.size()
		}
		delete(tx.s.tables, r)
	}
}

// The events of all resources of a store may hold maxHeld bytes, so that a thousand servers that are written to stay small. The last
// few are kept whatever their size: a watch has to have a chance.
const (
	maxHeld = 640 << 10
	kept    = 16
)

func (s *Store) emit(t *table, e Event) {
	t.events = append(t.events, e)
	s.held += e.size()
	if len(t.events) > s.window {
		s.forgetOldest(t)
	}
	for s.held > maxHeld {
		oldest := s.oldest()
		if oldest == nil {
			break
		}
		s.forgetOldest(oldest)
	}
	t.wake()
}

// oldest returns the table with the oldest event, nil if there are too few to forget one.
func (s *Store) oldest() *table {
	var oldest *table
	n := 0
	for _, t := range s.tables {
		n += len(t.events)
		if len(t.events) > 0 && (oldest == nil || t.events[0].Version < oldest.events[0].Version) {
			oldest = t
		}
	}
	if n <= kept {
		return nil
	}
	return oldest
}

func (s *Store) forgetOldest(t *table) {
	s.held -= t.events[0].size()
	t.floor = t.events[0].Version
	t.events[0] = Event{}
	t.events = t.events[1:]
}

// size is about how many bytes the event holds that would be free without it: of an object that was replaced that is what differs, of
// one that is gone everything.
func (e Event) size() int {
	const event, object = 64, 224
	if e.Before == nil {
		return event
	}
	return event + object + e.Before.distinct(e.Object)
}

// wake notifies those that wait for an event of the table.
func (t *table) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Expire forgets all events: versions up to now are expired, and running watches end with ErrExpired.
func (s *Store) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired++
	s.forget()
}

func (s *Store) forget() {
	s.base, s.held = s.version, 0
	for _, t := range s.tables {
		t.floor = s.version
		t.events = nil
		t.wake()
	}
}

// EndWatches ends all running watches with ErrEnded.
func (s *Store) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
	for _, t := range s.tables {
		t.wake()
	}
}

// Close ends all watches, those to come too.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.EndWatches()
}

// Watch is a place in the events of one resource. It costs a few bytes: the events are those of the store, and who
// waits for the next one is notified by a channel that all share. It needs no end.
type Watch struct {
	s              *Store
	t              *table
	at             uint64 // all events up to this version were returned
	expired, ended int
}

// Watch begins a watch after this version; 0: now. ErrExpired: that is too long ago.
func (s *Store) Watch(r schema.GroupResource, after uint64) (*Watch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch(r, after)
}

func (s *Store) watch(r schema.GroupResource, after uint64) (*Watch, error) {
	t := s.table(r)
	if after == 0 {
		after = s.version
	}
	if after < t.floor {
		return nil, ErrExpired
	}
	return &Watch{s: s, t: t, at: after, expired: s.expired, ended: s.ended}, nil
}

// ListAndWatch lists what there is now and begins a watch right after it.
func (s *Store) ListAndWatch(r schema.GroupResource, namespace string) ([]*Object, *Watch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, err := s.watch(r, s.version)
	if err != nil {
		return nil, nil, err
	}
	return within(slices.Clone(w.t.objects), namespace), w, nil
}

// batch is how many events Next returns at most, so that a watch that catches up takes no large memory.
const batch = 64

// Next appends the next events to buf, and returns up to which version the watch is now complete. If there are none, changed is
// closed when it is worth asking again. ErrEnded, ErrExpired and ErrSlow say why there will be no more.
func (w *Watch) Next(buf []Event) (events []Event, version uint64, changed <-chan struct{}, err error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	switch {
	case w.expired != w.s.expired:
		return buf, w.at, nil, ErrExpired
	case w.s.closed || w.ended != w.s.ended:
		return buf, w.at, nil, ErrEnded
	case w.at < w.t.floor:
		return buf, w.at, nil, ErrSlow
	}
	from, _ := slices.BinarySearchFunc(w.t.events, w.at+1, func(e Event, version uint64) int {
		if e.Version < version {
			return -1
		}
		return 1
	})
	if rest := w.t.events[from:]; len(rest) > 0 {
		rest = rest[:min(len(rest), batch)]
		w.at = rest[len(rest)-1].Version
		return append(buf, rest...), w.at, nil, nil
	}
	if w.t.dropped {
		return buf, w.at, nil, ErrEnded
	}
	w.at = max(w.at, w.s.version)
	if w.t.changed == nil {
		w.t.changed = make(chan struct{})
	}
	return buf, w.at, w.t.changed, nil
}

// Version up to which the watch is complete.
func (w *Watch) Version() uint64 { return w.at }
