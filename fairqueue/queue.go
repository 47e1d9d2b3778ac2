package fairqueue

import (
	"container/list"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Queue is a work queue that is fair between lanes. It implements priorityqueue.PriorityQueue; make one with New.
type Queue[R comparable] struct {
	name    string
	options Options[R]
	metrics instruments

	mutex sync.Mutex
	// work is signalled when an item can be handed out, idle when nothing is in flight any more.
	work, idle sync.Cond
	// entries are all entries, wherever they wait.
	entries map[R]*entry[R]
	// inFlight are the items that are handed out.
	inFlight map[R]*flight[R]
	// placed are the flights that have a place, the oldest first.
	placed *list.List
	// yielded are those that have given up theirs because their targets are silent, and were not judged by it yet;
	// likewise.
	yielded *list.List
	// asked are the lanes whose targets were asked whether they answer, and have not yet, silent how many of those are
	// silent.
	asked  map[string]*question
	silent int
	// usual is how long targets take to answer when they are asked.
	usual time.Duration
	// lanes are by their keys, which tell those of different tenants apart. waiting is how many tenants have lanes
	// that can be served.
	lanes   map[string]*lane[R]
	tenants map[string]*tenant[R]
	waiting int
	// several is true once there was more than one tenant; the first one was called sole.
	several bool
	sole    *string
	// known is the standing of the lanes that were served last, whether or not they exist.
	known *simplelru.LRU[string, standing]
	// busy is how many items of the lanes of each standing are handed out.
	busy [standings]int
	// serving are the tenants that have lanes of each standing and urgency with something to hand out now, if there
	// is room.
	serving [standings][urgencies]indexedHeap[*tenant[R]]
	// row is how many urgent entries were handed out since the last one in the background.
	row int
	// lately is the kind of the urgent entry that was handed out last.
	lately  urgency
	delayed indexedHeap[*entry[R]]
	// ready counts the entries that are ready, those that are held back included.
	ready int
	// sequence numbers entries and turns.
	sequence uint64
	// timer fires at timerAt, when the first delayed entry is due. It is nil if there is none.
	timer   clock.Timer
	timerAt time.Time
	// aging fires when the oldest flight with a place may have to give it up. It is nil if nobody waits for that.
	aging   clock.Timer
	agingAt time.Time
	// movedAt is when something was handed out last, or there came to be room for it.
	movedAt  time.Time
	shutDown bool
}

var _ priorityqueue.PriorityQueue[string] = (*Queue[string])(nil)

// New returns an empty queue. The name is the value of the label "class" in its metrics.
func New[R comparable](name string, options Options[R]) *Queue[R] {
	known, err := simplelru.NewLRU[string, standing](remembered, nil)
	if err != nil {
		panic(err) // the size is a constant
	}
	q := &Queue[R]{
		name:     name,
		known:    known,
		options:  options.withDefaults(),
		entries:  map[R]*entry[R]{},
		inFlight: map[R]*flight[R]{},
		placed:   list.New(),
		yielded:  list.New(),
		asked:    map[string]*question{},
		lately:   upkeep,
		lanes:    map[string]*lane[R]{},
		tenants:  map[string]*tenant[R]{},
		delayed: indexedHeap[*entry[R]]{
			index:  func(e *entry[R]) *int { return &e.index },
			before: func(a, b *entry[R]) bool { return a.readyAt.Before(b.readyAt) },
		},
	}
	for s := range q.serving {
		for u := range q.serving[s] {
			q.serving[s][u].index = func(t *tenant[R]) *int { return &t.index[s][u] }
			q.serving[s][u].before = (*tenant[R]).before
		}
	}
	q.work.L, q.idle.L = &q.mutex, &q.mutex
	q.metrics = q.options.Metrics.attach(name, q)
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
		if l := q.nextLane(); l != nil {
			e := q.handOut(l)
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
	f, found := q.inFlight[item]
	if !found {
		return
	}
	l := f.lane
	delete(q.inFlight, item)
	l.inFlight--
	q.busy[l.standing]--
	l.tenant.busy[l.standing]--
	q.movedAt = q.options.Clock.Now()
	if f.place != nil {
		q.displace(f)
	} else {
		l.slow--
	}
	if f.yielded != nil {
		q.yielded.Remove(f.yielded)
	}
	q.learn(f)
	if e := q.entries[item]; e != nil && e.held {
		e.held = false
		q.ready--
		q.enter(e)
	}
	q.clear(l)
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

// handOut takes the next entry of a lane. There must be one.
func (q *Queue[R]) handOut(l *lane[R]) *entry[R] {
	e := l.ready.first()
	now := q.options.Clock.Now()
	wait := now.Sub(e.readyAt)
	urgency := q.urgency(e)
	if e.urgent() {
		q.lately = urgency
		q.metrics.handedOut(wait)
		if q.options.Served != nil {
			q.options.Served(e.item, wait)
		}
	}
	q.leave(e)
	delete(q.entries, e.item)
	if q.row++; urgency == background || !q.waits(background) {
		q.row = 0
	}
	l.inFlight++
	q.busy[l.standing]++
	l.tenant.busy[l.standing]++
	l.turn = q.next()
	l.tenant.turn = l.turn
	q.movedAt = now
	l.vouchedUntil = time.Time{}
	f := &flight[R]{item: e.item, lane: l, standing: l.standing, urgency: urgency, since: now}
	if l.standing == slow {
		l.slow++
	} else {
		f.place = q.placed.PushBack(f)
		l.tenant.placed++
	}
	q.reorder(l.tenant)
	q.inFlight[e.item] = f
	q.settle(l)
	q.watchPlaces(now)
	return e
}

// enter makes an entry ready: in its lane, or held back if its item is being worked on.
func (q *Queue[R]) enter(e *entry[R]) {
	if _, inFlight := q.inFlight[e.item]; inFlight {
		e.held = true
		q.ready++
		return
	}
	l := q.laneOf(e.item)
	if l.ready.len() == 0 {
		l.turn = q.next()
	}
	if l.tenant.ready == 0 {
		l.tenant.turn = q.next()
		q.reorder(l.tenant)
	}
	e.lane = l
	l.ready.push(e)
	l.tenant.ready++
	q.ready++
	q.settle(l)
}

// leave takes a ready entry out of its lane.
func (q *Queue[R]) leave(e *entry[R]) {
	e.lane.ready.remove(e)
	e.lane.tenant.ready--
	e.lane = nil
	q.ready--
}

// laneOf returns the lane of an item and makes it if necessary.
func (q *Queue[R]) laneOf(item R) *lane[R] {
	name, tenant := q.options.Lane(item), q.tenantOf(item)
	key := laneKey(tenant, name)
	l, exists := q.lanes[key]
	if !exists {
		s, _ := q.known.Get(key) // unknown if it is not there
		l = newLane[R](name, s)
		l.key, l.tenant = key, q.tenant(tenant)
		l.tenant.lanes++
		q.lanes[key] = l
	}
	return l
}

// laneKey tells lanes of different tenants apart.
func laneKey(tenant, lane string) string {
	if tenant == "" {
		return lane
	}
	return tenant + " " + lane
}

// settle puts a lane that has changed where it belongs: among those that can be served, or aside.
func (q *Queue[R]) settle(l *lane[R]) {
	canServe := !l.held && l.ready.len() > 0 && l.inFlight < q.atMost(l)
	if !canServe || l.urgency != q.wants(l) {
		q.unlist(l)
	}
	switch {
	case !canServe:
	case l.index != notInHeap:
		l.tenant.serving[l.standing][l.urgency].update(l)
	default:
		l.urgency = q.wants(l)
		q.list(l)
	}
}

// clear ends a lane that holds nothing any more, and a tenant without lanes.
func (q *Queue[R]) clear(l *lane[R]) {
	if l.ready.len() > 0 || l.inFlight > 0 || q.lanes[l.key] != l {
		return
	}
	delete(q.lanes, l.key)
	if l.tenant.lanes--; l.tenant.lanes == 0 {
		delete(q.tenants, l.tenant.name)
	}
}

// wake wakes one of those that wait in Get, if there is work. Whoever takes an item wakes the next, so nobody sleeps
// while there is work, and nobody wakes without.
func (q *Queue[R]) wake() {
	if !q.shutDown && q.nextLane() != nil {
		q.work.Signal()
	}
}

// next returns the next number of the sequence.
func (q *Queue[R]) next() uint64 {
	q.sequence++
	return q.sequence
}
