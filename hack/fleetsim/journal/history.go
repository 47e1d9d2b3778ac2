package journal

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// SentAtAnnotation on an object says when a client changed the object at its source, as time.RFC3339Nano. The server
// hands it on as Change.SentAt.
const SentAtAnnotation = "fleetsim.hub.gardener.cloud/sent-at"

// Verbs that checks look at.
const (
	VerbApply  = "apply"
	VerbDelete = "delete"
)

// Change is one write that a server accepted, whether or not it changed anything.
type Change struct {
	// Time is the real time, with its monotonic reading, never the clock of a server that is skewed.
	Time time.Time `json:"time"`
	// Verb is one of create, update, patch, apply and delete.
	Verb string `json:"verb"`
	// Resource is as in Request, with the subresource.
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// ResourceVersion after the write.
	ResourceVersion uint64 `json:"resourceVersion"`
	// Manager is the field manager of the write.
	Manager   string `json:"manager,omitempty"`
	UserAgent string `json:"userAgent,omitempty"`
	User      string `json:"user,omitempty"`
	// Connection that the write came on, by its remote address. Empty: it came on none, for it is the server's own.
	Connection string `json:"connection,omitempty"`
	// Changed is false for a write that left the object as it was.
	Changed bool `json:"changed"`
	// Before and After are digests of the payload, labels, annotations and finalizers, without managedFields, status,
	// resourceVersion and generation. 0: there is no object.
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	// SentAt is the value of SentAtAnnotation on the written object. Zero: it has none.
	SentAt time.Time `json:"sentAt,omitzero"`
}

// Object names what was written: resource without subresource, namespace and name.
func (c Change) Object() string {
	resource, _, _ := strings.Cut(c.Resource, "/")
	if c.Namespace == "" {
		return resource + " " + c.Name
	}
	return resource + " " + c.Namespace + "/" + c.Name
}

// Writer names who wrote: the field manager, the user agent's first word and the user.
func (c Change) Writer() string {
	agent, _, _ := strings.Cut(c.UserAgent, " ")
	return fmt.Sprintf("%s (%s, %s)", c.Manager, agent, c.User)
}

// subresource reports whether the write was to one, such as status.
func (c Change) subresource() bool { return strings.Contains(c.Resource, "/") }

// deletes reports whether the write was a delete that had an effect: the object is gone, or on its way.
func (c Change) deletes() bool { return c.Verb == VerbDelete && c.Changed }

// entry is a Change in less than half of the room.
type entry struct {
	time, sentAt    int64 // in nanoseconds; time since the epoch of the process, sentAt since 1970 or 0
	object          unique.Handle[objectID]
	writer          unique.Handle[writerID]
	uid             types.UID
	resourceVersion uint64
	before, after   uint64
	changed         bool
}

type objectID struct{ resource, namespace, name string }

// writerID has the verb, for there are few of them together.
type writerID struct{ verb, manager, userAgent, user, connection string }

// epoch keeps the monotonic reading for times that are stored as one number.
var epoch = time.Now()

// writes of a target: their history and what is measured of them.
type writes struct {
	mu    sync.Mutex
	ring  []entry // grows up to the limit, and is then written around
	total int     // writes ever
	reach reach
}

// Wrote records one change. Calls for one target come in the order of resource versions, under the server's lock.
func (t *Target) Wrote(c Change) {
	e := entry{
		time:   int64(c.Time.Sub(epoch)),
		object: unique.Make(objectID{c.Resource, c.Namespace, c.Name}),
		writer: unique.Make(writerID{c.Verb, c.Manager, c.UserAgent, c.User, c.Connection}),
		uid:    c.UID, resourceVersion: c.ResourceVersion, before: c.Before, after: c.After, changed: c.Changed,
	}
	if !c.SentAt.IsZero() {
		e.sentAt = c.SentAt.UnixNano()
	}
	w := &t.writes
	w.mu.Lock()
	defer w.mu.Unlock()
	if limit := t.options.History; limit > 0 {
		if len(w.ring) < limit {
			w.ring = append(w.ring, e)
		} else {
			w.ring[w.total%limit] = e
		}
	}
	w.total++
	w.reach.observe(t, c, e)
}

// History is what was written to a target, oldest first.
type History struct {
	Target  string
	Changes []Change
	// Lost is how many writes there were before these that are not remembered.
	Lost int
	from time.Time
}

// History of the target.
func (t *Target) History() History {
	w := &t.writes
	w.mu.Lock()
	ring, total := append([]entry(nil), w.ring...), w.total
	w.mu.Unlock()

	h := History{Target: t.name, Changes: make([]Change, 0, len(ring)), Lost: total - len(ring)}
	for i := range ring {
		at := i
		if h.Lost > 0 {
			at = (total + i) % len(ring)
		}
		h.Changes = append(h.Changes, ring[at].change())
	}
	return h
}

// Changes are the remembered writes from a time on, oldest first. It is cheaper than History, and does not
// say what is lost.
func (t *Target) Changes(from time.Time) []Change {
	w := &t.writes
	first := int64(from.Sub(epoch))
	var entries []entry
	w.mu.Lock()
	for i := range w.ring {
		// From the newest on, which is before the place that is written next.
		e := w.ring[(w.total-1-i)%len(w.ring)]
		if e.time < first {
			break // they are in the order of versions, and of time
		}
		entries = append(entries, e)
	}
	w.mu.Unlock()
	changes := make([]Change, 0, len(entries))
	for _, e := range slices.Backward(entries) {
		changes = append(changes, e.change())
	}
	return changes
}

func (e entry) change() Change {
	object, writer := e.object.Value(), e.writer.Value()
	c := Change{
		Time: epoch.Add(time.Duration(e.time)), Verb: writer.verb, Resource: object.resource, Namespace: object.namespace, Name: object.name,
		UID: e.uid, ResourceVersion: e.resourceVersion, Manager: writer.manager, UserAgent: writer.userAgent, User: writer.user, Connection: writer.connection,
		Changed: e.changed, Before: e.before, After: e.after,
	}
	if e.sentAt != 0 {
		c.SentAt = time.Unix(0, e.sentAt)
	}
	return c
}

// Histories of all targets, sorted by their names.
func (j *Journal) Histories() []History {
	targets := j.Targets()
	out := make([]History, 0, len(targets))
	for _, target := range targets {
		out = append(out, target.History())
	}
	return out
}

// Since makes checks judge only writes from then on. They still see what was written before.
func (h History) Since(from time.Time) History {
	h.from = from
	return h
}

// Since is History.Since for all of them.
func Since(from time.Time, histories ...History) []History {
	out := make([]History, 0, len(histories))
	for _, h := range histories {
		out = append(out, h.Since(from))
	}
	return out
}
