package garbagecollector

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// Name is that of the controller in logs and metrics.
const Name = "garbage-collector"

// DefaultMinimumLifetime is the age below which objects are left alone if Options do not say otherwise.
const DefaultMinimumLifetime = 10 * time.Minute

const (
	// A pass may last as long as its period, within these bounds. No configuration has a shorter period.
	shortestDeadline, longestDeadline = 15 * time.Second, 10 * time.Minute
	// workers is how many targets have a pass at a time. A pass mostly waits for its target.
	workers = 10

	defaultPageSize      = 500
	defaultMaxCandidates = 50_000
)

// Settings are those of one target.
type Settings struct {
	// SyncPeriod is the time between two passes.
	SyncPeriod time.Duration
}

// SettingsOf are those of a target whose garbage is collected as own says. Nil: it is not.
func SettingsOf(own *hubv1alpha1.GarbageCollectorController) (settings Settings, on bool) {
	if own == nil {
		return Settings{}, false
	}
	return Settings{SyncPeriod: own.SyncPeriod.Duration}, true
}

// Options of the controller. Settings is required.
type Options struct {
	// Settings returns those of a target, and false if nothing is collected there. It answers from memory.
	Settings func(clustercache.Status) (Settings, bool)
	// Follow reports targets whose settings change. Nil: none do.
	Follow multicluster.FollowFunc
	// MinimumLifetime is the age below which objects are left alone. Nil: 10 minutes.
	MinimumLifetime *time.Duration
	// Clock is what the age of objects is calculated with. Default: the real one.
	Clock clock.PassiveClock
	// Metrics takes figures. Nil: they are not recorded.
	Metrics *Metrics

	// pageSize is how many objects are listed at a time. Default 500.
	pageSize int64
	// maxCandidates is how many objects one pass looks at. Default 50000.
	maxCandidates int
}

// New returns the controller. The environment has to have the fields that multicluster requires.
func New(environment multicluster.Environment, options Options) (*multicluster.Controller, error) {
	if options.Settings == nil {
		return nil, fmt.Errorf("controller %s: it needs settings", Name)
	}
	c := newCollector(options)
	builder := multicluster.New(Name, environment).
		EveryFor(func(status clustercache.Status) time.Duration {
			settings, _ := options.Settings(status)
			return settings.SyncPeriod
		}).
		EnabledFor(func(status clustercache.Status) bool {
			_, enabled := options.Settings(status)
			return enabled
		}).
		Workers(workers, 1).
		Timeout(longestDeadline)
	if options.Follow != nil {
		builder.FollowsSettings(options.Follow)
	}
	return builder.Complete(c) //nolint:wrapcheck // it names the controller
}

// collector is the Reconciler.
type collector struct {
	Options
	lifetime time.Duration

	mu      sync.Mutex
	targets map[clustercache.ClusterKey]*memory
}

// memory is what is known of a target from earlier passes. Only its passes use it, of which there is one at a time.
type memory struct {
	// managedResources is whether the target once served them.
	managedResources bool
	// after is where the last pass ended that could not look at everything, by kind: a namespace, a slash and a name.
	after map[string]string
}

func newCollector(options Options) *collector {
	c := &collector{Options: options, lifetime: DefaultMinimumLifetime, targets: map[clustercache.ClusterKey]*memory{}}
	if options.MinimumLifetime != nil {
		c.lifetime = *options.MinimumLifetime
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.pageSize == 0 {
		c.pageSize = defaultPageSize
	}
	if c.maxCandidates == 0 {
		c.maxCandidates = defaultMaxCandidates
	}
	return c
}

// Reconcile implements multicluster.Reconciler. The kit repeats it after the target's period.
func (c *collector) Reconcile(
	ctx context.Context, target *multicluster.Target, _ types.NamespacedName,
) (reconcile.Result, error) {
	settings, enabled := c.Settings(target.Status)
	if !enabled {
		return reconcile.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(max(settings.SyncPeriod, shortestDeadline), longestDeadline))
	defer cancel()
	p := &pass{collector: c, target: target, memory: c.memoryOf(target.Key()), candidates: candidates{}}
	if err := p.run(ctx); err != nil {
		return reconcile.Result{}, fmt.Errorf("collecting garbage: %w", err)
	}
	return reconcile.Result{RequeueAfter: settings.SyncPeriod}, nil
}

// Engage implements multicluster.Engager.
func (c *collector) Engage(status clustercache.Status) {
	settings, _ := c.Settings(status)
	c.Metrics.engage(status.Cluster, settings.SyncPeriod, c.Clock)
}

// Forget implements multicluster.Forgetter.
func (c *collector) Forget(key clustercache.ClusterKey) {
	c.Metrics.forget(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.targets, key)
}

func (c *collector) memoryOf(key clustercache.ClusterKey) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.targets[key]
	if m == nil {
		m = &memory{after: map[string]string{}}
		c.targets[key] = m
	}
	return m
}
