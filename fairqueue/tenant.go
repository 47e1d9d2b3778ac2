package fairqueue

// tenant is the owner of flows, for Trellis a namespace of the source. It exists while it has flows.
type tenant[R comparable] struct {
	name string
	// flows is how many flows it has, ready how many entries wait in them.
	flows, ready int
	// inFlight is how many of its items are in flight, seated how many of them have a seat.
	inFlight, seated int
	// turn orders tenants by the time for which they have waited: the lower, the longer.
	turn uint64
	// serving are its flows that have something to hand out, by the level of that, and listed how many those are. index
	// is the place of the tenant in the queue's heap of each level.
	serving [levels]indexedHeap[*flow[R]]
	index   [levels]int
	listed  int
}

func newTenant[R comparable](name string) *tenant[R] {
	t := &tenant[R]{name: name}
	for l := range t.serving {
		t.serving[l].index = func(f *flow[R]) *int { return &f.index }
		t.serving[l].before = (*flow[R]).before
		t.index[l] = notInHeap
	}
	return t
}

// before reports which of two tenants is served first: the one with fewer seats, and of two with as many the one that
// has been waiting longer.
func (t *tenant[R]) before(other *tenant[R]) bool {
	if t.seated != other.seated {
		return t.seated < other.seated
	}
	return t.turn < other.turn
}

// tenant returns the tenant of the given name and makes it if necessary.
func (q *Queue[R]) tenant(name string) *tenant[R] {
	t, exists := q.tenants[name]
	if !exists {
		t = newTenant[R](name)
		q.tenants[name] = t
		if q.first == nil {
			q.first = &name
		}
		q.several = q.several || *q.first != name
	}
	return t
}

// list adds a flow to those that can be served.
func (q *Queue[R]) list(f *flow[R]) {
	t := f.tenant
	t.serving[f.level].push(f)
	if t.listed++; t.listed == 1 {
		q.tenantsWaiting++
	}
	if t.index[f.level] == notInHeap {
		q.serving[f.level].push(t)
	}
}

// unlist takes a flow from those that can be served.
func (q *Queue[R]) unlist(f *flow[R]) {
	if f.index == notInHeap {
		return
	}
	t := f.tenant
	flows := &t.serving[f.level]
	flows.remove(f)
	if t.listed--; t.listed == 0 {
		q.tenantsWaiting--
	}
	if flows.len() == 0 {
		q.serving[f.level].remove(t)
	}
}

// reorder puts a tenant where it belongs after its seats or its turn changed.
func (q *Queue[R]) reorder(t *tenant[R]) {
	for l, at := range t.index {
		if at != notInHeap {
			q.serving[l].update(t)
		}
	}
}

// firstTenant returns the tenant that comes first of those with something of a level that may have one more item in
// flight; nil if there is none.
func (q *Queue[R]) firstTenant(l level) (first *tenant[R]) {
	heap := &q.serving[l]
	if heap.len() == 0 {
		return nil
	}
	if q.mayHaveMore(heap.first()) {
		return heap.first()
	}
	for _, t := range heap.things[1:] { // rare: most tenants have little in flight
		if (first == nil || t.before(first)) && q.mayHaveMore(t) {
			first = t
		}
	}
	return first
}

// mayHaveMore reports whether a tenant may have one more item in flight. A queue that has only ever had one tenant
// leaves everything to it. Else seats and workers are kept for the others, even if these have no work at present: what
// the tenant has in flight may take as long as a run may.
func (q *Queue[R]) mayHaveMore(t *tenant[R]) bool {
	if !q.several {
		return true
	}
	othersWait := q.tenantsWaiting > 1 || q.tenantsWaiting == 1 && t.listed == 0
	return below(t.inFlight, q.options.Workers, othersWait) && below(t.seated, q.options.Seats, othersWait)
}

// below reports whether a tenant that has a number of all there are may have one more; zero means no bound.
func below(has, all int, othersWait bool) bool {
	switch {
	case all <= 0:
		return true
	case othersWait:
		return has < max(1, (all+1)/2)
	}
	return has < max(1, all-all/4)
}
