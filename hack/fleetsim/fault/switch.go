package fault

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxFaults is how many faults one server may have at once.
const maxFaults = 64

// Options of a Switch.
type Options struct {
	// Seed decides who is struck by a fault with a share.
	Seed uint64
	// Answered, if set, is called for each request that never came to the server: a Status fault answered it, a Reset
	// ended it before its answer, or its client left while a Hang or Latency held it up.
	Answered func(Answer)
}

// Answer is what a fault answered instead of the server.
type Answer struct {
	Request *http.Request
	// Verb and Resource are as in Match; Resource is empty if the request was for none.
	Verb, Resource string
	// Code is the HTTP status. Zero: there was no answer.
	Code int
	// Sent is the size of the body.
	Sent int64
	Took time.Duration
}

// Switch holds the faults of one server and switches them. All methods may be called at any time.
type Switch struct {
	options  Options
	state    atomic.Pointer[state]
	requests atomic.Uint64 // seen so far
	accepted atomic.Uint64 // connections so far

	mu       sync.Mutex // serializes changes of the state
	sequence uint64     // faults set so far
	cleared  map[Kind]uint64
	listener *Listener
}

// state is what is wrong at a time. It never changes.
type state struct {
	faults []*active
	// changed is closed when another state takes its place.
	changed chan struct{}
}

// active is a fault that is set.
type active struct {
	Fault
	sequence uint64
	since    time.Time
	// accepted is how many connections there had been when it was set.
	accepted uint64
	struck   atomic.Uint64
}

// State is a fault and what it has done.
type State struct {
	Fault
	// Since is when it was set.
	Since time.Time `json:"since"`
	// Struck counts the requests, the connections or, for SilentWatch and SlowWatch, the writes of events that it
	// struck. Connections that the kernel keeps waiting or refuses are not counted: the switch does not see them.
	Struck uint64 `json:"struck"`
}

// New returns a switch without faults.
func New(o Options) *Switch {
	s := &Switch{options: o, cleared: map[Kind]uint64{}}
	s.state.Store(&state{changed: make(chan struct{})})
	return s
}

// Set adds a fault, or replaces the one with the same ID, and returns it with its ID.
func (s *Switch) Set(f Fault) (Fault, error) {
	if err := f.Validate(); err != nil {
		return f, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sequence++
	if f.ID == "" {
		f.ID = fmt.Sprintf("%s-%d", f.Kind, s.sequence)
	}
	faults := s.without(func(a *active) bool { return a.ID == f.ID })
	if len(faults) >= maxFaults {
		return f, fmt.Errorf("setting fault %s: there are already %d faults, which is the most that a server may have", f.ID, maxFaults)
	}
	faults = append(faults, &active{Fault: f, sequence: s.sequence, since: time.Now(), accepted: s.accepted.Load()})
	return f, s.change(faults)
}

// Clear ends the faults with these IDs or of these kinds, or all if none are given, and says how many there were.
func (s *Switch) Clear(idsOrKinds ...string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.state.Load().faults)
	faults := s.without(func(a *active) bool {
		return len(idsOrKinds) == 0 || slices.Contains(idsOrKinds, a.ID) || slices.Contains(idsOrKinds, string(a.Kind))
	})
	return before - len(faults), s.change(faults)
}

// without returns the faults but those that are to go, whose counts it keeps.
func (s *Switch) without(goes func(*active) bool) []*active {
	var stay []*active
	for _, a := range s.state.Load().faults {
		if goes(a) {
			s.cleared[a.Kind] += a.struck.Load()
		} else {
			stay = append(stay, a)
		}
	}
	return stay
}

func (s *Switch) change(faults []*active) error {
	before := s.state.Swap(&state{faults: faults, changed: make(chan struct{})})
	close(before.changed)
	if s.listener == nil {
		return nil
	}
	return s.listener.follow()
}

// List returns the faults in the order in which they were set.
func (s *Switch) List() []State {
	var list []State
	for _, a := range s.state.Load().faults {
		list = append(list, State{Fault: a.Fault, Since: a.since, Struck: a.struck.Load()})
	}
	return list
}

// Struck counts, for each kind, what all its faults have struck so far, those that were cleared included.
func (s *Switch) Struck() map[Kind]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	struck := maps.Clone(s.cleared)
	for _, a := range s.state.Load().faults {
		struck[a.Kind] += a.struck.Load()
	}
	return struck
}

// hits decides whether the fault strikes the request or connection of this number: always the same for the same number.
func (s *Switch) hits(a *active, number uint64) bool {
	if a.Share == 0 || a.Share == 1 {
		return true
	}
	return float64(mix(s.options.Seed^a.sequence<<40^number)>>11)/(1<<53) < a.Share
}

// delay draws the delay of the fault for the request or event of this number.
func (s *Switch) delay(a *active, number uint64) time.Duration {
	if a.Jitter.Duration == 0 {
		return a.Delay.Duration
	}
	return a.Delay.Duration + time.Duration(mix(s.options.Seed^a.sequence<<40^number<<1^1)%uint64(a.Jitter.Duration+1))
}

// mix is the finalizer of splitmix64: every bit of the result depends on every bit of x.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// pause waits for the time d, or without end if it is negative, unless the fault is cleared before that. It fails if ctx ends.
func (s *Switch) pause(ctx context.Context, a *active, d time.Duration) error {
	var over <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	for {
		state := s.state.Load()
		if !slices.Contains(state.faults, a) {
			return nil
		}
		select {
		case <-over:
			return nil
		case <-state.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
