package watching

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// ErrTooMany is reported when there is no quota for what a watch brings. What it kept before is not relied upon.
var ErrTooMany = errors.New("the target has more objects, or larger ones, than may be kept of it")

// shownRefused is how many names of watches Refused shows.
const shownRefused = 5

// Size is that of what is kept: how many objects there are, and about how much memory they take.
type Size struct {
	Objects int
	Bytes   int64
}

// minus is what one size has more than another.
func (s Size) minus(other Size) Size { return Size{s.Objects - other.Objects, s.Bytes - other.Bytes} }

func (s Size) plus(other Size) Size { return Size{s.Objects + other.Objects, s.Bytes + other.Bytes} }

// larger is the larger one of two sizes in either respect.
func (s Size) larger(other Size) Size {
	return Size{max(s.Objects, other.Objects), max(s.Bytes, other.Bytes)}
}

// Quota bounds what the watches of a target keep together, lists under way included. What a new list has in common with
// the one that it replaces counts once. A nil Quota has no bound.
//
// The watch whose next object does not fit is often not the one that uses most of the quota. So it is refused only
// if no other one is more than twice as large. Otherwise that other one is evicted: what it kept is forgotten, and
// it begins again later. That the other one must be so much larger keeps two that do not fit together from
// evicting each other in turn; and a watch counts as large as it was when it was refused until it fits, so that
// its next try evicts none.
type Quota struct {
	most    Size
	shared  *Pool // nil if there is none
	changed func()

	mu       sync.Mutex
	taken    Size
	used     map[*Stream]Size // what each watch has taken
	refused  map[*Stream]*refusal
	attempts map[*Binding]context.CancelCauseFunc // that are under way
}

// refusal is what is known of a watch that there was no quota for.
type refusal struct {
	size      Size          // its maximum so far
	why       string        // the bound that refused it
	announced bool          // changed was called
	reported  bool          // its handler knows
	evicted   bool          // it may take nothing until its handler knows
	freed     chan struct{} // receives when it may fit again
}

// NewQuota returns a quota of the given size, where zero bytes mean no bound on bytes. A part of it may be taken from a
// pool. changed is called without a lock of the quota when Refused has changed.
func NewQuota(most Size, shared *Pool, changed func()) *Quota {
	if most.Bytes == 0 {
		most.Bytes = math.MaxInt64 / 4
	}
	return &Quota{
		most: most, shared: shared, changed: changed,
		used: map[*Stream]Size{}, refused: map[*Stream]*refusal{}, attempts: map[*Binding]context.CancelCauseFunc{},
	}
}

// Refused says which watches have more objects than the quota allows, and which bound they exceed; empty if none does.
func (r *Quota) Refused() string {
	r.mu.Lock()
	var names []string
	why := ""
	for w, refused := range r.refused {
		names = append(names, w.spec.Name)
		why = max(why, refused.why)
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
	return fmt.Sprintf("%s; not all are known of: %s%s", why, strings.Join(names, ", "), more)
}

// lacks says which bound would be exceeded; empty if none is.
func (r *Quota) lacks(more Size) string {
	after := r.taken.plus(more)
	switch {
	case more.Objects > 0 && after.Objects > r.most.Objects:
		return fmt.Sprintf("there are more than %d objects", r.most.Objects)
	case more.Bytes > 0 && after.Bytes > r.most.Bytes:
		return fmt.Sprintf("the objects take more than %d MiB of memory", r.most.Bytes>>20)
	case more.Bytes > 0 && !r.shared.fits(r.taken.Bytes, after.Bytes):
		return fmt.Sprintf("the objects of the namespace's targets take more than %d MiB of memory", r.shared.most>>20)
	}
	return ""
}

// take changes what is taken by a difference.
func (r *Quota) take(w *Stream, more Size) bool {
	after := r.taken.plus(more)
	if !r.shared.move(r.taken.Bytes, after.Bytes) {
		return false // another target has just taken it
	}
	r.taken = after
	if used := r.used[w].plus(more); used == (Size{}) {
		delete(r.used, w)
	} else {
		r.used[w] = used
	}
	return true
}

// has reports whether the quota allows a watch that keeps so much, without another one being evicted.
func (r *Quota) has(w *Stream, n Size) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lacks(n.minus(r.used[w])) == ""
}

// reserve reports whether a watch may keep so much, in whatever list. It may evict another watch, so it is called
// without the lock of any.
func (r *Quota) reserve(w *Stream, n Size) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	fits, evicted, aborts := r.claim(w, n)
	r.mu.Unlock()
	for _, abort := range aborts {
		abort(ErrTooMany)
	}
	for _, other := range evicted {
		other.forget()
	}
	return fits
}

func (r *Quota) claim(w *Stream, n Size) (fits bool, evicted []*Stream, aborts []context.CancelCauseFunc) {
	if w.ctx.Err() != nil || r.isEvicted(w) {
		return false, nil, nil
	}
	for {
		more := n.larger(r.used[w]).minus(r.used[w])
		why := r.lacks(more)
		if why == "" && r.take(w, more) {
			return true, evicted, aborts
		}
		if why == "" {
			continue
		}
		other := r.largestBut(w)
		if other == nil || r.weight(r.size(other)) <= 2*max(r.weight(n), r.weight(r.size(w))) {
			r.refuse(w, n, why)
			return false, evicted, aborts
		}
		evicted, aborts = append(evicted, other), append(aborts, r.evict(other, why)...)
	}
}

// evict takes all that a watch uses, and returns what aborts its attempts.
func (r *Quota) evict(w *Stream, why string) (aborts []context.CancelCauseFunc) {
	for b, abort := range r.attempts {
		if b.watch == w {
			aborts = append(aborts, abort)
		}
	}
	refused := r.refuse(w, r.used[w], why)
	refused.evicted = !refused.reported || len(aborts) > 0
	r.take(w, Size{}.minus(r.used[w]))
	return aborts
}

// size is that of a watch, or what it was when there was no quota for it.
func (r *Quota) size(w *Stream) Size {
	if refused := r.refused[w]; refused != nil {
		return refused.size.larger(r.used[w])
	}
	return r.used[w]
}

// weight is the share of the quota that a size takes, in bytes: the maximum number of objects weighs as much as the
// maximum of bytes.
func (r *Quota) weight(s Size) int64 {
	return max(int64(s.Objects)*max(r.most.Bytes/int64(max(r.most.Objects, 1)), 1), s.Bytes)
}

// largestBut returns the largest of the other watches that use some of it; nil if none has.
func (r *Quota) largestBut(w *Stream) (largest *Stream) {
	for other := range r.used {
		if other != w && (largest == nil || r.weight(r.size(other)) > r.weight(r.size(largest))) {
			largest = other
		}
	}
	return largest
}

func (r *Quota) refuse(w *Stream, size Size, why string) *refusal {
	refused := r.refused[w]
	if refused == nil {
		refused = &refusal{freed: make(chan struct{}, 1)}
		r.refused[w] = refused
	}
	refused.size, refused.why = refused.size.larger(size), why
	select {
	case <-refused.freed: // it was tried since
	default:
	}
	return refused
}

func (r *Quota) isEvicted(w *Stream) bool { return r.refused[w] != nil && r.refused[w].evicted }

// evicted reports whether a watch was evicted, and its handler does not know yet.
func (r *Quota) evicted(w *Stream) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isEvicted(w)
}

// enter begins an attempt, which is aborted when its watch is evicted. It returns false if it was meanwhile.
func (r *Quota) enter(b *Binding, abort context.CancelCauseFunc) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isEvicted(b.watch) {
		return false
	}
	r.attempts[b] = abort
	return true
}

// leave ends an attempt.
func (r *Quota) leave(b *Binding) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attempts, b)
}

// reported notes that the handler of a watch knows that there is no quota for it.
func (r *Quota) reported(w *Stream) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused := r.refused[w]; refused != nil {
		refused.reported, refused.evicted = true, false
	}
}

// announce reports that a watch was refused. The channel that it returns receives when the watch may fit again.
func (r *Quota) announce(w *Stream) (freed <-chan struct{}) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	refused := r.refused[w]
	unannounced := refused != nil && !refused.announced
	if refused != nil {
		refused.announced, freed = true, refused.freed
	}
	r.mu.Unlock()
	if unannounced {
		r.changed()
	}
	return freed
}

// keep gives back what a watch that keeps so much does not need.
func (r *Quota) keep(w *Stream, n Size) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	used := r.used[w]
	if less := (Size{min(n.Objects, used.Objects), min(n.Bytes, used.Bytes)}).minus(used); less != (Size{}) {
		r.take(w, less)
	}
}

// fits notes that the quota allows all that a watch brings, or that the watch has ended, and that others may fit now,
// too. One that was evicted meanwhile does not fit.
func (r *Quota) fits(w *Stream) {
	if r == nil {
		return
	}
	r.mu.Lock()
	before := r.refused[w] != nil && (!r.isEvicted(w) || w.ctx.Err() != nil)
	if before {
		delete(r.refused, w)
	}
	r.mu.Unlock()
	if before {
		r.changed()
	}
	r.wake()
}

// wake has those tried again that may fit: half as much again as they are known to need, so that one
// that fails each time is not woken often. What those give back that do not fit themselves wakes none.
func (r *Quota) wake() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for w, refused := range r.refused {
		if r.mayFit(w, refused.size) {
			select {
			case refused.freed <- struct{}{}:
			default:
			}
		}
	}
}

// mayFit reports whether a watch fits that was refused at a size: with half as much again, or all that there is.
func (r *Quota) mayFit(w *Stream, size Size) bool {
	half := Size{size.Objects + size.Objects/2, size.Bytes + size.Bytes/2}
	least := Size{min(half.Objects, r.most.Objects), min(half.Bytes, r.most.Bytes)}
	left := r.most.minus(r.taken).plus(r.used[w])
	more := least.Bytes - r.used[w].Bytes
	fits := size.larger(r.most) == r.most && least.larger(left) == left
	return fits && r.shared.fits(r.taken.Bytes, r.taken.Bytes+more)
}
