package bundle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trellis-hub/trellis/semaphore"
)

const (
	// secretReserve is the memory for reading one Secret of the largest size, as it is sent and as it is decoded,
	// beside ordinarySecrets for other Secrets: most bundles need no more until they are decoded.
	secretReserve   = 4 << 20
	ordinarySecrets = 1 << 20
)

// decodingTimeout bounds how long a session waits for memory to decode, which other sessions release soon. Memory for
// bundles in use is not waited for, since it is released only when targets have answered: such a run is tried again
// later.
const decodingTimeout = 2 * time.Second

// Need is how much memory a session reserves at its beginning, in bytes. The zero Need is for a bundle of unknown size.
type Need struct {
	// Decoding is for what is read and decoded, InUse for what is in use afterwards, until the session is closed.
	Decoding, InUse int64
}

// BusyError says that there is no memory for a bundle at the moment, and how much it needs. The session has released
// everything.
type BusyError struct{ Need Need }

func (e *BusyError) Error() string { return "no room for one more decoded bundle at the moment" }

// Session is one use of a bundle: its Secrets are read, decoded, and then in use until it is closed. The memory for
// that is reserved in the budget of the cache. If there is not enough memory, the session releases all it has and fails
// with a BusyError; the next session should begin with the Need in it. It waits only at its beginning. It is not safe
// for concurrent use.
type Session struct {
	cache *Cache
	// decoding is the memory for reading and decoding, own what this session alone has in use. shared is the content,
	// nil if it is too small to count.
	decoding, own *semaphore.Lease
	shared        *use
	// parallel is how many objects are sent at the same time.
	parallel int

	sources []Source
	raw     int64 // bytes that they hold
}

// Begin begins a session for an owner that sends the given number of objects at the same time. It waits for memory for
// a limited time.
func (c *Cache) Begin(ctx context.Context, of semaphore.Owner, parallel int, need Need) (*Session, error) {
	s := &Session{cache: c, decoding: c.decoding.Lease(of), own: c.inUse.Lease(of), parallel: parallel}
	need.Decoding = max(need.Decoding, secretReserve)
	waiting, cancel := context.WithTimeout(ctx, decodingTimeout)
	err := s.decoding.Acquire(waiting, min(need.Decoding, s.decoding.Most()))
	cancel()
	switch {
	case ctx.Err() != nil:
		s.release()
		return nil, fmt.Errorf("waiting for room for a bundle: %w", context.Cause(ctx))
	case err != nil || !s.grow(s.own, need.InUse):
		return nil, s.busy(need)
	}
	return s, nil
}

// busy ends a session that has nothing in use yet because there is not enough memory.
func (s *Session) busy(need Need) error {
	s.release()
	s.cache.deferred.Inc()
	return &BusyError{Need: need}
}

// release releases what only this session has.
func (s *Session) release() {
	s.sources, s.raw = nil, 0
	s.decoding.Release()
	s.own.Release()
}

// Add adds a Secret that was read, and reserves memory for the next one. Its Data must not be changed any longer. The
// error is a BusyError, or wraps ErrTooManyBytes.
func (s *Session) Add(source Source) error {
	for key, value := range source.Data {
		s.raw += int64(len(key) + len(value))
	}
	if s.raw > s.cache.limits.Bytes {
		return fmt.Errorf("%w: its Secrets hold more than %d MiB", ErrTooManyBytes, s.cache.limits.Bytes>>20)
	}
	if !s.grow(s.decoding, s.raw+secretReserve-ordinarySecrets) {
		// The next attempt requests memory for as much again, so that a long list does not start over repeatedly.
		return s.busy(Need{Decoding: 2*s.raw + secretReserve, InUse: s.own.Held()})
	}
	s.sources = append(s.sources, source)
	return nil
}

// grow makes a lease hold at least n, or all that its owner may hold if that is less.
func (s *Session) grow(lease *semaphore.Lease, n int64) bool {
	return lease.TryGrow(min(n, lease.Most()))
}

// Decode returns the bundle of the Secrets that were added, which is in use until the session is closed. The session
// then drops the Data of the Secrets; with keep, it is returned as by Keep. The error is a BusyError or that of ctx.
func (s *Session) Decode(ctx context.Context, keep bool) (*Bundle, *Kept, error) {
	b, err := s.open(ctx, hashOf(s.sources), s.sources)
	if err != nil {
		return nil, nil, err
	}
	var kept *Kept
	if keep {
		kept = s.cache.Keep(s.sources, b)
	}
	s.sources, s.raw = nil, 0
	return b, kept, nil
}

// Open is Decode of what was kept. There must be as many sources as then; their Data is not used.
func (s *Session) Open(ctx context.Context, kept *Kept, sources []Source) (*Bundle, error) {
	return s.open(ctx, kept.hash, kept.fill(sources))
}

func (s *Session) open(ctx context.Context, hash Hash, sources []Source) (*Bundle, error) {
	found := s.cache.get(hash)
	if found == nil {
		// The slot is acquired before waiting for another session that decodes the same content: that session could be
		// behind the whole queue of its owner.
		release, err := s.cache.slots.Acquire(ctx, s.own.Owner(), 1)
		if err != nil {
			return nil, fmt.Errorf("decoding a bundle: %w", err)
		}
		defer release()
		found = s.cache.get(hash)
	}
	if found == nil {
		before, err := estimateOf(ctx, sources, s.cache.limits)
		if err != nil {
			return nil, fmt.Errorf("decoding a bundle: %w", err)
		}
		if need := s.raw + before.bytes; !s.grow(s.decoding, need) {
			return nil, s.busy(Need{Decoding: need, InUse: s.own.Held()})
		}
		if found, err = s.cache.decode(ctx, hash, sources, before.lengths); err != nil {
			return nil, fmt.Errorf("decoding a bundle: %w", err)
		}
	}
	found, err := s.use(found)
	if err != nil {
		return nil, err
	}
	s.decoding.Release()
	return found.bundle(sources), nil
}

// use marks a content as used by this session, or an equal one that others use already.
func (s *Session) use(found *content) (*content, error) {
	sent := found.sent(s.parallel)
	if found.size+sent <= freeBytes {
		s.own.Release()
		return found, nil
	}
	s.cache.mutex.Lock()
	defer s.cache.mutex.Unlock()
	used := s.cache.used[found.hash]
	all := sent
	if used == nil {
		all += found.size
	}
	if !s.grow(s.own, all) {
		return nil, s.busy(Need{Decoding: s.raw + secretReserve, InUse: all}) // it is probably cached then
	}
	s.own.Shrink(all)
	if used == nil {
		used = &use{content: found, lease: s.own.Split(found.size), holders: map[semaphore.Owner]int{}}
		s.cache.used[found.hash] = used
	}
	used.holders[s.own.Owner()]++
	s.shared = used
	return used.content, nil
}

// Close ends the use of the bundle. It may be called more than once.
func (s *Session) Close() {
	s.release()
	if s.shared != nil {
		s.cache.unuse(s.shared, s.own.Owner())
		s.shared = nil
	}
}

// use is a content that sessions use. It counts once, for the owner of one of them.
type use struct {
	content *content
	lease   *semaphore.Lease
	holders map[semaphore.Owner]int
}

// unuse ends the use of a content by one session of an owner.
func (c *Cache) unuse(u *use, by semaphore.Owner) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if u.holders[by]--; u.holders[by] > 0 {
		return
	}
	delete(u.holders, by)
	if len(u.holders) == 0 {
		u.lease.Release()
		delete(c.used, u.content.hash)
		return
	}
	if by == u.lease.Owner() { // no owner is charged for what only others use
		for next := range u.holders {
			u.lease.Move(next)
			break
		}
	}
}

// sent is an upper bound of the memory for sending a number of objects at the same time: those with the longest JSON.
func (c *content) sent(parallel int) (bytes int64) {
	if len(c.objects) > parallel {
		lengths := make([]int64, 0, len(c.objects))
		for _, o := range c.objects {
			lengths = append(lengths, o.length)
		}
		slices.Sort(lengths)
		for _, length := range lengths[len(lengths)-parallel:] {
			bytes += length
		}
		return bytes
	}
	for _, o := range c.objects {
		bytes += o.length
	}
	return bytes
}

// IsBusy returns what a bundle needs if an error says that there was not enough memory for it.
func IsBusy(err error) (need Need, busy bool) {
	if e := (*BusyError)(nil); errors.As(err, &e) {
		return e.Need, true
	}
	return Need{}, false
}
