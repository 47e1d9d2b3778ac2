package semaphore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// ErrTooLarge is wrapped by the error for a request that is larger than a bound and would wait forever.
var ErrTooLarge = errors.New("more is requested than an owner may hold")

// Owner identifies the caller that acquires: the namespace of the source that the work is for, and the target or
// ManagedResource in it. Owners without a namespace are the operator's own, and PerNamespace does not apply to them.
type Owner = types.NamespacedName

// Options are the bounds of a semaphore.
type Options struct {
	// Size is what all owners hold together. It must be positive.
	Size int64
	// PerNamespace and PerOwner bound what the owners of a namespace hold together, and what one owner holds. Zero
	// means Size.
	PerNamespace, PerOwner int64
	// Alone is what an owner may hold for one request or lease, as long as it holds nothing else. Zero, or less than
	// PerOwner: PerOwner.
	Alone int64
}

// NamespaceShare returns a bound per namespace that leaves a quarter of the capacity to other namespaces. It is not
// lower because many fleets are in one namespace, which should use most of it.
func NamespaceShare(size int64) int64 { return max(size-size/4, 1) }

// Semaphore is a weighted semaphore. It is safe for concurrent use.
type Semaphore struct {
	options Options

	mu         sync.Mutex
	held       int64
	namespaces map[string]*namespace // those that hold something or wait
	waiting    int
	arrivals   uint64
}

// namespace is what the owners of one namespace hold and wait for.
type namespace struct {
	held   int64
	owners map[string]*owner
}

type owner struct {
	held  int64
	queue []*waiter
}

type waiter struct {
	n       int64
	arrival uint64
	granted chan struct{}
}

// New returns a semaphore. Bounds that are zero or larger than the size are the size.
func New(o Options) *Semaphore {
	o.Size = max(o.Size, 1)
	for _, bound := range []*int64{&o.PerNamespace, &o.PerOwner} {
		if *bound <= 0 || *bound > o.Size {
			*bound = o.Size
		}
	}
	o.Alone = min(max(o.Alone, o.PerOwner), o.Size)
	return &Semaphore{options: o, namespaces: map[string]*namespace{}}
}

// Held returns what all owners hold together.
func (s *Semaphore) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Waiting returns how many requests wait.
func (s *Semaphore) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// Acquire waits for n and returns a function that releases it, which may be called more than once. It returns the cause
// of ctx if that ends first, and an error that wraps ErrTooLarge if n is more than an owner may ever hold.
func (s *Semaphore) Acquire(ctx context.Context, of Owner, n int64) (release func(), err error) {
	s.mu.Lock()
	if most := s.most(of); n > most {
		s.mu.Unlock()
		return nil, fmt.Errorf("%w: %d of %d", ErrTooLarge, n, most)
	}
	ns, o := s.ownerLocked(of)
	if len(o.queue) == 0 && s.fitsLocked(of.Namespace, ns, o, 0, n) && !s.queuesLocked() {
		s.takeLocked(ns, o, n)
		s.mu.Unlock()
		return s.releaser(of, n), nil
	}
	s.arrivals++
	w := &waiter{n: n, arrival: s.arrivals, granted: make(chan struct{})}
	o.queue = append(o.queue, w)
	s.waiting++
	s.grantLocked()
	s.mu.Unlock()

	select {
	case <-w.granted:
		return s.releaser(of, n), nil
	case <-ctx.Done():
	}
	if s.abandon(of, w) {
		return nil, context.Cause(ctx)
	}
	s.release(of, n) // it was granted at the same moment
	return nil, context.Cause(ctx)
}

// tryGrow acquires n more for a lease that holds some already.
func (s *Semaphore) tryGrow(of Owner, held, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ns, o := s.ownerLocked(of)
	if len(o.queue) > 0 || !s.fitsLocked(of.Namespace, ns, o, held, n) || s.queuesLocked() {
		s.tidyLocked(of, ns, o)
		return false
	}
	s.takeLocked(ns, o, n)
	return true
}

func (s *Semaphore) most(of Owner) int64 {
	if of.Namespace == "" {
		return s.options.Alone
	}
	return min(s.options.Alone, s.options.PerNamespace)
}

func (s *Semaphore) ownerLocked(of Owner) (*namespace, *owner) {
	ns := s.namespaces[of.Namespace]
	if ns == nil {
		ns = &namespace{owners: map[string]*owner{}}
		s.namespaces[of.Namespace] = ns
	}
	o := ns.owners[of.Name]
	if o == nil {
		o = &owner{}
		ns.owners[of.Name] = o
	}
	return ns, o
}

// allowedLocked reports whether the bounds of the namespace and of the owner allow n more, besides what it is acquired
// for holds already.
func (s *Semaphore) allowedLocked(name string, ns *namespace, o *owner, held, n int64) bool {
	most := s.options.PerOwner
	if o.held == held {
		most = s.options.Alone
	}
	return o.held+n <= most && (name == "" || ns.held+n <= s.options.PerNamespace)
}

func (s *Semaphore) fitsLocked(name string, ns *namespace, o *owner, held, n int64) bool {
	return s.held+n <= s.options.Size && s.allowedLocked(name, ns, o, held, n)
}

// queuesLocked reports whether there are waiters for free capacity, rather than for a bound of their own.
func (s *Semaphore) queuesLocked() bool {
	if s.waiting == 0 {
		return false
	}
	_, _, next := s.nextLocked()
	return next != nil
}

func (s *Semaphore) takeLocked(ns *namespace, o *owner, n int64) {
	s.held += n
	ns.held += n
	o.held += n
}

// grantLocked grants the requests that can be granted.
func (s *Semaphore) grantLocked() {
	for s.waiting > 0 {
		ns, o, next := s.nextLocked()
		if next == nil || s.held+next.n > s.options.Size {
			return
		}
		o.queue = o.queue[1:]
		s.waiting--
		s.takeLocked(ns, o, next.n)
		close(next.granted)
	}
}

// nextLocked returns the next of the waiters that only the size may block.
func (s *Semaphore) nextLocked() (in *namespace, of *owner, next *waiter) {
	for name, ns := range s.namespaces {
		o, w := s.nextOfLocked(name, ns)
		if w == nil || next != nil && !before(ns.held, w, in.held, next) {
			continue
		}
		in, of, next = ns, o, w
	}
	return in, of, next
}

// nextOfLocked is nextLocked for one namespace.
func (s *Semaphore) nextOfLocked(name string, ns *namespace) (of *owner, next *waiter) {
	for _, o := range ns.owners {
		if len(o.queue) == 0 || !s.allowedLocked(name, ns, o, 0, o.queue[0].n) {
			continue
		}
		if next == nil || before(o.held, o.queue[0], of.held, next) {
			of, next = o, o.queue[0]
		}
	}
	return of, next
}

// before reports whether a comes before b: the one that holds less, and then the one that has waited longer.
func before(heldA int64, a *waiter, heldB int64, b *waiter) bool {
	if heldA != heldB {
		return heldA < heldB
	}
	return a.arrival < b.arrival
}

// abandon removes a waiter from its queue. It returns false if it is not there any longer.
func (s *Semaphore) abandon(of Owner, w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.granted:
		return false
	default:
	}
	ns, o := s.ownerLocked(of)
	for i := range o.queue {
		if o.queue[i] == w {
			o.queue = append(o.queue[:i:i], o.queue[i+1:]...)
			s.waiting--
			break
		}
	}
	s.tidyLocked(of, ns, o)
	s.grantLocked() // a large request may have kept others waiting
	return true
}

func (s *Semaphore) releaser(of Owner, n int64) func() {
	return sync.OnceFunc(func() { s.release(of, n) })
}

func (s *Semaphore) release(of Owner, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ns, o := s.ownerLocked(of)
	s.takeLocked(ns, o, -n)
	s.tidyLocked(of, ns, o)
	s.grantLocked()
}

// tidyLocked drops an owner that neither holds anything nor waits.
func (s *Semaphore) tidyLocked(of Owner, ns *namespace, o *owner) {
	if o.held == 0 && len(o.queue) == 0 {
		delete(ns.owners, of.Name)
	}
	if len(ns.owners) == 0 {
		delete(s.namespaces, of.Namespace)
	}
}
