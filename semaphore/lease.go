package semaphore

import "context"

// Lease is what an owner holds for one piece of work whose needs change while it continues. It waits only while it
// holds nothing, so that no two of them wait for each other. It is not safe for concurrent use.
type Lease struct {
	semaphore *Semaphore
	owner     Owner
	held      int64
}

// Lease returns a lease that holds nothing.
func (s *Semaphore) Lease(of Owner) *Lease { return &Lease{semaphore: s, owner: of} }

// Held returns what the lease holds.
func (l *Lease) Held() int64 { return l.held }

// Owner returns whose lease it is.
func (l *Lease) Owner() Owner { return l.owner }

// Most returns what its owner may hold at most.
func (l *Lease) Most() int64 { return l.semaphore.most(l.owner) }

// Acquire waits until the lease can hold n. It must hold nothing. Errors are those of Semaphore.Acquire.
func (l *Lease) Acquire(ctx context.Context, n int64) error {
	if _, err := l.semaphore.Acquire(ctx, l.owner, n); err != nil {
		return err
	}
	l.held += n
	return nil
}

// TryGrow makes the lease hold at least n, and reports whether it does. It does not overtake waiters for free capacity.
func (l *Lease) TryGrow(n int64) bool {
	if n <= l.held {
		return true
	}
	if !l.semaphore.tryGrow(l.owner, l.held, n-l.held) {
		return false
	}
	l.held = n
	return true
}

// Shrink gives back what the lease holds beyond n.
func (l *Lease) Shrink(n int64) {
	if n = max(n, 0); n < l.held {
		l.semaphore.release(l.owner, l.held-n)
		l.held = n
	}
}

// Release gives back everything. The lease may be used again.
func (l *Lease) Release() { l.Shrink(0) }

// Split returns a lease of the same owner that holds n of what this one holds, or all if that is less.
func (l *Lease) Split(n int64) *Lease {
	n = min(n, l.held)
	l.held -= n
	return &Lease{semaphore: l.semaphore, owner: l.owner, held: n}
}

// Move transfers the lease to another owner, whatever the bounds of that owner: the resources are in use already. The
// owner gets no more until it holds less than its bounds.
func (l *Lease) Move(to Owner) {
	if to == l.owner {
		return
	}
	if l.held == 0 {
		l.owner = to
		return
	}
	s := l.semaphore
	s.mu.Lock()
	ns, o := s.ownerLocked(to)
	s.takeLocked(ns, o, l.held)
	s.mu.Unlock()
	s.release(l.owner, l.held)
	l.owner = to
}
