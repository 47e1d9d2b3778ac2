package fairqueue

// tenant is the owner of lanes, for Trellis a namespace of the source. It exists while it has lanes.
type tenant[R comparable] struct {
	name string
	// lanes is how many lanes it has, ready how many entries wait in them.
	lanes, ready int
	// placed is how many of its items have a place, busy how many are handed out by the standing of their lanes.
	placed int
	busy   [standings]int
	// turn orders tenants by the time for which they have waited: the lower, the longer.
	turn uint64
	// serving are its lanes with something to hand out, and listed how many those are. index are its places in the
	// heaps of the queue, in which it is with each kind of lane that it has.
	serving [standings][urgencies]indexedHeap[*lane[R]]
	index   [standings][urgencies]int
	listed  int
}

func newTenant[R comparable](name string) *tenant[R] {
	t := &tenant[R]{name: name}
	for s := range t.serving {
		for u := range t.serving[s] {
			t.serving[s][u].index, t.serving[s][u].before = laneIndex[R], (*lane[R]).before
			t.index[s][u] = notInHeap
		}
	}
	return t
}

func laneIndex[R comparable](l *lane[R]) *int { return &l.index }

// before tells which of two tenants is served first: the one that holds fewer places, and of two that hold as many
// the one that has been waiting longer.
func (t *tenant[R]) before(other *tenant[R]) bool {
	if t.placed != other.placed {
		return t.placed < other.placed
	}
	return t.turn < other.turn
}

// inFlight is how many of its items are handed out.
func (t *tenant[R]) inFlight() (n int) {
	for _, busy := range t.busy {
		n += busy
	}
	return n
}

// tenantOf returns the name of an item's tenant.
func (q *Queue[R]) tenantOf(item R) string {
	if q.options.Tenant == nil {
		return ""
	}
	return q.options.Tenant(item)
}

// tenant returns the tenant of the given name and makes it if necessary.
func (q *Queue[R]) tenant(name string) *tenant[R] {
	t, exists := q.tenants[name]
	if !exists {
		t = newTenant[R](name)
		q.tenants[name] = t
		if q.sole == nil {
			q.sole = &name
		}
		q.several = q.several || *q.sole != name
	}
	return t
}

// list adds a lane to those that can be served.
func (q *Queue[R]) list(l *lane[R]) {
	t := l.tenant
	t.serving[l.standing][l.urgency].push(l)
	if t.listed++; t.listed == 1 {
		q.waiting++
	}
	if t.index[l.standing][l.urgency] == notInHeap {
		q.serving[l.standing][l.urgency].push(t)
	}
}

// unlist takes a lane from those that can be served.
func (q *Queue[R]) unlist(l *lane[R]) {
	if l.index == notInHeap {
		return
	}
	t := l.tenant
	lanes := &t.serving[l.standing][l.urgency]
	lanes.remove(l)
	if t.listed--; t.listed == 0 {
		q.waiting--
	}
	if lanes.len() == 0 {
		q.serving[l.standing][l.urgency].remove(t)
	}
}

// reorder puts a tenant where it belongs after its places or its turn changed.
func (q *Queue[R]) reorder(t *tenant[R]) {
	for s := range t.index {
		for u, at := range t.index[s] {
			if at != notInHeap {
				q.serving[s][u].update(t)
			}
		}
	}
}

// firstTenant returns the tenant that comes first of those with lanes of a standing and urgency that may have one
// more item handed out; nil if there is none.
func (q *Queue[R]) firstTenant(s standing, u urgency) (first *tenant[R]) {
	heap := &q.serving[s][u]
	if heap.len() == 0 {
		return nil
	}
	if q.mayHave(heap.first(), s, u) {
		return heap.first()
	}
	for _, t := range heap.things[1:] { // rare: most targets that hang belong to tenants with few targets
		if (first == nil || t.before(first)) && q.mayHave(t, s, u) {
			first = t
		}
	}
	return first
}

// mayHave tells whether a tenant may have one more item of a lane with the given standing handed out.
//
// A queue that has ever known one tenant only leaves everything to it. Else, a tenant gets no more than half of the
// places while others wait. Of the workers for lanes that are not known to be fast it never gets more than half, even
// if the others are free: they may hang for as long as a run takes, and another tenant would find no free worker
// meanwhile. Of the places it gets three quarters of what one kind of work may have: with all of it, work of that kind
// for another tenant would wait until those of its lanes that hang have proved slow. Without places nothing is given
// up, so one quarter of the workers is kept for others likewise.
func (q *Queue[R]) mayHave(t *tenant[R], s standing, u urgency) bool {
	if !q.several {
		return true
	}
	othersWait := q.waiting > 1 || q.waiting == 1 && t.listed == 0
	places, workers := q.options.Places, q.options.Workers
	if places <= 0 {
		most := workers - workers/4
		if othersWait {
			most = half(workers)
		}
		return workers <= 0 || t.inFlight() < most
	}
	if s != swift && t.busy[unknown]+t.busy[slow] >= half(workers-max(1, places/2)) {
		return false
	}
	if s == slow {
		return t.busy[slow] < half((workers-places)/2)
	}
	if othersWait {
		return t.placed < half(places)
	}
	return q.placedOf(func(f *flight[R]) bool {
		return f.lane.tenant == t && f.urgency == u
	}) < max(1, q.share()-q.share()/4)
}

// half is the larger half of n, at least one.
func half(n int) int { return max(1, (n+1)/2) }
