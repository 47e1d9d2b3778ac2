package watching

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// ErrTooMany is reported when a watch brings more objects than there is room for. What it kept before stays as it was, and is
// not relied upon.
var ErrTooMany = errors.New("the target has more objects than may be kept of it")

// shownRefused is how many names of watches Refused shows.
const shownRefused = 5

// Room bounds how many objects the watches of a target keep together, those of lists under way included. A list that is taken
// anew counts once with the one that it replaces, so at the worst moment there may be twice as many. A nil Room has no bound.
type Room struct {
	most    int
	changed func()

	mu      sync.Mutex
	taken   int
	refused map[*Declared]struct{}
}

// NewRoom returns room for so many objects. changed is called without a lock when Refused has changed.
func NewRoom(most int, changed func()) *Room {
	return &Room{most: most, changed: changed, refused: map[*Declared]struct{}{}}
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

// take tells whether there is room for more objects, which is taken then.
func (r *Room) take(more int) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken+more > r.most {
		return false
	}
	r.taken += more
	return true
}

// give gives room back.
func (r *Room) give(n int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= n
}

// refuse notes whether a watch brings more than there is room for.
func (r *Room) refuse(w *Declared, refused bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	_, before := r.refused[w]
	if refused {
		r.refused[w] = struct{}{}
	} else {
		delete(r.refused, w)
	}
	r.mu.Unlock()
	if before != refused {
		r.changed()
	}
}

// reserve tells whether there is room for n objects of a watch, in whatever list they are kept.
func (w *Declared) reserve(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reserveLocked(n)
}

func (w *Declared) reserveLocked(n int) bool {
	if n <= w.reserved {
		return true
	}
	if w.ctx.Err() != nil || !w.spec.Room.take(n-w.reserved) {
		return false
	}
	w.reserved = n
	return true
}

// shrink gives back what is not needed of the room for what is kept.
func (w *Declared) shrink() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shrinkLocked()
}

func (w *Declared) shrinkLocked() {
	if n := len(w.values); n < w.reserved {
		w.spec.Room.give(w.reserved - n)
		w.reserved = n
	}
}
