package stalepods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// Name is that of the controller, for logs and metrics.
const Name = "stale-pods"

const (
	// workers is how many targets have a pass at a time. Runs wait for targets most of the time; with fewer workers, some
	// targets that hang would occupy them all.
	workers = 32
	// runTimeout bounds a pass.
	runTimeout = 2 * time.Minute

	defaultPageSize   = 250
	defaultMaxPods    = 20_000
	defaultMaxDeletes = 200
)

// Reason and action of the event on a TargetCluster.
const (
	reasonFailed = "StalePodsFailed"
	action       = "DeleteStalePods"
)

// Settings are those of one target.
type Settings struct {
	// SyncPeriod is the time between two passes.
	SyncPeriod time.Duration
	// Namespaces of the target are those whose pods are looked at.
	Namespaces []string
	// HomeNamespace has those of the target's home namespace in the source looked at, too.
	HomeNamespace bool
}

// home is the namespace of the source that is looked at; empty if none is. The source as a target has none.
func (s Settings) home(target clustercache.ClusterKey) string {
	if !s.HomeNamespace {
		return ""
	}
	return target.Namespace
}

// Options say what the controller is made of.
type Options struct {
	// Environment is that of all controllers in targets. Its Source is not needed.
	Environment multicluster.Environment
	// Source calls the API server of the source. Nil: home namespaces are not looked at.
	Source client.Client
	// Settings returns those of a target, from memory; false: the controller is switched off there. Required.
	Settings func(clustercache.Status) (Settings, bool)
	// Follow reports targets whose settings have changed. Nil: they do not change.
	Follow multicluster.FollowFunc
	// Metrics counts what was deleted. Nil: it is not counted.
	Metrics *Metrics

	// pageSize is how many pods are listed at a time, maxPods how many of a namespace are looked at, and maxDeletes how
	// many deletions a pass tries in a cluster. Defaults: 250, 20000 and 200.
	pageSize            int64
	maxPods, maxDeletes int
}

// New returns a controller that does nothing until it is started.
func New(options Options) (*multicluster.Controller, error) {
	if options.Settings == nil {
		return nil, fmt.Errorf("controller %s: %w", Name, errors.New("a required option is missing"))
	}
	builder := multicluster.New(Name, options.Environment).
		EveryFor(func(status clustercache.Status) time.Duration {
			settings, _ := options.Settings(status)
			return settings.SyncPeriod
		}).
		EnabledFor(func(status clustercache.Status) bool {
			_, on := options.Settings(status)
			return on
		}).
		Workers(workers, 1).
		Timeout(runTimeout)
	if options.Follow != nil {
		builder.FollowsSettings(options.Follow)
	}
	return builder.Complete(newReconciler(options)) //nolint:wrapcheck // it names the controller
}

// reconciler is the Reconciler.
type reconciler struct {
	Options
	clock  clock.PassiveClock
	faults *multicluster.Faults

	mu sync.Mutex
	// ends are where passes ended that could not look at everything.
	ends map[clustercache.ClusterKey]map[string]place
}

func newReconciler(options Options) *reconciler {
	if options.pageSize == 0 {
		options.pageSize = defaultPageSize
	}
	if options.maxPods == 0 {
		options.maxPods = defaultMaxPods
	}
	if options.maxDeletes == 0 {
		options.maxDeletes = defaultMaxDeletes
	}
	r := &reconciler{
		Options: options, clock: options.Environment.Clock,
		faults: multicluster.NewFaults(options.Environment.Clock, reasonFailed, action, errTooMany),
		ends:   map[clustercache.ClusterKey]map[string]place{},
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	return r
}

// Forget implements multicluster.Forgetter.
func (r *reconciler) Forget(cluster clustercache.ClusterKey) {
	r.faults.Forget(cluster)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ends, cluster)
}

// Reconcile is a pass over a target. The kit repeats it after the target's period.
func (r *reconciler) Reconcile(
	ctx context.Context, target *multicluster.Target, _ types.NamespacedName,
) (reconcile.Result, error) {
	settings, on := r.Settings(target.Status)
	if !on {
		return reconcile.Result{}, nil
	}
	namespaces := slices.Compact(slices.Sorted(slices.Values(settings.Namespaces)))
	err := r.pass(ctx, target, inTarget, target.Client, namespaces)
	if err != nil && concernsAll(err) {
		return reconcile.Result{}, err
	}
	if home := settings.home(target.Key()); home != "" && r.Source != nil {
		err = errors.Join(err, r.pass(ctx, target, inSource, r.Source, []string{home}))
	}
	if err != nil {
		r.faults.Report(target, err)
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: settings.SyncPeriod}, nil
}

// pass looks at the pods of one cluster.
func (r *reconciler) pass(
	ctx context.Context, target *multicluster.Target, cluster string, c client.Client, namespaces []string,
) error {
	p := &pass{
		reconciler: r, target: target, cluster: cluster, client: c, after: r.takeEnd(target.Key(), cluster),
	}
	err := p.run(ctx, namespaces)
	if p.end != nil {
		r.keepEnd(target.Key(), cluster, *p.end)
	}
	if p.deleted > 0 {
		target.Log.Info("Deleted stale pods", "cluster", cluster, "pods", p.deleted)
	}
	if err != nil {
		return fmt.Errorf("stale pods of the %s: %w", cluster, err)
	}
	return nil
}

// takeEnd returns where the last pass over a cluster ended; the zero place if it looked at everything.
func (r *reconciler) takeEnd(key clustercache.ClusterKey, cluster string) place {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.ends[key][cluster]
	delete(r.ends[key], cluster)
	return end
}

func (r *reconciler) keepEnd(key clustercache.ClusterKey, cluster string, end place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends[key] == nil {
		r.ends[key] = map[string]place{}
	}
	r.ends[key][cluster] = end
}
