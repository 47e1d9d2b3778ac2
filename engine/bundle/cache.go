package bundle

import (
	"context"
	"crypto/sha256"
	"math"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/semaphore"
)

// Cache holds decoded bundles by the content of their Secrets, whatever their names and owners. Equal content is
// decoded once, even if several sessions need it at the same time, and no lock is held meanwhile. Of new content, only
// those documents are parsed that no cached content has. A Session uses it, within a budget over all sessions.
type Cache struct {
	limits   Limits
	maxBytes int64
	clock    clock.PassiveClock
	calls    singleflight.Group
	// slots bounds how many contents are decoded at once: more than there are CPUs would only take more memory.
	// decoding bounds the bytes of what is read and decoded, inUse those of what sessions use.
	slots, decoding, inUse *semaphore.Semaphore

	mutex    sync.Mutex
	used     map[Hash]*use // by sessions; each is in use by one at least
	contents *simplelru.LRU[Hash, *entry]
	pieces   map[[sha256.Size]byte]*piece // of the contents
	stats    CacheStats

	kept keptIndex

	duration prometheus.Histogram
	decoded  prometheus.Counter
	deferred prometheus.Counter
}

// entry is a content in the cache, and when it was used last.
type entry struct {
	*content
	used time.Time
	// own is its size without the pieces in shared, which other entries may have as well.
	own    int64
	shared []*piece
}

// maxDecoders is how many contents are decoded at once, however many CPUs there are.
const maxDecoders int64 = 4

// CacheStats are figures about a Cache.
type CacheStats struct {
	// Bytes and Bundles are what the cache holds now. Bytes are an estimate.
	Bytes   int64
	Bundles int
	// Hits and Misses count how often a content was found and how often it had to be decoded.
	Hits, Misses int64
	// KeptBytes is the memory of the Secret data that Keep holds, estimated.
	KeptBytes int64
	// Decoding is the memory reserved for Secrets that are read and decoded, InUse that of bundles in use by sessions,
	// Waiting how many sessions wait for either.
	Decoding, InUse int64
	Waiting         int
	// Displaced counts contents that were evicted in favour of others, Unused those that were not used for a while.
	Displaced, Unused int64
}

// NewCache returns an empty cache of about maxBytes for bundles decoded under the given limits. With maxBytes 0 it
// holds nothing, but still decodes equal content once at a time. The clock says when a content was used.
func NewCache(maxBytes int64, limits Limits, clock clock.PassiveClock) *Cache {
	limits = limits.withDefaults()
	slots := min(maxDecoders, int64(runtime.GOMAXPROCS(0)))
	c := &Cache{
		limits:   limits,
		maxBytes: maxBytes,
		clock:    clock,
		slots:    semaphore.New(semaphore.Options{Size: slots, PerNamespace: max(1, slots-1)}),
		decoding: semaphore.New(semaphore.Options{Size: limits.Decoding, PerNamespace: limits.Decoding / 5 * 4}),
		inUse: semaphore.New(semaphore.Options{
			Size: limits.InUse, PerNamespace: limits.InUsePerNamespace,
			PerOwner: limits.InUsePerTarget, Alone: limits.InUsePerNamespace,
		}),
		used:     map[Hash]*use{},
		duration: metricDecoding.Histogram(),
		decoded:  metricDecoded.Counter(),
		deferred: metricDeferred.Counter(),
		pieces:   map[[sha256.Size]byte]*piece{},
		kept:     keptIndex{entries: map[Hash]weak.Pointer[Kept]{}},
	}
	// The number of entries is no limit here; the only error is for a size below one.
	c.contents, _ = simplelru.NewLRU(math.MaxInt, func(_ Hash, evicted *entry) {
		c.stats.Bytes -= evicted.own
		for _, p := range evicted.shared {
			if p.uses--; p.uses == 0 {
				delete(c.pieces, p.digest)
				c.stats.Bytes -= p.size
			}
		}
	})
	return c
}

// decode decodes a content, or waits for another caller that does. Callers hold a slot. The error is that of ctx.
func (c *Cache) decode(ctx context.Context, hash Hash, sources []Source, lengths map[place]int64) (*content, error) {
	for {
		decoded, err, shared := c.calls.Do(string(hash[:]), func() (any, error) {
			return c.load(ctx, hash, sources, lengths)
		})
		found, _ := decoded.(*content)
		switch {
		case err == nil:
			return found, nil
		case ctx.Err() != nil || !shared:
			return nil, err
		}
		// The context of another caller has ended.
	}
}

// load decodes a content and adds it to the cache, unless another caller has done so meanwhile.
func (c *Cache) load(ctx context.Context, hash Hash, sources []Source, lengths map[place]int64) (*content, error) {
	if found := c.get(hash); found != nil {
		return found, nil
	}
	began := time.Now()
	decoded, err := decode(ctx, hash, sources, c.limits, c.piece, lengths)
	if err != nil {
		return nil, err
	}
	c.duration.Observe(time.Since(began).Seconds())
	c.decoded.Add(float64(decoded.size))
	c.add(decoded)
	return decoded, nil
}

// Stats returns the current figures.
func (c *Cache) Stats() CacheStats {
	kept := c.kept.size()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	stats := c.stats
	stats.KeptBytes = kept
	stats.Bundles = c.contents.Len()
	stats.Decoding, stats.InUse = c.decoding.Held(), c.inUse.Held()
	stats.Waiting = c.decoding.Waiting() + c.inUse.Waiting()
	return stats
}

// get returns a content that is cached or in use, or nil.
func (c *Cache) get(hash Hash) *content {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	found, ok := c.contents.Get(hash)
	if !ok {
		if u := c.used[hash]; u != nil {
			c.stats.Hits++
			return u.content
		}
		return nil
	}
	c.stats.Hits++
	found.used = c.clock.Now()
	return found.content
}

// piece returns the documents of a text by its digest, nil if they are not cached.
func (c *Cache) piece(digest [sha256.Size]byte) *piece {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.pieces[digest]
}

// share adds the pieces of a content to the cache. It returns them, and the size of the content without them. Of two
// pieces that were read from the same text at the same time, one is not shared.
func (c *Cache) share(decoded *content) (own int64, shared []*piece) {
	own = decoded.size
	for _, p := range decoded.pieces {
		for _, doc := range p.documents {
			own -= doc.memory + doc.length
		}
		switch c.pieces[p.digest] {
		case nil:
			c.pieces[p.digest] = p
			c.stats.Bytes += p.size
		case p:
		default:
			own += p.size
			continue
		}
		p.uses++
		shared = append(shared, p)
	}
	c.stats.Bytes += own
	return own, shared
}

// addedSize is the memory that a content would add to the cache: without the pieces that are in it already.
func (c *Cache) addedSize(decoded *content) int64 {
	all := decoded.size
	for _, p := range decoded.pieces {
		for _, doc := range p.documents {
			all -= doc.memory + doc.length
		}
		if c.pieces[p.digest] != p {
			all += p.size
		}
	}
	return all
}

// Forget evicts contents that were not used since a time. A bundle that is applied is not needed again until it or its
// objects change, which is rare in a fleet that is in order.
func (c *Cache) Forget(unused time.Time) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for {
		_, oldest, ok := c.contents.GetOldest()
		if !ok || !oldest.used.Before(unused) {
			return
		}
		c.contents.RemoveOldest()
		c.stats.Unused++
	}
}

// add adds a content to the cache and evicts the least recently used ones. A content that alone is larger than the
// cache is not added, so that it does not evict all others.
func (c *Cache) add(decoded *content) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.stats.Misses++
	if c.addedSize(decoded) > c.maxBytes {
		return
	}
	own, shared := c.share(decoded)
	c.contents.Add(decoded.hash, &entry{content: decoded, used: c.clock.Now(), own: own, shared: shared})
	for c.stats.Bytes > c.maxBytes {
		c.contents.RemoveOldest()
		c.stats.Displaced++
	}
}
