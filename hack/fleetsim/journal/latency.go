package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"
)

// latencies of one target.
type latencies struct {
	objects     map[unique.Handle[objectID]]*content
	unwatched   int // writes to objects that there was no room for
	drift       *histogram
	superseded  int
	propagation *histogram
	pending     map[unique.Handle[objectID]]pending

	// userAgent is the owner's. It tells his deletes, which have no field manager.
	userAgent string

	// The latest change at the source that was seen here, and when it was seen first and last.
	sent            int64
	arrived, latest time.Time
}

// content is what the owner wants of an object.
type content struct {
	digest uint64
	sent   int64 // of the latest change that has been measured
}

// pending is a drift that is not corrected yet.
type pending struct {
	since  time.Time
	writer unique.Handle[writerID]
	gone   bool
}

func (l *latencies) reset() {
	l.drift, l.propagation, l.pending = nil, nil, nil
	l.superseded, l.sent, l.arrived, l.latest = 0, 0, time.Time{}, time.Time{}
}

// observe sees every write, under the lock of the writes.
func (l *latencies) observe(t *Target, c Change, e entry) {
	if c.Before == c.After || t.options.Objects < 0 {
		return
	}
	object := e.object
	if c.subresource() {
		resource, _, _ := strings.Cut(c.Resource, "/")
		object = unique.Make(objectID{resource, c.Namespace, c.Name})
	}
	own := t.options.Owner(c)
	if own {
		l.userAgent = e.writer.Value().userAgent
	}
	if own || c.Verb == VerbDelete && c.UserAgent == l.userAgent {
		l.ownWrite(t, c, object, e.sentAt)
	} else {
		l.foreignWrite(t, c, object, e.writer)
	}
}

func (l *latencies) ownWrite(t *Target, c Change, object unique.Handle[objectID], sent int64) {
	drift, drifted := l.pending[object]
	delete(l.pending, object)
	if c.After == 0 {
		delete(l.objects, object) // the owner gives it up
		return
	}
	wanted := l.objects[object]
	if wanted == nil {
		if wanted = l.watch(t, object); wanted == nil {
			return
		}
		wanted.digest = c.Before // as it was loaded, if it was
	}
	switch {
	case !drifted:
	case c.After == wanted.digest, drift.gone && c.Before == 0:
		// An object that is created anew may differ in what the server assigns, such as an address.
		record(&l.drift, c.Time.Sub(drift.since))
	default:
		l.superseded++
	}
	wanted.digest = c.After
	if sent != 0 && sent != wanted.sent {
		// A correction carries the annotation as well, but nothing that is new.
		wanted.sent = sent
		record(&l.propagation, c.Time.Sub(time.Unix(0, sent)))
		if sent > l.sent {
			l.sent, l.arrived = sent, c.Time
		}
		if sent == l.sent {
			l.latest = c.Time
		}
	}
}

func (l *latencies) foreignWrite(t *Target, c Change, object unique.Handle[objectID], writer unique.Handle[writerID]) {
	wanted := l.objects[object]
	if wanted == nil {
		if c.Before == 0 || t.options.Owned == nil || !t.options.Owned(t.name, c) {
			return
		}
		if wanted = l.watch(t, object); wanted == nil {
			return
		}
		wanted.digest = c.Before
	}
	if c.After == wanted.digest {
		delete(l.pending, object) // mended by whoever that is
		return
	}
	drift, ok := l.pending[object]
	if !ok {
		drift = pending{since: c.Time, writer: writer}
	}
	drift.gone = drift.gone || c.After == 0
	if l.pending == nil {
		l.pending = map[unique.Handle[objectID]]pending{}
	}
	l.pending[object] = drift
}

func (l *latencies) watch(t *Target, object unique.Handle[objectID]) *content {
	if len(l.objects) >= t.options.Objects {
		l.unwatched++
		return nil
	}
	if l.objects == nil {
		l.objects = map[unique.Handle[objectID]]*content{}
	}
	l.objects[object] = &content{}
	return l.objects[object]
}

func record(h **histogram, d time.Duration) {
	if *h == nil {
		*h = &histogram{}
	}
	(*h).add(d)
}

// Latencies since the last Reset.
type Latencies struct {
	// Drift is the time from a foreign write to an object of the owner to the owner's write that made it what it was.
	Drift Quantiles `json:"drift"`
	// Superseded is how many drifts the owner ended by writing something else. They are not in Drift.
	Superseded int `json:"superseded"`
	// Pending are the drifts that are not corrected, the oldest first, 1,000 at most.
	Pending []Drift `json:"pending,omitempty"`
	// PendingTotal is how many there are.
	PendingTotal int `json:"pendingTotal"`
	// Propagation is the time from Change.SentAt to the owner's write. A change counts once for each object and target.
	Propagation Quantiles `json:"propagation"`
	// Unwatched is how many writes were not looked at, for they were to objects beyond Options.Objects. If it is not zero, the
	// other figures are not the whole story.
	Unwatched int `json:"unwatched"`
}

// Drift is content that a foreigner wrote and the owner has not corrected.
type Drift struct {
	Target string    `json:"target"`
	Object string    `json:"object"`
	Since  time.Time `json:"since"`
	Writer string    `json:"writer"`
	Gone   bool      `json:"gone"` // it was deleted
}

// String says what is pending in one line.
func (d Drift) String() string {
	what := "changed"
	if d.Gone {
		what = "deleted"
	}
	return fmt.Sprintf("%s: %s, %s by %s at %s", d.Target, d.Object, what, d.Writer, clock(d.Since))
}

const pendingShown = 1000

// Latencies of the target since the last Reset.
func (t *Target) Latencies() Latencies { return latenciesOf(t) }

// Latencies of all targets together since the last Reset.
func (j *Journal) Latencies() Latencies { return latenciesOf(j.Targets()...) }

func latenciesOf(targets ...*Target) Latencies {
	var out Latencies
	var drift, propagation histogram
	for _, target := range targets {
		w := &target.writes
		w.mu.Lock()
		l := &w.latency
		drift.merge(l.drift)
		propagation.merge(l.propagation)
		out.Superseded += l.superseded
		out.Unwatched += l.unwatched
		out.PendingTotal += len(l.pending)
		for object, p := range l.pending {
			id, by := object.Value(), p.writer.Value()
			out.Pending = append(out.Pending, Drift{
				Target: target.name, Object: Change{Resource: id.resource, Namespace: id.namespace, Name: id.name}.Object(), Since: p.since,
				Writer: Change{Manager: by.manager, UserAgent: by.userAgent, User: by.user}.Writer(), Gone: p.gone,
			})
		}
		w.mu.Unlock()
	}
	slices.SortFunc(out.Pending, func(a, b Drift) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Target, b.Target), strings.Compare(a.Object, b.Object))
	})
	out.Pending = out.Pending[:min(len(out.Pending), pendingShown)]
	out.Drift, out.Propagation = drift.quantiles(), propagation.quantiles()
	return out
}

// Reach is how far a change has come.
type Reach struct {
	// Targets is how many have it, and Missing names those that do not.
	Targets int      `json:"targets"`
	Missing []string `json:"missing,omitempty"`
	// First and Last are the times from the change to the first and to the last target that has it, and LastTarget names it.
	// A target with several objects of the change counts by its last one.
	First      time.Duration `json:"first"`
	Last       time.Duration `json:"last"`
	LastTarget string        `json:"lastTarget"`
}

// Reached tells how far the change came that was sent at this time, which is the one in the annotation. Only the latest change
// that a target saw is known.
func (j *Journal) Reached(sent time.Time) Reach {
	var out Reach
	for _, target := range j.Targets() {
		w := &target.writes
		w.mu.Lock()
		has, first, last := w.latency.sent == sent.UnixNano(), w.latency.arrived, w.latency.latest
		w.mu.Unlock()
		if !has {
			out.Missing = append(out.Missing, target.name)
			continue
		}
		if out.Targets == 0 || first.Sub(sent) < out.First {
			out.First = first.Sub(sent)
		}
		if out.Targets == 0 || last.Sub(sent) > out.Last {
			out.Last, out.LastTarget = last.Sub(sent), target.name
		}
		out.Targets++
	}
	return out
}
