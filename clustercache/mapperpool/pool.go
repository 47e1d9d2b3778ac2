package mapperpool

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// Options configures a Pool. The zero value is usable.
type Options struct {
	// Size is the number of distinct mappers kept. Default 64.
	Size int
	// MinRefresh is the least time between two refreshes that unknown kinds cause. Default 2s.
	MinRefresh time.Duration
	// Timeout bounds one refresh. Default 10s.
	Timeout time.Duration
	// Clock is replaced in tests.
	Clock clock.PassiveClock
}

// Pool holds the mappers of many targets, each distinct one once.
type Pool struct {
	options Options

	building singleflight.Group // of entries, by their digests

	mu      sync.Mutex                    // not held while an entry is built
	entries *lru.Cache[documents, *entry] // by their digests
	last    *entry                        // used last; offered to targets that have none yet
}

// documents are what something is of the two parts of discovery, /api and /apis.
type documents struct{ core, groups string }

// sharing returns tags that are equal to the digests of an entry as those, so that they are in memory once.
func (d documents) sharing(e *entry) documents {
	if d == e.digests {
		return e.digests
	}
	return d
}

// entry is a shared, immutable mapper.
type entry struct {
	digests documents
	mapper  meta.RESTMapper
	failed  map[schema.GroupVersion]error // versions that discovery failed to describe
	users   int                           // mappers that have it; guarded by the lock of the pool
}

// New returns an empty pool.
func New(options Options) *Pool {
	if options.Size <= 0 {
		options.Size = 64
	}
	if options.MinRefresh <= 0 {
		options.MinRefresh = 2 * time.Second
	}
	if options.Timeout <= 0 {
		options.Timeout = 10 * time.Second
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	entries, err := lru.New[documents, *entry](options.Size)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &Pool{options: options, entries: entries}
}

// Len returns the number of distinct mappers kept.
func (p *Pool) Len() int { return p.entries.Len() }

// get returns the entry of the documents with these digests, building it if there is none. Equal targets that connect
// together build one, and others do not wait for it.
func (p *Pool) get(digests documents, build func() (*entry, error)) (*entry, error) {
	built, err, _ := p.building.Do(digests.core+digests.groups, func() (any, error) {
		if known, ok := p.entries.Get(digests); ok {
			return known, nil
		}
		return build()
	})
	if err != nil {
		return nil, err
	}
	found, _ := built.(*entry)
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.entries.Get(digests); ok {
		found = known
	} else {
		if found.digests == (documents{}) { // else targets still have it, and only the pool had dropped it
			found.digests = digests
		}
		p.entries.Add(digests, found)
	}
	p.last = found
	return found, nil
}

// exchange notes that a mapper has another entry than before; nil is none. An entry that no mapper has any longer is
// dropped: otherwise a target whose discovery changes at each request would fill the pool.
func (p *Pool) exchange(before, now *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now != nil {
		now.users++
	}
	if before == nil {
		return
	}
	if before.users--; before.users > 0 {
		return
	}
	if kept, ok := p.entries.Peek(before.digests); ok && kept == before {
		p.entries.Remove(before.digests)
	}
}

// offer returns what a target may serve of which nothing is known, with the tags that it then gives if it makes them
// as a kube-apiserver does.
func (p *Pool) offer() discovered {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		return discovered{}
	}
	return discovered{p.last, p.last.digests}
}
