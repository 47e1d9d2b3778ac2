package networkpolicy

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// writeRate, a second, and writeBurst bound how often policies of one target are written: another client in it may undo
// each write.
const writeRate, writeBurst = 50, 500

// A Service may have its policies written runBurst times at once, and then once in runPeriod: another client may undo
// each write.
const (
	runBurst  = 20
	runPeriod = 5 * time.Second
)

// maxSaid is how many faults of a target are remembered. Others are not reported.
const maxSaid = 1000

// memory is what is remembered of a target. All of it can be learned again.
type memory struct {
	writes *rate.Limiter

	mu sync.Mutex
	// missed says that a run was given up because a watch was not complete.
	missed bool
	// known says of each watch what a run can rely on, as of the last time that everything was reconciled.
	known map[*multicluster.Objects]knowledge
	// keys are the labels of clients that there were in a namespace when its Services were reconciled for them.
	keys map[string][]string
	// runs limit how often the policies of a Service are written.
	runs map[types.NamespacedName]*rate.Limiter
	// said are the faults of a Service that were reported, by reason.
	said map[subject]fingerprint
	// owned are the policies of each Service, as of a number of changes; pods are the labels of clients in each
	// namespace.
	owned  cached[map[types.NamespacedName][]types.NamespacedName]
	inPods cached[map[string]map[string]struct{}]

	presenceMu sync.Mutex // taken after mu
	presence   map[*multicluster.Objects]presence
}

type subject struct {
	service types.NamespacedName
	reason  string
}

// cached is something that was computed from all that a watch shows.
type cached[T any] struct {
	valid bool
	as    int64 // of which change
	value T
}

// get returns what compute returns, from memory if nothing has changed since. changes is counted up by each change
// before it is reconciled. compute says whether the result can be relied upon.
func (c *cached[T]) get(changes int64, compute func() (T, bool)) (T, bool) {
	if c.valid && c.as == changes {
		return c.value, true
	}
	value, certain := compute()
	*c = cached[T]{certain, changes, value}
	return value, certain
}

func newMemory() *memory {
	return &memory{
		writes: rate.NewLimiter(writeRate, writeBurst),
		keys:   map[string][]string{},
		runs:   map[types.NamespacedName]*rate.Limiter{},
		said:   map[subject]fingerprint{},

		presence: map[*multicluster.Objects]presence{},
	}
}

// say reports whether something about a Service is new. Nothing to say is forgotten.
func (m *memory) say(about subject, what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if what == "" {
		delete(m.said, about)
		return false
	}
	now := fingerprintOfText(what)
	before, said := m.said[about]
	if said && before == now || !said && len(m.said) >= maxSaid {
		return false
	}
	m.said[about] = now
	return true
}

// pause returns how long to wait before the policies of a Service are written; zero: that is counted, and not to wait.
func (m *memory) pause(service types.NamespacedName, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs[service] == nil {
		m.runs[service] = rate.NewLimiter(rate.Every(runPeriod), runBurst)
	}
	reservation := m.runs[service].ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// writable returns how many of some policies may be written now, and counts them.
func (m *memory) writable(wanted int, now time.Time) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := max(0, min(wanted, int(m.writes.TokensAt(now))))
	m.writes.AllowN(now, n)
	return n
}

// forget forgets a Service that is gone.
func (m *memory) forget(service types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, service)
	maps.DeleteFunc(m.said, func(about subject, _ fingerprint) bool { return about.service == service })
}

// changed notes which labels clients in a namespace have, and returns whether others had been noted.
func (m *memory) changed(namespace string, keys []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Equal(m.keys[namespace], keys) {
		return false
	}
	if len(keys) == 0 {
		delete(m.keys, namespace)
	} else {
		m.keys[namespace] = keys
	}
	return true
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

// missed has everything in a target reconciled by the next run that is about the target as a whole.
func (m *memories) missed(cluster clustercache.ClusterKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.all[cluster]; known != nil {
		known.mu.Lock()
		known.missed = true
		known.mu.Unlock()
	}
}

func (m *memories) forget(cluster clustercache.ClusterKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, cluster)
}

// absencePause is how long discovery has to report that a target does not have a kind any longer before that counts. An
// API server that has just started may not know custom resources yet, and all policies that follow from them would be
// deleted.
const absencePause = time.Minute

// presence is what is remembered of a kind that targets may do without.
type presence struct {
	there bool      // the target had it, and is not known not to have it any longer
	since time.Time // when discovery first reported that it is gone; zero if it does not
}

// seen notes that a target has a kind.
func (m *memory) seen(objects *multicluster.Objects) {
	m.presenceMu.Lock()
	defer m.presenceMu.Unlock()
	m.presence[objects] = presence{there: true}
}

// doubted notes that it is not known whether a target has a kind. The pause begins again when discovery reports that it
// has not.
func (m *memory) doubted(objects *multicluster.Objects) {
	m.presenceMu.Lock()
	defer m.presenceMu.Unlock()
	if is := m.presence[objects]; is.there {
		m.presence[objects] = presence{there: true}
	}
}

// absent notes that discovery reports that a target does not have a kind. It returns for how much longer that does not
// count.
func (m *memory) absent(objects *multicluster.Objects, now time.Time) time.Duration {
	m.presenceMu.Lock()
	defer m.presenceMu.Unlock()
	is := m.presence[objects]
	if is.there && is.since.IsZero() {
		is.since = now
	}
	if left := absencePause - now.Sub(is.since); is.there && left > 0 {
		m.presence[objects] = is
		return left
	}
	delete(m.presence, objects)
	return 0
}
