package fairqueue

import "time"

// urgentInRow is how many urgent entries are handed out in a row while there is work in the background.
const urgentInRow = 7

// next returns the flow that is served next; nil if nothing can be handed out.
func (q *Queue[R]) next() *flow[R] {
	order := [levels]level{change, upkeep, background}
	if q.latest == change {
		order = [levels]level{upkeep, change, background}
	}
	if q.row >= urgentInRow {
		order = [levels]level{background, order[0], order[1]}
	}
	for _, l := range order {
		if f := q.firstOf(l); f != nil {
			return f
		}
	}
	return nil
}

// firstOf returns the flow that comes first of a level, if there is room for it.
func (q *Queue[R]) firstOf(l level) *flow[R] {
	if q.options.Seats > 0 && q.seated >= q.options.Seats ||
		l == background && q.options.Workers > 0 && q.ofLevel[background] >= max(1, q.options.Workers/2) {
		return nil
	}
	if t := q.firstTenant(l); t != nil {
		return t.serving[l].first()
	}
	return nil
}

// idleSince returns since when an item could have been handed out to a free worker; zero if none can.
func (q *Queue[R]) idleSince() (since time.Time) {
	if q.shutDown || q.options.Workers <= 0 || len(q.inFlight) >= q.options.Workers {
		return time.Time{}
	}
	for l := range levels {
		f := q.firstOf(l)
		if f == nil {
			continue
		}
		ready := f.ready.first().readyAt
		if ready.Before(q.movedAt) {
			ready = q.movedAt
		}
		if since.IsZero() || ready.Before(since) {
			since = ready
		}
	}
	return since
}
