package nodeagentdelay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/controllers/internal/nodemarks"
)

// Name is that of the controller, for logs and metrics.
const Name = "node-agent-reconciliation-delay"

const (
	// allWorkers is how many targets are looked at at a time. A run mostly waits for its target.
	allWorkers = 10
	// runTimeout bounds a run. A large target takes thousands of patches.
	runTimeout = 3 * time.Minute
	// lookRate, a second, and lookBurst bound how often one target is looked at, which takes a list of all its Nodes: a
	// Node may change its label as often as it likes.
	lookRate, lookBurst = 1, 20
)

// Reason and action of the event on a TargetCluster.
const (
	reasonFailed = "NodeAgentDelaysFailed"
	action       = "SpreadNodeAgents"
)

// Settings are those of one target.
type Settings struct {
	// MinDelay is the delay of the first Node. All are less than MaxDelay, unless both are equal.
	MinDelay, MaxDelay time.Duration
}

// Validate reports whether delays can be spread between the two.
func (s Settings) Validate() error {
	if s.MinDelay < 0 || s.MaxDelay < s.MinDelay {
		return fmt.Errorf("minDelay %s and maxDelay %s have to be at least zero, in this order", s.MinDelay, s.MaxDelay)
	}
	return nil
}

// Options say what the controller is made of.
type Options struct {
	// Environment is that of all controllers in targets. Its Source is not needed.
	Environment multicluster.Environment
	// Settings returns those of a target, from memory; false: the controller is switched off there. Required.
	Settings func(clustercache.Status) (Settings, bool)
	// Follow reports targets whose settings have changed. Nil: they do not change.
	Follow multicluster.FollowFunc

	// pageSize is how many objects are listed at a time. Default 200.
	pageSize int64
	// maxObjects is how many Nodes, or Secrets, are looked at. Default 10000.
	maxObjects int
}

// New returns a controller that does nothing until it is started.
func New(options Options) (*multicluster.Controller, error) {
	if options.Settings == nil {
		return nil, fmt.Errorf("controller %s: %w", Name, errors.New("a required option is missing"))
	}
	builder := multicluster.New(Name, options.Environment).
		Watches(nodemarks.Nodes, changed).
		EnabledFor(func(status clustercache.Status) bool {
			_, on := options.Settings(status)
			return on
		}).
		Workers(allWorkers, 1).
		Paced(lookRate, lookBurst).
		Timeout(runTimeout)
	var controller *multicluster.Controller
	if options.Follow != nil {
		builder.FollowsSettings(func(
			ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
		) error {
			return options.Follow(ctx, work, func(cluster clustercache.ClusterKey) {
				changed(cluster)
				controller.Enqueue(cluster, wholeTarget) // there may be other delays
			})
		})
	}
	var err error
	controller, err = builder.Complete(newReconciler(options))
	return controller, err //nolint:wrapcheck // it names the controller
}

// wholeTarget is the name in requests, which are all about a target.
var wholeTarget = types.NamespacedName{}

// changed has the target reconciled when a Node comes or goes, or has another agent.
func changed(_ types.NamespacedName, old, value any) []types.NamespacedName {
	before, existed := old.(nodemarks.Marks)
	after, exists := value.(nodemarks.Marks)
	if existed && exists && before.AgentSecret == after.AgentSecret {
		return nil
	}
	return []types.NamespacedName{wholeTarget}
}

// reconciler is the Reconciler.
type reconciler struct {
	Options
	faults *multicluster.Faults
}

// Forget implements multicluster.Forgetter.
func (r *reconciler) Forget(cluster clustercache.ClusterKey) { r.faults.Forget(cluster) }

func newReconciler(options Options) *reconciler {
	if options.pageSize == 0 {
		options.pageSize = defaultPageSize
	}
	if options.maxObjects == 0 {
		options.maxObjects = defaultMaxObjects
	}
	faults := multicluster.NewFaults(options.Environment.Clock, reasonFailed, action, errTooMany)
	return &reconciler{Options: options, faults: faults}
}

// Reconcile gives each Node of a target its delay.
func (r *reconciler) Reconcile(
	ctx context.Context, target *multicluster.Target, _ types.NamespacedName,
) (reconcile.Result, error) {
	settings, on := r.Settings(target.Status)
	if !on {
		return reconcile.Result{}, nil
	}
	if err := settings.Validate(); err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err) // the source rejects such settings
	}
	written, err := r.spread(ctx, target.Client, settings)
	if written > 0 {
		target.Log.Info("Spread the delays of node agents", "written", written)
	}
	r.faults.Report(target, err)
	return reconcile.Result{}, err
}
