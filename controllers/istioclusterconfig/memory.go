package istioclusterconfig

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/trellis-hub/trellis/clustercache"
)

// writeRate, a second, and writeBurst bound how often EnvoyFilters of one target are written: another client in it may
// undo each write.
const writeRate, writeBurst = 20, 500

// A source may have its filters written sourceBurst times at once, and then once in sourcePeriod, for the same reason.
const (
	sourceBurst  = 20
	sourcePeriod = 5 * time.Second
)

// How much is remembered of a target. What was forgotten is reported, or may be written, once more.
const (
	maxSaid  = 500
	maxPaced = 1000
)

// memory is what is remembered of a target. All of it can be learned again.
type memory struct {
	writes *rate.Limiter
	// missed says that a run was given up, as if one was at the beginning.
	missed atomic.Bool
	// said is what was reported last, by subject; sources limit how often the filters of each source are written.
	said, sources *lru.Cache

	mu    sync.Mutex
	index *index
}

func newMemory() *memory {
	m := &memory{
		writes: rate.NewLimiter(writeRate, writeBurst), said: lru.New(maxSaid), sources: lru.New(maxPaced),
	}
	m.missed.Store(true)
	return m
}

// subject is what something is said about, and which reason that has. An object that takes the place of another one is
// another subject.
type subject struct {
	object types.UID
	reason string
}

// say reports whether something is new. Nothing to say is forgotten.
func (m *memory) say(about subject, what string) bool {
	if what == "" {
		m.said.Remove(about)
		return false
	}
	if before, said := m.said.Get(about); said && before == what {
		return false
	}
	m.said.Add(about, what)
	return true
}

// pause returns how long to wait before the filters of a source are written; zero: that is counted, and not to wait.
func (m *memory) pause(source string, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	limiter, _ := m.sources.Get(source)
	own, is := limiter.(*rate.Limiter)
	if !is {
		own = rate.NewLimiter(rate.Every(sourcePeriod), sourceBurst)
		m.sources.Add(source, own)
	}
	reservation := own.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// index is what watches show, by what it is looked for.
type index struct {
	as      int64                             // of which change
	rules   map[string][]namedRule            // by their namespace, sorted by name
	filters map[string][]types.NamespacedName // by their source
	ingress []string                          // namespaces with ingress gateways, sorted
}

type namedRule struct {
	name string
	*rule
}

// indexed returns the index, which is shared.
func (w *run) indexed() *index {
	changes := w.changes.Load()
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	if w.memory.index != nil && w.memory.index.as == changes {
		return w.memory.index
	}
	found := &index{as: changes, rules: map[string][]namedRule{}, filters: map[string][]types.NamespacedName{}}
	certain := w.Objects(w.rules).Range(func(key types.NamespacedName, value any) bool {
		if r, is := value.(*rule); is {
			found.rules[key.Namespace] = append(found.rules[key.Namespace], namedRule{key.Name, r})
		}
		return true
	})
	certain = w.Objects(w.filters).Range(func(key types.NamespacedName, _ any) bool {
		if source, is := sourceOf(key); is {
			found.filters[source] = append(found.filters[source], key)
		}
		return true
	}) && certain
	certain = w.Objects(w.namespaces).Range(func(key types.NamespacedName, value any) bool {
		if kept, is := value.(namespace); is && kept.ingress {
			found.ingress = append(found.ingress, key.Name)
		}
		return true
	}) && certain
	for _, rules := range found.rules {
		slices.SortFunc(rules, func(a, b namedRule) int { return strings.Compare(a.name, b.name) })
	}
	slices.Sort(found.ingress)
	if w.memory.index = nil; certain {
		w.memory.index = found
	}
	return found
}

// memories are those of all targets.
type memories struct {
	mu  sync.Mutex
	all map[clustercache.ClusterKey]*memory
}

// of returns that of a target in which the controller works.
func (m *memories) of(cluster clustercache.ClusterKey) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[cluster] == nil {
		m.all[cluster] = newMemory()
	}
	return m.all[cluster]
}

func (m *memories) forget(cluster clustercache.ClusterKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, cluster)
}
