package watching

import "sync"

// Pool bounds how many bytes the watches of several targets keep together beyond what each target may have anyway: the
// targets of one namespace have one. So small targets always fit, however large others are. A nil Pool has no bound.
type Pool struct {
	most, free int64

	mu    sync.Mutex
	taken int64
}

// NewPool returns a pool of the given number of bytes. The first free bytes of each target do not count.
func NewPool(most, free int64) *Pool { return &Pool{most: most, free: free} }

// charge is what a target that keeps n bytes takes of the pool.
func (p *Pool) charge(bytes int64) int64 { return max(bytes-p.free, 0) }

// fits reports whether a target may keep more than before.
func (p *Pool) fits(before, after int64) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fitsLocked(p.charge(after) - p.charge(before))
}

func (p *Pool) fitsLocked(more int64) bool { return more <= 0 || p.taken+more <= p.most }

// move notes that a target keeps more than before, or less. It returns false if it may not.
func (p *Pool) move(before, after int64) bool {
	if p == nil {
		return true
	}
	more := p.charge(after) - p.charge(before)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.fitsLocked(more) {
		return false
	}
	p.taken += more
	return true
}
