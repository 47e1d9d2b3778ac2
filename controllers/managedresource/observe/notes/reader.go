package notes

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/warnings"
	"github.com/trellis-hub/trellis/metrics"
)

const (
	// Pause is the least time between two reads for an object.
	Pause = time.Minute
	// Deadline bounds a read.
	Deadline = 5 * time.Second

	readers  = 4   // at a time
	queueMax = 256 // reads that wait; a caller that finds the queue full asks again
)

// Options of a Reader. All fields are required.
type Options struct {
	// Client returns a client of a target.
	Client func(ctx context.Context, cluster clustercache.ClusterKey) (client.Client, error)
	// Notify is called for each ManagedResource whose objects have other warnings than before.
	Notify func(mr types.NamespacedName)
	Clock  clock.PassiveClock
	Logger logr.Logger
}

// Reader reads the warnings of objects in the background. New makes one.
type Reader struct {
	Options
	queue chan task

	mu    sync.Mutex
	known map[types.NamespacedName]map[inventory.Key]*entry
}

type task struct {
	mr      types.NamespacedName
	cluster clustercache.ClusterKey
	key     inventory.Key
}

type entry struct {
	notes   []string
	read    bool      // at least once, with or without success
	reading bool      // waits in the queue, or is being read
	at      time.Time // of the last read's begin
}

// New returns a Reader that reads nothing before Run.
func New(o Options) *Reader {
	return &Reader{Options: o, queue: make(chan task, queueMax),
		known: map[types.NamespacedName]map[inventory.Key]*entry{}}
}

// Run reads what is asked for until ctx ends.
func (r *Reader) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for {
				select {
				case t := <-r.queue:
					r.read(ctx, t)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// Of returns notes on an object of a ManagedResource, as they were read last. pending is true if they were never read
// and are about to be: the ManagedResource is notified when they are.
func (r *Reader) Of(mr types.NamespacedName, cluster clustercache.ClusterKey, key inventory.Key) (
	notes []string, pending bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.known[mr][key]
	if e == nil {
		e = &entry{}
		if r.known[mr] == nil {
			r.known[mr] = map[inventory.Key]*entry{}
		}
		r.known[mr][key] = e
	}
	if now := r.Clock.Now(); !e.reading && (!e.read || now.Sub(e.at) >= Pause) {
		select {
		case r.queue <- task{mr, cluster, key}:
			e.reading, e.at = true, now
		default: // full
		}
	}
	return e.notes, e.reading && !e.read
}

// Keep forgets the objects of a ManagedResource that are not among some, unless they were read a moment ago: an object
// that flaps is not read more often than one that does not.
func (r *Reader) Keep(mr types.NamespacedName, keys ...inventory.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	for key, e := range r.known[mr] {
		if !slices.Contains(keys, key) && !e.reading && now.Sub(e.at) >= Pause {
			delete(r.known[mr], key)
		}
	}
	if len(r.known[mr]) == 0 {
		delete(r.known, mr)
	}
}

// Forget forgets a ManagedResource.
func (r *Reader) Forget(mr types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, mr)
}

// read reads the warnings of one object. What it cannot read stays as it was: it is for people.
func (r *Reader) read(ctx context.Context, t task) {
	bounded, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	var found []warnings.Warning
	c, err := r.Client(bounded, t.cluster)
	if err == nil {
		found, err = warnings.Last(bounded, c, t.key)
	}
	if err != nil && ctx.Err() == nil {
		r.Logger.V(1).Info("Cannot read warnings", "target", metrics.TargetName(t.cluster), "managedResource", t.mr.String(),
			"object", t.key.String(), "error", err.Error())
	}
	if r.note(t, warnings.Notes(found), err == nil) {
		r.Notify(t.mr)
	}
}

// note stores what was read, and reports whether it differs from what callers were given so far.
func (r *Reader) note(t task, notes []string, ok bool) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.known[t.mr][t.key]
	if e == nil {
		return false // forgotten meanwhile
	}
	changed = !e.read || ok && !slices.Equal(e.notes, notes)
	e.read, e.reading = true, false
	if ok {
		e.notes = notes
	}
	return changed
}
