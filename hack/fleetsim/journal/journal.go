package journal

import (
	"slices"
	"strings"
	"sync"
)

// Options of a Journal. The zero value is usable.
type Options struct {
	// Counts is how many distinct counts a target keeps; all further ones are counted as Other. Zero means 512.
	Counts int
	// History is how many writes a target remembers. Zero means 2,048, about 200 KiB once it is full. Negative means none.
	History int
	// Owner reports whether a write is by the owner of the content, whose changes Reached follows. Nil means any apply.
	Owner Writers
}

func (o *Options) setDefaults() {
	if o.Counts == 0 {
		o.Counts = 512
	}
	if o.History == 0 {
		o.History = 2048
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

// Remove forgets a target. What is still recorded for it is dropped.
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

// Reset begins a new phase: counts start from nothing. The history stays, for a check needs to know who wrote what
// before; History.Since narrows it down.
func (j *Journal) Reset() {
	for _, target := range j.Targets() {
		target.counts.reset()
	}
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
