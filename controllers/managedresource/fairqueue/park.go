package fairqueue

// Park stops a lane: its items stay, one entry each, and none is handed out until Unpark. Items of the lane that are
// handed out already are not affected. A lane may be parked before it has items, and parked twice is parked once.
//
// A parked lane is remembered until it is unparked, so unpark the lanes of targets that are gone for good.
func (q *Queue[R]) Park(name string) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	l := q.lane(name)
	l.parked = true
	q.settle(l)
}

// Unpark lets the items of a parked lane be handed out again. The time they were parked does not count as waiting in the
// metrics. For a lane that is not parked it does one thing: MaxInFlight is asked again.
func (q *Queue[R]) Unpark(name string) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	l, exists := q.lanes[name]
	if !exists {
		return
	}
	if l.parked {
		l.parked = false
		l.unparkedAt = q.options.Clock.Now()
	}
	q.settle(l)
	q.wake()
}
