package journal

import (
	"time"
	"unique"
)

// Corrections are what became of edits.
type Corrections struct {
	// Millis are the times from edits to the writes that undid them.
	Millis []float64
	// Edited is when each of them was made.
	Edited []time.Time
	// Pending are the objects that are still edited, by target.
	Pending map[string][]string
	// Lasting are the times from the edits of those until now.
	Lasting []float64
	// Reached are the times from a change at the source, as SentAtAnnotation has it, to the write to the target.
	Reached []float64
}

// CorrectionsIn reads the histories of targets: what became of edits by an editor, and of changes that were sent,
// from a time on until another one. Only the end of a correction may be later.
func CorrectionsIn(targets []*Target, from, to time.Time, editor, owner Writers) Corrections {
	out := Corrections{Pending: map[string][]string{}}
	for _, target := range targets {
		for object, e := range out.read(target.Changes(from), from, to, editor, owner) {
			out.Pending[target.name] = append(out.Pending[target.name], object)
			out.Lasting = append(out.Lasting, float64(time.Since(e.at).Microseconds())/1000)
		}
	}
	return out
}

type edited struct {
	at     time.Time
	before uint64
	gone   bool
	sent   time.Time // when what was edited had been sent
}

func (c *Corrections) read(changes []Change, from, to time.Time, editor, owner Writers) map[string]edited {
	pending := map[string]edited{}
	for _, change := range changes {
		object := change.Object()
		switch {
		case change.Before == change.After:
		case editor(change):
			e, ok := pending[object]
			if !ok && (change.Time.Before(from) || change.Time.After(to)) {
				continue
			}
			if !ok {
				e = edited{at: change.Time, before: change.Before, sent: change.SentAt}
			}
			e.gone = e.gone || change.After == 0
			pending[object] = e
		case owner(change):
			e, ok := pending[object]
			newer := change.SentAt.After(e.sent) // what was changed at the source meanwhile comes in the place of a correction
			if ok && (change.After == e.before || e.gone && change.Before == 0 || newer) {
				c.Millis = append(c.Millis, float64(change.Time.Sub(e.at).Microseconds())/1000)
				c.Edited = append(c.Edited, e.at)
				delete(pending, object)
			}
			if sent := change.SentAt; sent.After(from) && sent.Before(to) && !ok {
				c.Reached = append(c.Reached, float64(change.Time.Sub(sent).Microseconds())/1000)
			}
		}
	}
	return pending
}

// reach is the latest change at the source that was seen in a target, and when it was seen first and last.
type reach struct {
	sent        int64
	first, last time.Time
	objects     map[unique.Handle[objectID]]bool // that have the change
}

// observe sees every write, under the lock of the writes.
func (r *reach) observe(t *Target, c Change, e entry) {
	if e.sentAt == 0 || e.sentAt < r.sent || c.Before == c.After || c.After == 0 || !t.options.Owner(c) {
		return
	}
	if e.sentAt > r.sent {
		*r = reach{sent: e.sentAt, first: c.Time, objects: map[unique.Handle[objectID]]bool{}}
	}
	// A correction carries the annotation as well, but brings nothing new.
	if !r.objects[e.object] {
		r.objects[e.object], r.last = true, c.Time
	}
}

// Reach is how far a change has come.
type Reach struct {
	// Targets is how many have it, and Missing names those that do not.
	Targets int      `json:"targets"`
	Missing []string `json:"missing,omitempty"`
	// First and Last are the times from the change to the first and to the last target that has it, and LastTarget names
	// it. A target with several objects of the change counts by its last one.
	First      time.Duration `json:"first"`
	Last       time.Duration `json:"last"`
	LastTarget string        `json:"lastTarget"`
}

// Reached returns how far the change came that was sent at this time, which is the one in the annotation. Only the
// latest change that a target saw is known.
func (j *Journal) Reached(sent time.Time) Reach {
	var out Reach
	for _, target := range j.Targets() {
		w := &target.writes
		w.mu.Lock()
		has, first, last := w.reach.sent == sent.UnixNano(), w.reach.first, w.reach.last
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
