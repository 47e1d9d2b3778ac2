package mapperpool

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
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

	mu      sync.Mutex // guards building, so that equal targets that connect together build one mapper
	entries *lru.Cache[tags, *entry]
	last    *entry // used last; its tags are offered by targets that have none yet
}

// tags identify a discovery document: one tag for /api, one for /apis.
type tags struct{ core, groups string }

// entry is a shared, immutable mapper.
type entry struct {
	tags   tags
	mapper meta.RESTMapper
	failed map[schema.GroupVersion]error // versions that discovery could not tell about
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
	entries, err := lru.New[tags, *entry](options.Size)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &Pool{options: options, entries: entries}
}

// Len returns the number of distinct mappers kept.
func (p *Pool) Len() int { return p.entries.Len() }

// get returns the entry of the tags, building it from the document if there is none.
func (p *Pool) get(t tags, build func() *entry) *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.entries.Get(t)
	if !ok {
		found = build()
		found.tags = t
		p.entries.Add(t, found)
	}
	p.last = found
	return found
}

// offer returns the entry whose tags a target without an entry should try.
func (p *Pool) offer() *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
