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
	// secretRoom is the memory for reading one Secret of the largest size, as it is sent and as it is decoded, beside
	// ordinaryRaw of other Secrets: most bundles need no more room until they are decoded.
	secretRoom  = 4 << 20
	ordinaryRaw = 1 << 20
)

// decodingPatience is how long a session waits for room to decode at most, which ends soon. Bundles are in use for as
// long as targets take, so a run that needs room for one is better tried again later.
const decodingPatience = 2 * time.Second

// Need is how much room a session requests at its beginning, in bytes. The zero Need is for a bundle of unknown size.
type Need struct {
	// Decoding is for what is read and decoded, InUse for what is in use afterwards, until the session is closed.
	Decoding, InUse int64
}

// BusyError says that there is no room for a bundle at the moment, and how much it needs. The session holds
// nothing then.
type BusyError struct{ Need Need }

func (e *BusyError) Error() string { return "no room for one more decoded bundle at the moment" }

// Session is one use of a bundle: its Secrets are read, decoded, and then in use until it is closed. The memory for
// that is reserved in the budget of the cache; where there is no room, the session releases all it has and fails with a
// BusyError, and the next one should begin with the Need of that. It waits only at its beginning. It is not safe for
// concurrent use.
type Session struct {
	cache *Cache
	// decoding is what reading and decoding takes, own what this session alone has in use. shared is the content, nil
	// if it is too small to count.
	decoding, own *semaphore.Lease
	shared        *use
	// parallel is how many objects are sent at the same time.
	parallel int

	sources []Source
	raw     int64 // bytes that they hold
}

// Begin begins a session for an owner that sends the given number of objects at the same time. It waits for the room
// that is needed, for a limited time.
func (c *Cache) Begin(ctx context.Context, of semaphore.Owner, parallel int, need Need) (*Session, error) {
	s := &Session{cache: c, decoding: c.decoding.Lease(of), own: c.inUse.Lease(of), parallel: parallel}
	need.Decoding = max(need.Decoding, secretRoom)
	waiting, cancel := context.WithTimeout(ctx, decodingPatience)
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

// busy ends a session that has nothing in use yet because there is no room.
func (s *Session) busy(need Need) error {
	s.release()
	s.cache.deferred.Inc()
	return &BusyError{Need: need}
}

// release gives back what only this session has.
func (s *Session) release() {
	s.sources, s.raw = nil, 0
	s.decoding.Release()
	s.own.Release()
}

// Add takes one more Secret that was read. Its Data must not be changed any more. There is room for the next one then.
// The error is a BusyError, or wraps ErrTooManyBytes.
func (s *Session) Add(source Source) error {
	for key, value := range source.Data {
		s.raw += int64(len(key) + len(value))
	}
	if s.raw > s.cache.limits.Bytes {
		return fmt.Errorf("%w: its Secrets hold more than %d MiB", ErrTooManyBytes, s.cache.limits.Bytes>>20)
	}
	if !s.grow(s.decoding, s.raw+secretRoom-ordinaryRaw) {
		// The next attempt requests room for as much again, so that a long list does not start over repeatedly.
		return s.busy(Need{Decoding: 2*s.raw + secretRoom, InUse: s.own.Held()})
	}
	s.sources = append(s.sources, source)
	return nil
}

// grow has a lease hold at least n, or all that its owner may hold if that is less.
func (s *Session) grow(lease *semaphore.Lease, n int64) bool {
	return lease.TryGrow(min(n, lease.Most()))
}

// Decode returns the bundle of the Secrets that were added, which is in use until the session is closed. The Data of
// the Secrets is not held any more. With keep, what they hold is kept as by Keep. The error is a BusyError or that of
// ctx.
func (s *Session) Decode(ctx context.Context, keep bool) (*Bundle, *Kept, error) {
	b, err := s.open(ctx, HashOf(s.sources), s.sources)
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

// Open is Decode of what was kept. Of the sources, which must be as many as then, the Data is not looked at.
func (s *Session) Open(ctx context.Context, kept *Kept, sources []Source) (*Bundle, error) {
	return s.open(ctx, kept.hash, kept.fill(sources))
}

func (s *Session) open(ctx context.Context, hash Hash, sources []Source) (*Bundle, error) {
	found := s.cache.get(hash)
	if found == nil {
		// The slot is acquired before anybody else's decoding of the same content is waited for: one of another owner
		// could be behind the whole queue of that owner.
		release, err := s.cache.slots.Acquire(ctx, s.own.Owner(), 1)
		if err != nil {
			return nil, fmt.Errorf("decoding a bundle: %w", err)
		}
		defer release()
		found = s.cache.get(hash)
	}
	if found == nil {
		before, err := forecastOf(ctx, sources, s.cache.limits)
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
	if found.size+sent <= FreeBytes {
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
		return nil, s.busy(Need{Decoding: s.raw + secretRoom, InUse: all}) // it is probably remembered then
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
	if by == u.lease.Owner() { // an owner is not charged for others
		for next := range u.holders {
			u.lease.Move(next)
			break
		}
	}
}

// sent is the memory for sending a number of objects of a content at the same time, at most: those with the
// longest JSON.
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

// IsBusy returns what a bundle needs if an error says that there was no room for it.
func IsBusy(err error) (need Need, busy bool) {
	if e := (*BusyError)(nil); errors.As(err, &e) {
		return e.Need, true
	}
	return Need{}, false
}
