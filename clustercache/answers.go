package clustercache

import "time"

// freshAnswer is for how long an answer of a target says that it answers, at least. From one that is far away they
// come slower, and freshMost is for how long they say so at most.
const (
	freshAnswer = 200 * time.Millisecond
	freshMost   = time.Second
)

// Answers implements ClusterCache.
func (c *Cache) Answers(cluster ClusterKey, settled func()) bool {
	t := c.target(cluster)
	return t == nil || t.answers(settled)
}

func (t *target) answers(settled func()) bool {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh := func(answered time.Time) bool {
		age := now.Sub(answered) // below zero if the clock was set back
		return age >= 0 && age < min(max(freshAnswer, 2*t.status.RoundTrip), freshMost)
	}
	if t.gen == nil || fresh(t.meter.LastAnswer()) || fresh(t.health.LastProbeSuccessTime) {
		return true
	}
	t.asking = append(t.asking, settled)
	t.poke()
	return false
}

// asked tells whether somebody waits to hear whether the target answers.
func (t *target) asked() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.asking) > 0
}

// settle tells those who asked whether the target answers that it does, or that there is no connection any more.
func (t *target) settle() {
	t.mu.Lock()
	asking := t.asking
	t.asking = nil
	t.mu.Unlock()
	for _, settled := range asking {
		settled()
	}
}
