package targetcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/controllers/internal/targetfacts"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
	"github.com/trellis-hub/trellis/controllers/targetcluster/members"
	"github.com/trellis-hub/trellis/controllers/targetcluster/nodes"
)

// ControllerName is that of the controller in logs and metrics.
const ControllerName = "targetcluster"

// RunTimeout bounds the work on one target. All it does is a few calls to the source cluster.
const RunTimeout = 30 * time.Second

// Options configures a Controller.
type Options struct {
	// Client writes to the source cluster. Required.
	Client client.Client
	// Live reads from the API server of the source cluster. Required.
	Live client.Reader
	// Cache has the informer of TargetClusters, from which they are read. Required.
	Cache cache.Cache
	// Clusters has the connections to the targets. Required.
	Clusters clustercache.ClusterCache
	// Guard is the one whose Verify the connections are guarded by. Required.
	Guard *identity.Guard
	// Holders know for which of several registrations of a cluster controllers work. Nil: for all of them.
	Holders *identity.Holders
	// Events takes events about TargetClusters. Required.
	Events events.EventRecorder

	// Registrations selects registrations by the labels of their Secrets. Nil: all of them.
	Registrations labels.Selector
	// Members finds the ManagedResources of a target. Nil: there are none.
	Members *members.Index
	// Thresholds say for types of conditions how long their check has to fail until they turn False.
	Thresholds map[string]time.Duration
	// ProgressingLimit is how long a ManagedResource may be progressing until it counts as not healthy. Zero: for ever.
	ProgressingLimit time.Duration
	// Facts is what else the controller of ManagedResources knows of targets. Nil: nothing.
	Facts *targetfacts.Term

	// WatchedUntil is when the previous leader, or this one, gave its last sign of life before this term; zero if that
	// is not known. Nil: it never is.
	WatchedUntil func() time.Time
	// MonitorPeriod is after how long without a sign of work on a target its state counts as unknown. Default: 40s.
	MonitorPeriod time.Duration
	// TargetMonitorPeriod is after how much more time nothing that is known of it counts. Default: 200s.
	TargetMonitorPeriod time.Duration

	// ConcurrentSyncs is the number of workers. Default: 20.
	ConcurrentSyncs int
	// SyncPeriod is how often a target is reconciled although nothing happened, with jitter. Default: 30s.
	SyncPeriod time.Duration
	// Clock is replaced in tests. Default: the real one.
	Clock clock.PassiveClock
	// Metrics takes the figures of the controller that watches nodes. Nil: there are none.
	Metrics *multicluster.Metrics
	// Logger is where the controller logs. Default: nowhere.
	Logger logr.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Client == nil || o.Live == nil || o.Cache == nil || o.Clusters == nil || o.Guard == nil || o.Events == nil {
		return o, errors.New("targetcluster: a required option is missing")
	}
	if o.Registrations == nil {
		o.Registrations = labels.Everything()
	}
	if o.WatchedUntil == nil {
		o.WatchedUntil = func() time.Time { return time.Time{} }
	}
	if o.MonitorPeriod == 0 {
		o.MonitorPeriod = 40 * time.Second
	}
	if o.TargetMonitorPeriod == 0 {
		o.TargetMonitorPeriod = 200 * time.Second
	}
	if o.ConcurrentSyncs == 0 {
		o.ConcurrentSyncs = 20
	}
	if o.SyncPeriod == 0 {
		o.SyncPeriod = 30 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	return o, nil
}

// Controller works on TargetClusters for one term of leadership.
type Controller struct {
	inner      controller.TypedController[reconcile.Request]
	sources    *sources
	reconciler *reconciler
}

// New returns a controller that does nothing until it is started.
func New(options Options) (*Controller, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	r := newReconciler(options)
	inner, err := controller.NewTypedUnmanaged(ControllerName, controller.TypedOptions[reconcile.Request]{
		SkipNameValidation:      ptr.To(true), // each term has a controller of this name
		MaxConcurrentReconciles: options.ConcurrentSyncs,
		Reconciler:              r,
		ReconciliationTimeout:   RunTimeout,
		LogConstructor:          r.logFor,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot create controller %s: %w", ControllerName, err)
	}
	s := &sources{options: options, identities: r.identities, revisions: r.revisions, sweep: r.sweep}
	if err := inner.Watch(s); err != nil {
		return nil, fmt.Errorf("cannot watch for controller %s: %w", ControllerName, err)
	}
	r.nodes, err = nodes.New(multicluster.Environment{
		Clusters: options.Clusters, Events: options.Events, Metrics: options.Metrics, Clock: options.Clock,
		Logger: options.Logger,
	}, s.enqueue)
	if err != nil {
		return nil, fmt.Errorf("controller %s: %w", ControllerName, err)
	}
	return &Controller{inner: inner, sources: s, reconciler: r}, nil
}

// StuckSince returns since when some run should have ended, zero if none should have.
func (c *Controller) StuckSince(now time.Time) time.Time {
	if since := c.reconciler.stuckSince(); !since.IsZero() {
		return since
	}
	return c.reconciler.nodes.StuckSince(now)
}

// Start works until ctx ends, and returns when nothing is left of the controller. It can be called once.
func (c *Controller) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.reconciler.nodes.Start(ctx) })
	group.Go(func() error { return c.inner.Start(ctx) })
	err := group.Wait()
	c.sources.wait()
	return err //nolint:wrapcheck // it says which controller
}
