package fairqueue

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Queue is a work queue that is fair between tenants and flows. It implements priorityqueue.PriorityQueue; make one
// with New.
type Queue[R comparable] struct {
	name    string
	options Options[R]
	metrics instruments

	mutex sync.Mutex
	// work is signalled when an item can be handed out, idle when nothing is in flight any longer.
	work, idle sync.Cond
	// entries are all entries, wherever they wait.
	entries map[R]*entry[R]
	// inFlight are the items that are handed out, seated is how many of them have a seat, and ofLevel how many are of each
	// level.
	inFlight map[R]*work[R]
	seated   int
	ofLevel  [levels]int
	// answers is how long targets take to answer at present.
	answers answerTime
	// flows are by their keys. tenantsWaiting is how many tenants have flows that can be served.
	flows          map[string]*flow[R]
	tenants        map[string]*tenant[R]
	tenantsWaiting int
	// several is true once there was more than one tenant; first is the name of the first one.
	several bool
	first   *string
	// serving are the tenants that have something of each level to hand out, if there is room.
	serving [levels]indexedHeap[*tenant[R]]
	// row is how many urgent entries were handed out since the last one of the background, latest the level of the last
	// urgent one.
	row    int
	latest level

	delayed indexedHeap[*entry[R]]
	// ready counts the entries that are ready, those that are held back included.
	ready int
	// sequence numbers entries and turns.
	sequence uint64
	// timer fires at timerAt, when the first delayed entry is due. It is nil if there is none.
	timer   clock.Timer
	timerAt time.Time
	// movedAt is when something was handed out last, or there came to be room for it.
	movedAt  time.Time
	shutDown bool
}

var _ priorityqueue.PriorityQueue[string] = (*Queue[string])(nil)

// New returns an empty queue. The name is the value of the label "class" in its metrics.
func New[R comparable](name string, options Options[R]) *Queue[R] {
	q := &Queue[R]{
		name: name, options: options.withDefaults(), latest: upkeep,
		entries: map[R]*entry[R]{}, inFlight: map[R]*work[R]{},
		flows: map[string]*flow[R]{}, tenants: map[string]*tenant[R]{},
		delayed: indexedHeap[*entry[R]]{
			index:  func(e *entry[R]) *int { return &e.index },
			before: func(a, b *entry[R]) bool { return a.readyAt.Before(b.readyAt) },
		},
	}
	for l := range q.serving {
		q.serving[l].index = func(t *tenant[R]) *int { return &t.index[l] }
		q.serving[l].before = (*tenant[R]).before
	}
	q.work.L, q.idle.L = &q.mutex, &q.mutex
	q.metrics = q.options.Metrics.attach(name, q)
	q.answers.average.Store(int64(mostPatience / 4)) // until it is known
	return q
}

// Get waits for an item and hands it out. The caller must call Done when it has worked on it.
func (q *Queue[R]) Get() (item R, shutdown bool) {
	item, _, shutdown = q.GetWithPriority()
	return item, shutdown
}

// GetWithPriority is Get that also returns the priority the item had.
func (q *Queue[R]) GetWithPriority() (item R, priority int, shutdown bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for !q.shutDown {
		if f := q.next(); f != nil {
			e := q.handOut(f)
			q.wake()
			return e.item, e.priority, false
		}
		q.work.Wait()
	}
	return item, 0, true
}

// Done says that the work on an item has ended. If it was added meanwhile, it is handed out again.
func (q *Queue[R]) Done(item R) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	w, found := q.inFlight[item]
	if !found {
		return
	}
	if w.seated {
		q.unseat(w)
	}
	delete(q.inFlight, item)
	q.ofLevel[w.level]--
	w.flow.inFlight--
	w.flow.tenant.inFlight--
	q.movedAt = q.options.Clock.Now()
	q.settle(w.flow)
	if e := q.entries[item]; e != nil && e.held {
		e.held = false
		q.ready--
		q.enter(e)
	}
	q.clear(w.flow)
	q.wake()
	if len(q.inFlight) == 0 {
		q.idle.Broadcast()
	}
}

// Len returns how many items are ready, including those that wait for Done.
func (q *Queue[R]) Len() int {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.ready
}

// Forget ends the rate limiter's memory of an item.
func (q *Queue[R]) Forget(item R) { q.options.RateLimiter.Forget(item) }

// NumRequeues returns how often the rate limiter has seen an item since it was last forgotten.
func (q *Queue[R]) NumRequeues(item R) int { return q.options.RateLimiter.NumRequeues(item) }

// handOut takes the first entry of a flow. There must be one.
func (q *Queue[R]) handOut(f *flow[R]) *entry[R] {
	e := f.ready.first()
	now, l := q.options.Clock.Now(), q.levelOf(e)
	if l == background || q.serving[background].len() == 0 {
		q.row = 0
	} else {
		q.row++
	}
	if l != background {
		q.latest = l
		wait := now.Sub(e.readyAt)
		q.metrics.handedOut(wait)
		if q.options.Served != nil {
			q.options.Served(e.item, wait)
		}
	}
	q.leave(e)
	delete(q.entries, e.item)
	q.inFlight[e.item] = &work[R]{queue: q, flow: f, level: l, since: now, seated: true}
	q.seated++
	q.ofLevel[l]++
	f.inFlight++
	f.seated++
	f.tenant.inFlight++
	f.tenant.seated++
	f.turn = q.number()
	f.tenant.turn = f.turn
	q.movedAt = now
	q.reorder(f.tenant)
	q.settle(f)
	return e
}

// enter makes an entry ready: in its flow, or held back if its item is in flight.
func (q *Queue[R]) enter(e *entry[R]) {
	if _, inFlight := q.inFlight[e.item]; inFlight {
		e.held = true
		q.ready++
		return
	}
	f := q.flowOf(e.item)
	if f.ready.len() == 0 {
		f.turn = q.number()
	}
	if f.tenant.ready == 0 {
		f.tenant.turn = q.number()
		q.reorder(f.tenant)
	}
	e.flow = f
	f.ready.push(e)
	f.tenant.ready++
	q.ready++
	q.settle(f)
}

// leave takes a ready entry out of its flow.
func (q *Queue[R]) leave(e *entry[R]) {
	e.flow.ready.remove(e)
	e.flow.tenant.ready--
	e.flow = nil
	q.ready--
}

// flowOf returns the flow of an item and makes it if necessary.
func (q *Queue[R]) flowOf(item R) *flow[R] {
	key := q.keyOf(item)
	f, exists := q.flows[key]
	if !exists {
		f = newFlow(q.options.Flow(item), key, q.tenant(q.options.Tenant(item)))
		f.tenant.flows++
		q.flows[key] = f
	}
	return f
}

// keyOf returns a key that differs between flows of the same name of different tenants.
func (q *Queue[R]) keyOf(item R) string {
	tenant, flow := q.options.Tenant(item), q.options.Flow(item)
	if tenant == "" {
		return flow
	}
	return tenant + " " + flow
}

// maxInFlight is how many items of a flow may be in flight.
func (q *Queue[R]) maxInFlight(f *flow[R]) int { return max(1, q.options.MaxInFlight(f.name)) }

// settle puts a flow that has changed where it belongs: among those that can be served, or aside.
func (q *Queue[R]) settle(f *flow[R]) {
	if f.ready.len() == 0 || f.inFlight >= q.maxInFlight(f) {
		q.unlist(f)
		return
	}
	l := q.levelOf(f.ready.first())
	if f.index != notInHeap && f.level == l {
		f.tenant.serving[l].update(f)
		return
	}
	q.unlist(f)
	f.level = l
	q.list(f)
}

// clear ends a flow that holds nothing any longer, and a tenant without flows.
func (q *Queue[R]) clear(f *flow[R]) {
	if f.ready.len() > 0 || f.inFlight > 0 || q.flows[f.key] != f {
		return
	}
	delete(q.flows, f.key)
	if f.tenant.flows--; f.tenant.flows == 0 {
		delete(q.tenants, f.tenant.name)
	}
}

// wake wakes one of the goroutines that wait in Get, if there is work. A goroutine that takes an item wakes the next
// one.
func (q *Queue[R]) wake() {
	if !q.shutDown && q.next() != nil {
		q.work.Signal()
	}
}

// number returns the next number of the sequence.
func (q *Queue[R]) number() uint64 {
	q.sequence++
	return q.sequence
}
