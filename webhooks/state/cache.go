package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
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
	// maxKept is how many objects and lists are kept of a target, and maxObject how large an object may be to be kept, in
	// bytes. What is larger is read each time.
	maxKept, maxObject = 64, 16 << 10
	// maxTargets is how many targets something is kept of. The one that has not asked for longest is forgotten.
	maxTargets = 5000
)

// Clusters are the connections to targets.
type Clusters interface {
	GetUncachedClient(ctx context.Context, cluster clustercache.ClusterKey) (client.Client, error)
}

// Cache has the state of all targets. Make it with New.
type Cache struct {
	clusters Clusters
	clock    clock.PassiveClock

	mu      sync.Mutex
	targets *lru.Cache[clustercache.ClusterKey, *target]
}

// New returns a cache that has read nothing yet. Without a clock it is the real one.
func New(clusters Clusters, c clock.PassiveClock) *Cache {
	if c == nil {
		c = clock.RealClock{}
	}
	targets, err := lru.New[clustercache.ClusterKey, *target](maxTargets)
	if err != nil {
		panic(err) // it has a size
	}
	return &Cache{clusters: clusters, clock: c, targets: targets}
}

// Of returns the state of a target.
func (c *Cache) Of(key clustercache.ClusterKey) admission.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, has := c.targets.Get(key); has {
		return t
	}
	kept, err := lru.New[question, answer](maxKept)
	if err != nil {
		panic(err) // it has a size
	}
	t := &target{cache: c, key: key, kept: kept}
	c.targets.Add(key, t)
	return t
}

// Forget forgets what was read of a target: it may be another cluster from now on.
func (c *Cache) Forget(key clustercache.ClusterKey) { c.targets.Remove(key) }

// question is what is asked of a target.
type question struct {
	kind string
	name types.NamespacedName
}

// answer is what it said, and when.
type answer struct {
	value any
	at    time.Time
}

// target is the state of one.
type target struct {
	cache  *Cache
	key    clustercache.ClusterKey
	kept   *lru.Cache[question, answer]
	flying singleflight.Group
}

// reader reads something from a target, and cuts it down to what is kept.
type reader func(ctx context.Context, c client.Client) (any, error)

// ask returns what a target says, or has said a moment ago. With old, it is what it has said last if it cannot be
// asked: stale tells that.
func (t *target) ask(ctx context.Context, q question, old bool, read reader) (value any, stale bool, err error) {
	now := t.cache.clock.Now()
	known, has := t.kept.Get(q)
	if has && now.Sub(known.at) < fresh {
		return known.value, false, nil
	}
	// The call goes on for others if this caller gives up.
	flight := t.flying.DoChan(q.kind+" "+q.name.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
		defer cancel()
		c, err := t.cache.clusters.GetUncachedClient(ctx, t.key)
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller does
		}
		value, err := read(ctx, c)
		if err != nil {
			return nil, err
		}
		if object, is := value.(interface{ Size() int }); !is || object.Size() <= maxObject {
			t.kept.Add(q, answer{value, now})
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
		t.kept.Remove(q)
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
