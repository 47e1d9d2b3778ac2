package fairqueue

import "time"

// inquiry is how far it is with asking the target of an item that is worked on.
type inquiry int

const (
	inquiryNone inquiry = iota
	// inquiryOpen is one that was begun. Somebody else may have asked before.
	inquiryOpen
	// inquiryOver is one that is not repeated.
	inquiryOver
)

// question is one to the target of a lane, whether it answers, that is open.
type question struct {
	// silent is true once the target has not answered for so long that work for it has given up its place.
	silent bool
}

// answers tells whether the target of a lane is known to answer. If not, it is asked, and the lane may be held until it does.
func (q *Queue[R]) answers(name string, item R) bool {
	if q.options.Answers == nil {
		return true
	}
	if q.asked[name] != nil {
		return false
	}
	if q.options.Answers(item, func() { q.settled(name) }) {
		return true
	}
	q.asked[name] = &question{}
	return false
}

// settled takes note that a target answers, or that work for it needs none.
func (q *Queue[R]) settled(name string) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	asked := q.asked[name]
	if asked == nil {
		return
	}
	delete(q.asked, name)
	if asked.silent {
		q.silent--
	}
	if l := q.lanes[name]; l != nil {
		l.held = false
		q.settle(l)
		q.wake()
	}
}

// suspicious tells whether so many targets are silent that those to come are asked before a worker is spent on them.
func (q *Queue[R]) suspicious() bool {
	return q.silent > 0 && q.silent >= q.options.Places/2
}

// vet returns true if a lane may be served. Else it is held until its target was found to answer.
func (q *Queue[R]) vet(l *lane[R]) bool {
	if !q.suspicious() || q.answers(l.name, l.ready.first().item) {
		return true
	}
	l.held = true
	q.settle(l)
	return false
}

// inquire asks the target of an item that has been worked on for a while whether it answers, and has the item give up its place if
// it has not after as long again.
func (q *Queue[R]) inquire(f *flight[R], age time.Duration) {
	switch {
	case q.options.Answers == nil || f.inquiry == inquiryOver || age < q.options.Doubt:
	case f.inquiry == inquiryNone:
		f.inquiry = inquiryOpen
		if q.answers(f.lane.name, f.item) {
			f.inquiry = inquiryOver
		}
	case age >= 2*q.options.Doubt:
		f.inquiry = inquiryOver
		if asked := q.asked[f.lane.name]; asked != nil {
			q.yield(f)
			if !asked.silent {
				asked.silent = true
				q.silent++
			}
		}
	}
}

// yield takes its place from an item whose target is silent.
func (q *Queue[R]) yield(f *flight[R]) {
	q.placed.Remove(f.place)
	f.place, f.yielded = nil, q.yielded.PushBack(f)
	f.lane.slow++
	q.settle(f.lane) // it may get less than before
}
