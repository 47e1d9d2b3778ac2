package nodehighavailability

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/controllers/internal/nodemarks"
	"github.com/trellis-hub/trellis/untrusted"
)

// Name is that of the controller, for logs and metrics.
const Name = "node-high-availability"

const (
	// allWorkers is how many targets are worked on at a time. A run mostly waits for its target.
	allWorkers = 10
	// runTimeout bounds a run. The source as a target may have ten thousands of workloads.
	runTimeout = 3 * time.Minute
	// maxReported is how many faults are remembered, of all targets, to report each only once.
	maxReported = 256
)

// Reason and action of the event on a TargetCluster.
const (
	reasonFailed = "NodeHighAvailabilityFailed"
	action       = "SpreadWorkloads"
)

// Options say what the controller is made of.
type Options struct {
	// Environment is that of all controllers in targets. Its Source is not needed.
	Environment multicluster.Environment
	// Enabled reports, from memory, whether the controller is switched on for a target. Required.
	Enabled func(clustercache.Status) bool
	// Follow reports targets whose settings have changed. Nil: they do not change.
	Follow multicluster.FollowFunc

	// pageSize is how many objects are listed at a time. Default 50.
	pageSize int64
	// maxObjects is how many objects of a kind are looked at. Default 100000.
	maxObjects int
	// maxScopes is how many namespaces are listed each by itself; if there are more, all are listed. Default 20.
	maxScopes int
}

// New returns a controller that does nothing until it is started.
func New(options Options) (*multicluster.Controller, error) {
	if options.Enabled == nil {
		return nil, fmt.Errorf("controller %s: %w", Name, errors.New("a required option is missing"))
	}
	builder := multicluster.New(Name, options.Environment).
		Watches(nodemarks.Nodes, changed).
		OnSync(). // a target without Nodes counts, too
		EnabledFor(options.Enabled).
		Workers(allWorkers, 1).
		Timeout(runTimeout)
	if options.Follow != nil {
		builder.FollowsSettings(options.Follow)
	}
	return builder.Complete(newReconciler(options)) //nolint:wrapcheck // it names the controller
}

// changed has the target reconciled when a Node comes or goes.
func changed(_ types.NamespacedName, old, value any) []types.NamespacedName {
	if old != nil && value != nil {
		return nil
	}
	return []types.NamespacedName{wholeTarget}
}

// wholeTarget is the name in requests, which are all about a target.
var wholeTarget = types.NamespacedName{}

// reconciler is the Reconciler.
type reconciler struct {
	Options
	reported *lru.Cache // the faults that were reported last

	mu   sync.Mutex
	done map[clustercache.ClusterKey]state // for what the workloads of targets were spread last
}

// state is what the spread of workloads follows from.
type state struct {
	many    bool  // there are several Nodes
	rewinds int64 // how often the target went back in time, and its workloads with it
}

func newReconciler(options Options) *reconciler {
	if options.pageSize == 0 {
		options.pageSize = defaultPageSize
	}
	if options.maxObjects == 0 {
		options.maxObjects = defaultMaxObjects
	}
	if options.maxScopes == 0 {
		options.maxScopes = defaultMaxScopes
	}
	return &reconciler{
		Options: options, reported: lru.New(maxReported), done: map[clustercache.ClusterKey]state{},
	}
}

// Forget implements multicluster.Forgetter.
func (r *reconciler) Forget(cluster clustercache.ClusterKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.done, cluster)
}

// Reconcile has the webhook look at workloads if a target has several Nodes now and had not before, or the other way
// round.
func (r *reconciler) Reconcile(
	ctx context.Context, target *multicluster.Target, _ types.NamespacedName,
) (reconcile.Result, error) {
	patched, err := r.reconcile(ctx, target)
	if patched > 0 {
		target.Log.Info("Patched workloads for their webhook, since the number of Nodes has changed", "patched", patched)
	}
	if err != nil {
		r.report(target, err)
	}
	return reconcile.Result{}, err
}

func (r *reconciler) reconcile(ctx context.Context, target *multicluster.Target) (patched int, err error) {
	many, err := severalNodes(ctx, target.Client)
	if err != nil {
		return 0, err
	}
	now := state{many, target.Status.Rewinds}
	r.mu.Lock()
	last, known := r.done[target.Key()]
	r.mu.Unlock()
	if known && last == now {
		return 0, nil
	}
	patched, err = r.patchAll(ctx, target.Client, many)
	if err != nil {
		return patched, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[target.Key()] = now
	return patched, nil
}

// fault identifies what was reported.
type fault struct {
	cluster clustercache.ClusterKey
	what    string
}

// report writes one event about a fault that does not go away by itself, on the TargetCluster. The source as a target
// has none; then there is the log.
func (r *reconciler) report(target *multicluster.Target, err error) {
	key := target.Key()
	lasting := apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || errors.Is(err, errTooMany) ||
		errors.Is(err, untrusted.ErrExceeded)
	if key.Namespace == "" || !lasting {
		return
	}
	message := untrusted.Message(err.Error())
	f := fault{key, message}
	if _, known := r.reported.Get(f); known {
		return
	}
	about := &hubv1alpha1.TargetCluster{}
	about.Namespace, about.Name = key.Namespace, key.Name
	target.Warn(about, reasonFailed, action, message)
	r.reported.Add(f, nil)
}
