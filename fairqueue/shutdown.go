package fairqueue

// ShutDown ends the queue: nothing is added any longer, and every Get returns at once, even if there are items left.
// What is handed out may still be Done. Nothing of the queue runs afterwards.
func (q *Queue[R]) ShutDown() {
	q.mutex.Lock()
	q.shutDown = true
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
	q.work.Broadcast()
	q.mutex.Unlock()

	q.options.Metrics.detach(q.name, q)
}

// ShutDownWithDrain is ShutDown that waits until everything that is handed out is Done. Items that are still waiting
// are not handed out.
func (q *Queue[R]) ShutDownWithDrain() {
	q.ShutDown()
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for len(q.inFlight) > 0 {
		q.idle.Wait()
	}
}

// ShuttingDown reports whether ShutDown was called.
func (q *Queue[R]) ShuttingDown() bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.shutDown
}
