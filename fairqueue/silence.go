package fairqueue

import "time"

// question is one to the target of a lane, whether it answers, that is open.
type question struct {
	since time.Time
	// silent is true once the target has not answered for so long that work for it has given up its place.
	silent bool
}

// vouched is for how long that a target has answered holds for a lane that is not served meanwhile. Without, each of
// those that wait for a place would be asked again and again.
const vouched = time.Second

// unusual is how many times as long as answers usually take a target has to owe one until it counts as silent. Where
// all are slow, because the processors are busy, or the network is, nobody is silent: work on more of them at a time
// would make them slower.
const unusual = 3

// takesUnusually tells whether a question is open for so long that its target is silent: for as long as doubt takes at
// least, and as patience does at most.
func (q *Queue[R]) takesUnusually(asked *question, now time.Time) bool {
	return now.Sub(asked.since) >= min(max(q.options.Doubt, unusual*q.usual), q.options.Patience)
}

// learnUsual notes how long an answer took. What took longer counts for some while. What comes when patience is over is
// the end of a connection rather than an answer.
func (q *Queue[R]) learnUsual(took time.Duration) {
	if took < q.options.Patience {
		q.usual = max(took, q.usual-q.usual/16)
	}
}

// answers tells whether the target of a lane is known to answer. If not, it is asked, and the lane may be held until it
// does.
func (q *Queue[R]) answers(key string, item R, now time.Time) bool {
	if q.options.Answers == nil {
		return true
	}
	if q.asked[key] != nil {
		return false
	}
	if q.options.Answers(item, func() { q.settled(key) }) {
		return true
	}
	q.asked[key] = &question{since: now}
	return false
}

// settled takes note that a target answers, or that work for it needs none.
func (q *Queue[R]) settled(key string) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	asked := q.asked[key]
	if asked == nil {
		return
	}
	delete(q.asked, key)
	q.learnUsual(q.options.Clock.Since(asked.since))
	if asked.silent {
		q.silent--
	}
	if l := q.lanes[key]; l != nil && !q.shutDown {
		q.resume(l, asked)
		q.wake()
	}
}

// resume has a lane served again whose target was asked. What waited for a target that was silent did not wait for a
// worker.
func (q *Queue[R]) resume(l *lane[R], asked *question) {
	now := q.options.Clock.Now()
	if l.held && now.Sub(asked.since) >= q.options.Patience {
		for _, e := range l.ready.things {
			e.readyAt = now
		}
	}
	l.held, l.vouchedUntil = false, now.Add(vouched)
	q.settle(l)
}

// suspicious tells whether so many targets are silent that those to come are asked before a worker is spent on them.
func (q *Queue[R]) suspicious() bool {
	return q.silent > 0 && q.silent >= q.options.Places/2
}

// vet returns true if a lane may be served. Else it is held until its target was found to answer.
func (q *Queue[R]) vet(l *lane[R]) bool {
	if !q.suspicious() {
		return true
	}
	now := q.options.Clock.Now()
	if now.Before(l.vouchedUntil) || q.answers(l.key, l.ready.first().item, now) {
		return true
	}
	l.held = true
	q.settle(l)
	return false
}

// inquire asks the target of an item that has been worked on for a while whether it answers, and has the item give up
// its place if it has not after some time. Only that of a lane which was swift is asked: at the start of a hub, and
// where much is to be applied everywhere, all are slow at first. For the same reason no more than there are places give
// up theirs so early: that is enough to find out that many are silent, and where they are not, more work at a time
// would make all of them slower.
func (q *Queue[R]) inquire(f *flight[R], now time.Time) {
	if q.options.Answers == nil || f.standing != swift || now.Sub(f.since) < q.options.Doubt ||
		q.answers(f.lane.key, f.item, now) {
		return
	}
	if asked := q.asked[f.lane.key]; q.yielded.Len() < q.options.Places && q.takesUnusually(asked, now) {
		q.yield(f)
		if !asked.silent {
			asked.silent = true
			q.silent++
		}
	}
}

// yield takes its place from an item whose target is silent.
func (q *Queue[R]) yield(f *flight[R]) {
	q.displace(f)
	f.yielded = q.yielded.PushBack(f)
	f.lane.slow++
	q.settle(f.lane) // it may get less than before
}
