package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

const (
	// callTime bounds a call of a target.
	callTime = time.Second
	// fresh is for how long something is used that was read.
	fresh = 5 * time.Second
	// lastKnown is for how long something may be used that cannot be read again.
	lastKnown = 10 * time.Minute
	// maxKept is how many objects and lists are kept of a target, and maxObject how large an object may be to be kept,
	// in bytes. What is larger is read each time.
	maxKept, maxObject = 64, 16 << 10
	// maxTarget bounds what is kept of a target, in bytes: what was not asked for longest is forgotten. A list that is
	// larger is read each time.
	maxTarget = 4 << 20
	// maxTargets is how many targets something is kept of, and maxBytes how much of all of them, in bytes. The target
	// that has not asked for longest is forgotten.
	maxTargets, maxBytes = 5000, 256 << 20
	// overhead is what an object takes in memory beside its content, in bytes.
	overhead = 1 << 10
)

// Clusters are the connections to targets.
type Clusters interface {
	GetUncachedClient(ctx context.Context, cluster clustercache.ClusterKey) (client.Client, error)
}

// Cache has the state of all targets. Make it with New.
type Cache struct {
	clusters Clusters
	clock    clock.PassiveClock

	mu sync.Mutex
	// targets are ordered by when they asked.
	targets *simplelru.LRU[clustercache.ClusterKey, *target]
	// bytes are those of all targets, and most how many they may be.
	bytes, most int
}

// New returns a cache that has read nothing yet. Without a clock it is the real one.
func New(clusters Clusters, c clock.PassiveClock) *Cache {
	if c == nil {
		c = clock.RealClock{}
	}
	cache := &Cache{clusters: clusters, clock: c, most: maxBytes}
	targets, err := simplelru.NewLRU(maxTargets, func(_ clustercache.ClusterKey, t *target) {
		t.kept.Purge()
		t.forgotten = true
	})
	if err != nil {
		panic(err) // it has a size
	}
	cache.targets = targets
	return cache
}

// Of returns the state of a target, which is the cluster with a UID. What was read of another cluster that was
// registered under the same name is forgotten.
func (c *Cache) Of(key clustercache.ClusterKey, uid types.UID) admission.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, has := c.targets.Get(key); has && t.uid == uid {
		return t
	}
	c.targets.Remove(key)
	t := &target{cache: c, key: key, uid: uid}
	kept, err := simplelru.NewLRU(maxKept, func(_ question, a answer) {
		t.bytes -= a.size
		c.bytes -= a.size
	})
	if err != nil {
		panic(err) // it has a size
	}
	t.kept = kept
	c.targets.Add(key, t)
	return t
}

// question is what is asked of a target.
type question struct {
	kind string
	name types.NamespacedName
}

// answer is what it said, and when. Its size is in bytes.
type answer struct {
	value any
	size  int
	at    time.Time
}

// target is the state of one.
type target struct {
	cache  *Cache
	key    clustercache.ClusterKey
	uid    types.UID
	flying singleflight.Group

	// The mutex of the cache guards what follows. Nothing is kept of a target that is forgotten.
	kept      *simplelru.LRU[question, answer]
	bytes     int
	forgotten bool
}

// known returns what is kept.
func (t *target) known(q question) (answer, bool) {
	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()
	return t.kept.Get(q)
}

// forget removes what is kept.
func (t *target) forget(q question) {
	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()
	t.kept.Remove(q)
}

// keep keeps an answer, in the place of what it, or others, said longest ago.
func (t *target) keep(q question, a answer) {
	c := t.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	t.kept.Remove(q)
	if t.forgotten || a.size > min(maxTarget, c.most) {
		return
	}
	t.kept.Add(q, a)
	t.bytes += a.size
	c.bytes += a.size
	for t.bytes > maxTarget {
		t.kept.RemoveOldest()
	}
	c.targets.Get(t.key) // so it is the last one to be forgotten
	for c.bytes > c.most {
		c.targets.RemoveOldest()
	}
}

// reader reads something from a target, and cuts it down to what is kept. A negative size is that of something that is
// not to be kept.
type reader func(ctx context.Context, c client.Client) (value any, size int, err error)

// ask returns the state that a target answers, or answered a moment ago. With old, it is the last answer if the target
// cannot be asked now; stale is true then.
func (t *target) ask(ctx context.Context, q question, old bool, read reader) (value any, stale bool, err error) {
	now := t.cache.clock.Now()
	known, has := t.known(q)
	if has && now.Sub(known.at) < fresh {
		return known.value, false, nil
	}
	// The call continues for others if this caller gives up.
	flight := t.flying.DoChan(q.kind+" "+q.name.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
		defer cancel()
		c, err := t.cache.clusters.GetUncachedClient(ctx, t.key)
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller does
		}
		value, size, err := read(ctx, c)
		if err != nil {
			return nil, err
		}
		if size < 0 {
			t.forget(q)
		} else {
			t.keep(q, answer{value, size, now})
		}
		return value, nil
	})
	select {
	case result := <-flight:
		value, err = result.Val, result.Err
	case <-ctx.Done():
		err = ctx.Err()
	}
	switch {
	case err == nil:
		return value, false, nil
	case apierrors.IsNotFound(err):
		t.forget(q)
		return nil, false, fmt.Errorf("reading %s: %w", q.text(), err)
	case old && has && now.Sub(known.at) < lastKnown:
		return known.value, true, nil
	default:
		return nil, false, fmt.Errorf("reading %s: %w", q.text(), errors.Join(admission.ErrUnknown, err))
	}
}

func (q question) text() string {
	switch {
	case q.name.Name == "" && q.name.Namespace == "":
		return q.kind
	case q.name.Name == "":
		return q.kind + " of " + q.name.Namespace
	case q.name.Namespace == "":
		return q.kind + " " + q.name.Name
	default:
		return q.kind + " " + q.name.String()
	}
}
