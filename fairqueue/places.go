package fairqueue

import (
	"container/list"
	"time"
)

// nextLane returns the lane that comes first, of those that there is room for; nil if nothing can be handed out. The
// urgent kinds take turns, so that what is to be put right in one lane does not wait for a change that comes to all
// others. None waits for the background, but now and then they let some of it pass.
func (q *Queue[R]) nextLane() *lane[R] {
	order := [urgencies]urgency{change, upkeep, background}
	if q.lately == change {
		order = [urgencies]urgency{upkeep, change, background}
	}
	if q.row >= inRow {
		order = [urgencies]urgency{background, order[0], order[1]}
	}
	for _, u := range order {
		if next := q.nextOf(u); next != nil {
			return next
		}
	}
	return nil
}

// waits tells whether a lane of an urgency could be served, if there were room.
func (q *Queue[R]) waits(u urgency) bool {
	for s := range standings {
		if q.serving[s][u].len() > 0 {
			return true
		}
	}
	return false
}

// nextOf is nextLane for one urgency. It has targets asked that may be silent, and passes over their lanes.
func (q *Queue[R]) nextOf(u urgency) *lane[R] {
	for {
		next := q.candidate(u)
		if next == nil || q.vet(next) {
			return next
		}
	}
}

// candidate returns the first lane of an urgency, of those that there is room for: the first lane of the first tenant.
func (q *Queue[R]) candidate(u urgency) (next *lane[R]) {
	for s := range standings {
		if q.serving[s][u].len() == 0 || !q.hasRoom(s, u) {
			continue
		}
		t := q.firstTenant(s, u)
		if t == nil {
			continue
		}
		l := t.serving[s][u].first()
		if next == nil || t != next.tenant && t.before(next.tenant) || t == next.tenant && l.before(next) {
			next = l
		}
	}
	return next
}

// idleSince returns since when an item could have been handed out to a free worker; zero if none can, if all workers
// are busy, or while targets are asked first whether they answer.
func (q *Queue[R]) idleSince() time.Time {
	if q.shutDown || q.options.Workers <= 0 || len(q.inFlight) >= q.options.Workers || q.suspicious() {
		return time.Time{}
	}
	var since time.Time
	for u := range urgencies {
		if next := q.candidate(u); next != nil {
			ready := next.ready.first().readyAt
			if ready.Before(q.movedAt) {
				ready = q.movedAt
			}
			if since.IsZero() || ready.Before(since) {
				since = ready
			}
		}
	}
	return since
}

// displace takes the place of an item away.
func (q *Queue[R]) displace(f *flight[R]) {
	q.placed.Remove(f.place)
	f.place = nil
	f.lane.tenant.placed--
	q.reorder(f.lane.tenant)
}

// atMost is how many items of a lane may be handed out at once. One that is slow, or may be as an item of it waits,
// gets half of what others get: if its target hangs, the next ones will take long, too.
func (q *Queue[R]) atMost(l *lane[R]) int {
	most := max(1, q.options.MaxInFlight(l.name))
	if l.standing == slow || l.standing == unknown && l.slow > 0 {
		most = max(1, most/2)
	}
	return most
}

// watchPlaces sets the timer for the oldest flight that is watched, unless it is set. A timer that fires too early,
// because that one is Done, sets the next.
func (q *Queue[R]) watchPlaces(now time.Time) {
	if q.options.Places <= 0 || q.aging != nil {
		return
	}
	var left time.Duration
	switch {
	case q.placed.Len()+q.yielded.Len() == 0:
		return
	case q.options.Answers != nil:
		left = q.options.Doubt // what is handed out meanwhile is no older then
	default:
		left = flightAt[R](q.placed.Front()).since.Add(q.options.Patience).Sub(now)
	}
	q.agingAt = now.Add(left)
	q.aging = q.options.Clock.AfterFunc(left, func() { go q.age() }) // as for delayed entries
}

// age takes the places from those that have had them for long, and notes that of their lanes.
func (q *Queue[R]) age() {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.aging = nil
	if q.shutDown {
		return
	}
	now := q.options.Clock.Now()
	// Who is late because the processors are busy would take targets for silent whose answers are late for that, and work
	// on more at a time in the place of theirs.
	late := now.Sub(q.agingAt) > q.options.Doubt/2
	for _, watched := range []*list.List{q.yielded, q.placed} {
		for e := watched.Front(); e != nil; {
			f := flightAt[R](e)
			e = e.Next()
			if now.Sub(f.since) >= q.options.Patience {
				q.lose(f)
			} else if f.place != nil && !late {
				q.inquire(f, now)
			}
		}
	}
	q.watchPlaces(now)
	q.wake()
}

// lose judges a lane by an item that takes long, which has its place no longer.
func (q *Queue[R]) lose(f *flight[R]) {
	q.movedAt = q.options.Clock.Now()
	if f.place != nil {
		q.displace(f)
		f.lane.slow++
	} else {
		q.yielded.Remove(f.yielded)
		f.yielded = nil
	}
	q.doubt(f)
}

func flightAt[R comparable](e *list.Element) *flight[R] {
	f, _ := e.Value.(*flight[R])
	return f
}
