package fairqueue

// standing is what is known of a lane.
type standing int

const (
	// unknown is a lane of which nothing was done yet, or so long ago that it is forgotten. It is also one that was swift
	// until an item took longer: whoever has much to do once is not yet slow.
	unknown standing = iota
	// swift is one whose last item was done within the patience.
	swift
	// slow is one that was not known to be swift, and an item took longer.
	slow
	standings
)

// remembered is how many lanes are known at most. Each takes some hundred bytes; those that were not served for longest
// are forgotten first.
const remembered = 4096

// hasRoom tells whether an item of a lane with the given standing and urgency may be handed out. Slow ones need no
// place, for they are likely to wait, but half of the workers that are there for that are kept for those that are still
// to prove slow. Unknown ones get half of the places if swift ones want the others, for what is as urgent. Each kind of
// work has its share of the places (hasShare). And at no time do all workers work on what is not known to be swift.
func (q *Queue[R]) hasRoom(s standing, u urgency) bool {
	if q.options.Places <= 0 {
		return true
	}
	if s != swift && q.busy[unknown]+q.busy[slow] >= q.options.Workers-max(1, q.options.Places/2) {
		return false
	}
	if s == slow {
		return q.busy[slow] < max(1, (q.options.Workers-q.options.Places)/2)
	}
	wanted := q.serving[swift][change].len()+q.serving[swift][upkeep].len() > 0 || u == background &&
		q.serving[swift][background].len() > 0
	if s == unknown && wanted && q.placedOf(func(f *flight[R]) bool { return f.lane.standing == unknown }) >= max(1,
		q.options.Places/2) {
		return false
	}
	return q.placed.Len() < q.options.Places && q.hasShare(u)
}

// hasShare tells whether an item of an urgency may have one more place. Each kind has three quarters of them, so that
// targets which begin to hang when they are looked at, or when a change comes to all of them, do not keep all places
// from what drifts elsewhere until they are found silent. What changes have counts against the background, too, so that
// both together leave that quarter to upkeep.
func (q *Queue[R]) hasShare(u urgency) bool {
	if u == change && q.options.Changes <= 0 {
		return true // all that is urgent is of one kind
	}
	return q.placedOf(func(f *flight[R]) bool {
		return f.urgency == u || u == background && f.urgency == change && q.options.Changes > 0
	}) < q.share()
}

// share is how many places one kind of work may have.
func (q *Queue[R]) share() int { return (3*q.options.Places + 3) / 4 }

// placedOf counts the items of a sort that have a place.
func (q *Queue[R]) placedOf(sort func(*flight[R]) bool) (n int) {
	for e := q.placed.Front(); e != nil; e = e.Next() {
		if sort(flightAt[R](e)) {
			n++
		}
	}
	return n
}

// judge changes the standing of a lane.
func (q *Queue[R]) judge(l *lane[R], s standing) {
	q.known.Add(l.key, s)
	q.unlist(l)
	q.busy[l.standing] -= l.inFlight
	l.tenant.busy[l.standing] -= l.inFlight
	l.standing = s
	q.busy[l.standing] += l.inFlight
	l.tenant.busy[l.standing] += l.inFlight
	q.settle(l)
}

// doubt judges a lane by an item that takes long. What counts is what was known of it when the item was handed out, so
// that several that take long at the same time count once.
func (q *Queue[R]) doubt(f *flight[R]) {
	if f.standing == swift && f.lane.standing != slow {
		q.judge(f.lane, unknown)
		return
	}
	q.judge(f.lane, slow)
}

// learn judges a lane by an item that was done, and settles it.
func (q *Queue[R]) learn(f *flight[R]) {
	switch took := q.options.Clock.Since(f.since); {
	case q.options.Places <= 0:
		q.settle(f.lane)
	case took >= q.options.Patience:
		q.doubt(f)
	case f.lane.standing != swift && !q.hangs(f.lane):
		q.judge(f.lane, swift)
	default:
		q.settle(f.lane)
	}
}

// hangs tells whether an item of a lane takes long just now.
func (q *Queue[R]) hangs(l *lane[R]) bool {
	now := q.options.Clock.Now()
	for _, f := range q.inFlight {
		if f.lane == l && now.Sub(f.since) >= q.options.Patience {
			return true
		}
	}
	return false
}
