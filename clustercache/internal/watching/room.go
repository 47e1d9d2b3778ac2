package watching

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// ErrTooMany is reported when there is no room for what a watch brings. What it kept before is not relied upon.
var ErrTooMany = errors.New("the target has more objects than may be kept of it")

// shownRefused is how many names of watches Refused shows.
const shownRefused = 5

// Room bounds how many objects the watches of a target keep together, those of lists under way included. A list that is taken
// anew counts once with the one that it replaces, so at the worst moment there may be twice as many. A nil Room has no bound.
//
// Who asks for the object that does not fit is not who fills the room. So the watch that is refused is the one that asks only
// if no other one is more than twice as large. Else that other one is ousted: what it kept is forgotten, and it begins anew
// later. That the other one must be so much larger keeps two that do not fit together from ousting each other in turn; and a
// watch counts as large as it was when it was refused until it fits, so that its next try ousts nobody.
type Room struct {
	most    int
	changed func()

	mu       sync.Mutex
	taken    int
	held     map[*Declared]int // what each watch has taken
	refused  map[*Declared]*refusal
	attempts map[*Binding]context.CancelCauseFunc // that are under way
}

// refusal is what is known of a watch that there was no room for.
type refusal struct {
	size      int           // the most objects that it came to
	announced bool          // changed was called
	told      bool          // its handler knows
	ousted    bool          // it may take nothing until its handler knows
	freed     chan struct{} // receives when there may be room for it again
}

// NewRoom returns room for so many objects. changed is called without a lock of the room when Refused has changed.
func NewRoom(most int, changed func()) *Room {
	return &Room{
		most: most, changed: changed,
		held: map[*Declared]int{}, refused: map[*Declared]*refusal{}, attempts: map[*Binding]context.CancelCauseFunc{},
	}
}

// Refused says which watches bring more than there is room for; empty if none does.
func (r *Room) Refused() string {
	r.mu.Lock()
	var names []string
	for w := range maps.Keys(r.refused) {
		names = append(names, w.spec.Name)
	}
	r.mu.Unlock()
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	more := ""
	if left := len(names) - shownRefused; left > 0 {
		names, more = names[:shownRefused], fmt.Sprintf(" and %d more", left)
	}
	return fmt.Sprintf("there are more than %d objects; not all are known of: %s%s", r.most, strings.Join(names, ", "), more)
}

// reserve tells whether a watch may keep n objects, in whatever list. It may oust another watch, so it is called without the
// lock of any.
func (r *Room) reserve(w *Declared, n int) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	fits, ousted, aborts := r.claim(w, n)
	r.mu.Unlock()
	for _, abort := range aborts {
		abort(ErrTooMany)
	}
	for _, other := range ousted {
		other.forget()
	}
	return fits
}

func (r *Room) claim(w *Declared, n int) (fits bool, ousted []*Declared, aborts []context.CancelCauseFunc) {
	if w.ctx.Err() != nil || r.isOusted(w) {
		return false, nil, nil
	}
	more := n - r.held[w]
	if more <= 0 {
		return true, nil, nil
	}
	for r.taken+more > r.most {
		other := r.largestBut(w)
		if other == nil || r.size(other) <= 2*max(n, r.size(w)) {
			r.refuse(w, n)
			return false, ousted, aborts
		}
		ousted, aborts = append(ousted, other), append(aborts, r.oust(other)...)
	}
	r.taken += more
	r.held[w] = n
	return true, ousted, aborts
}

// oust takes all room from a watch, and returns what aborts its attempts.
func (r *Room) oust(w *Declared) (aborts []context.CancelCauseFunc) {
	for b, abort := range r.attempts {
		if b.watch == w {
			aborts = append(aborts, abort)
		}
	}
	refused := r.refuse(w, r.held[w])
	refused.ousted = !refused.told || len(aborts) > 0
	r.taken -= r.held[w]
	delete(r.held, w)
	return aborts
}

// size is that of a watch, or what it was when there was no room for it.
func (r *Room) size(w *Declared) int {
	if refused := r.refused[w]; refused != nil {
		return max(refused.size, r.held[w])
	}
	return r.held[w]
}

// largestBut returns the largest of the other watches that have taken room; nil if none has.
func (r *Room) largestBut(w *Declared) (largest *Declared) {
	for other := range r.held {
		if other != w && (largest == nil || r.size(other) > r.size(largest)) {
			largest = other
		}
	}
	return largest
}

func (r *Room) refuse(w *Declared, size int) *refusal {
	refused := r.refused[w]
	if refused == nil {
		refused = &refusal{freed: make(chan struct{}, 1)}
		r.refused[w] = refused
	}
	refused.size = max(refused.size, size)
	select {
	case <-refused.freed: // it was tried since
	default:
	}
	return refused
}

func (r *Room) isOusted(w *Declared) bool { return r.refused[w] != nil && r.refused[w].ousted }

// ousted tells whether a watch was ousted, and its handler does not know yet.
func (r *Room) ousted(w *Declared) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isOusted(w)
}

// enter begins an attempt, which is aborted when its watch is ousted. It returns false if it was meanwhile.
func (r *Room) enter(b *Binding, abort context.CancelCauseFunc) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isOusted(b.watch) {
		return false
	}
	r.attempts[b] = abort
	return true
}

// leave ends an attempt.
func (r *Room) leave(b *Binding) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attempts, b)
}

// told notes that the handler of a watch knows that there is no room for it.
func (r *Room) told(w *Declared) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused := r.refused[w]; refused != nil {
		refused.told, refused.ousted = true, false
	}
}

// announce tells that a watch was refused. What it returns receives when there may be room for it again.
func (r *Room) announce(w *Declared) (freed <-chan struct{}) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	refused := r.refused[w]
	news := refused != nil && !refused.announced
	if refused != nil {
		refused.announced, freed = true, refused.freed
	}
	r.mu.Unlock()
	if news {
		r.changed()
	}
	return freed
}

// keep gives back what a watch that keeps n objects does not need.
func (r *Room) keep(w *Declared, n int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held[w]
	if n >= held {
		return
	}
	r.taken -= held - n
	r.held[w] = n
	if n == 0 {
		delete(r.held, w)
	}
}

// fits notes that there is room for all that a watch brings, or that the watch has ended, and that others may fit now, too. One
// that was ousted meanwhile does not fit.
func (r *Room) fits(w *Declared) {
	if r == nil {
		return
	}
	r.mu.Lock()
	before := r.refused[w] != nil && (!r.isOusted(w) || w.ctx.Err() != nil)
	if before {
		delete(r.refused, w)
	}
	r.mu.Unlock()
	if before {
		r.changed()
	}
	r.wake()
}

// wake has those tried again that there may be room for: half as much again as they are known to need, so that one that fails
// each time is not woken often. What those give back that do not fit themselves wakes nobody.
func (r *Room) wake() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for w, refused := range r.refused {
		if refused.size <= r.most && r.most-r.taken+r.held[w] >= min(refused.size+refused.size/2, r.most) {
			select {
			case refused.freed <- struct{}{}:
			default:
			}
		}
	}
}
