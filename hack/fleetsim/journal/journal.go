package journal

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Options of a Journal. The zero value is usable.
type Options struct {
	// Counts is how many distinct counts a target keeps; all further ones are counted as Other. Zero means 512.
	Counts int
	// History is how many writes a target remembers. Zero means 2,048, about 200 KiB once it is full. Negative means none.
	History int
	// Objects is how many objects of a target are watched for drift and propagation. Zero means 8,192. Negative means none.
	Objects int
	// Owner tells which writes are by the owner of the content, whose corrections are measured; so are deletes with the same
	// user agent, which have no field manager. Nil means any apply.
	Owner Writers
	// Owned tells of an object that the owner has not written here whether it is the owner's all the same, because the server
	// was started with it. It is asked at foreign writes, under the server's lock. Nil means that it is not.
	Owned func(target string, c Change) bool
}

func (o *Options) setDefaults() {
	for _, bound := range []struct {
		value *int
		usual int
	}{{&o.Counts, 512}, {&o.History, 2048}, {&o.Objects, 8192}} {
		if *bound.value == 0 {
			*bound.value = bound.usual
		}
	}
	if o.Owner == nil {
		o.Owner = func(c Change) bool { return c.Verb == VerbApply }
	}
}

// Journal of a fleet of API servers. Create it with New. Its methods may be called by many at a time.
type Journal struct {
	options Options
	mu      sync.RWMutex
	targets map[string]*Target
}

// New returns an empty journal.
func New(o Options) *Journal {
	o.setDefaults()
	return &Journal{options: o, targets: map[string]*Target{}}
}

// Owned tells whether an object is the owner's although he has not written it here, as Options.Owned says.
func (j *Journal) Owned(target string, c Change) bool {
	return j.options.Owned != nil && j.options.Owned(target, c)
}

// Target returns the journal of the target with this name, and begins it the first time.
func (j *Journal) Target(name string) *Target {
	j.mu.Lock()
	defer j.mu.Unlock()
	target, ok := j.targets[name]
	if !ok {
		target = &Target{name: name, options: &j.options}
		j.targets[name] = target
	}
	return target
}

// Remove forgets a target. Whoever still writes to it writes to nobody.
func (j *Journal) Remove(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.targets, name)
}

// Targets returns the journals of all targets, sorted by name.
func (j *Journal) Targets() []*Target {
	j.mu.RLock()
	defer j.mu.RUnlock()
	targets := make([]*Target, 0, len(j.targets))
	for _, target := range j.targets {
		targets = append(targets, target)
	}
	slices.SortFunc(targets, func(a, b *Target) int { return strings.Compare(a.name, b.name) })
	return targets
}

// Reset begins a new phase: counts and latencies start from nothing, and drift that is not corrected yet is forgotten. The
// history stays, for a check needs to know who wrote what before; History.Since narrows it down.
func (j *Journal) Reset() {
	for _, target := range j.Targets() {
		target.Reset()
	}
}

// LastWrite tells which target was the last one to be written to, and when. The time is zero if none was.
func (j *Journal) LastWrite() (target string, at time.Time) {
	for _, t := range j.Targets() {
		if last := t.LastWrite(); last.After(at) {
			target, at = t.name, last
		}
	}
	return target, at
}

// Target is the journal of one API server. Its methods may be called by many at a time.
type Target struct {
	name    string
	options *Options
	counts  counts
	writes  writes
}

// Name of the target.
func (t *Target) Name() string { return t.name }

// Reset is Journal.Reset for one target.
func (t *Target) Reset() {
	t.counts.reset()
	t.writes.reset()
}
