package targetcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
	"github.com/trellis-hub/trellis/controllers/targetcluster/members"
	"github.com/trellis-hub/trellis/controllers/targetcluster/nodes"
)

// ControllerName is that of the controller in logs and metrics.
const ControllerName = "targetcluster"

// RunTimeout bounds the work on one target. All it does is a few calls to the source cluster.
const RunTimeout = 30 * time.Second

// Report is what the controller of ManagedResources knows of a target.
type Report struct {
	// DriftLastHour is the number of corrections in the last hour.
	DriftLastHour int64
	// DryRun is what would be written. Nil: the classes of the target are no dry runs.
	DryRun *hubv1alpha1.DryRunReport
}

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
	// Events takes events about TargetClusters. Required.
	Events events.EventRecorder

	// Members finds the ManagedResources of a target. Nil: there are none.
	Members *members.Index
	// Thresholds say for types of conditions how long their check has to fail until they turn False.
	Thresholds map[string]time.Duration
	// ProgressingLimit is how long a ManagedResource may be progressing until it counts as not healthy. Zero: for ever.
	ProgressingLimit time.Duration
	// Reports returns what else the controller of ManagedResources knows of a target; false if it knows nothing yet. It must
	// answer from memory. Nil: nothing is ever known.
	Reports func(clustercache.ClusterKey) (Report, bool)
	// InUse tells whether a ManagedResource still has its inventory in a target. It must answer from memory. Nil: none has.
	InUse func(clustercache.ClusterKey) bool
	// ManagedElsewhere tells whether another manager is at work in a namespace, and which. It must answer from memory. Nil:
	// none ever is.
	ManagedElsewhere func(namespace string) (manager string, elsewhere bool)

	// WatchedUntil is when the previous leader, or this one, gave its last sign of life before this term; zero if nobody
	// knows. Nil: nobody ever does.
	WatchedUntil func() time.Time
	// MonitorPeriod is after how long without a sign of work on a target its state counts as unknown. Default: 40s.
	MonitorPeriod time.Duration
	// TargetMonitorPeriod is after how much more time nothing that is known of it counts. Default: 200s.
	TargetMonitorPeriod time.Duration

	// ConcurrentSyncs is the number of workers. Default: 20.
	ConcurrentSyncs int
	// SyncPeriod is how often a target is looked at although nothing happened, with jitter. Default: 30s.
	SyncPeriod time.Duration
	// Clock is replaced in tests. Default: the real one.
	Clock clock.PassiveClock
	// Logger is where the controller logs. Default: nowhere.
	Logger logr.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Client == nil || o.Live == nil || o.Cache == nil || o.Clusters == nil || o.Guard == nil || o.Events == nil {
		return o, errors.New("targetcluster: a required option is missing")
	}
	if o.Reports == nil {
		o.Reports = func(clustercache.ClusterKey) (Report, bool) { return Report{}, false }
	}
	if o.InUse == nil {
		o.InUse = func(clustercache.ClusterKey) bool { return false }
	}
	if o.ManagedElsewhere == nil {
		o.ManagedElsewhere = func(string) (string, bool) { return "", false }
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
	s := &sources{options: options, identities: r.identities, news: r.news, sweep: r.sweep}
	r.nodes = nodes.New(options.Clusters, s.enqueue)
	if err := inner.Watch(s); err != nil {
		return nil, fmt.Errorf("cannot watch for controller %s: %w", ControllerName, err)
	}
	return &Controller{inner: inner, sources: s, reconciler: r}, nil
}

// OldestRun returns when the work began that has been under way for the longest time, zero if there is none. More than
// RunTimeout ago, it is stuck.
func (c *Controller) OldestRun() time.Time {
	c.reconciler.mu.Lock()
	defer c.reconciler.mu.Unlock()
	var oldest time.Time
	for run := range c.reconciler.runs {
		if oldest.IsZero() || run.began.Before(oldest) {
			oldest = run.began
		}
	}
	return oldest
}

// Start works until ctx ends, and returns when nothing is left of the controller. It can be called once.
func (c *Controller) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.reconciler.nodes.Close()
	defer c.sources.wait()
	defer cancel()
	return c.inner.Start(ctx)
}
