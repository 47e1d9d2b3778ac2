package criticalcomponents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/controllers/internal/nodemarks"
	"github.com/trellis-hub/trellis/untrusted"
)

// Name is that of the controller, for logs and metrics.
const Name = "node-critical-components"

const (
	// allWorkers is how many Nodes are looked at at a time. Runs wait for targets most of the time; with fewer workers,
	// some targets that hang would occupy them all.
	allWorkers = 32
	// runTimeout bounds a run: a handful of calls.
	runTimeout = 30 * time.Second
	// defaultBackoff is the pause until a Node is looked at again.
	defaultBackoff = 10 * time.Second
	// lookRate, a second, and lookBurst bound how often Nodes of one target are looked at: each change of a Node with the
	// taint is a reason, and a Node may change itself as often as it likes.
	lookRate, lookBurst = 20, 200
)

// reasonFailed is that of an event on a TargetCluster: Nodes keep the taint because the hub cannot do what it has to.
const reasonFailed = "NodeCriticalComponentsFailed"

// Settings are those of one target.
type Settings struct {
	// ConcurrentSyncs is how many Nodes of the target are looked at at a time. Less than one is one.
	ConcurrentSyncs int
	// Backoff is the pause until a Node with the taint is looked at again. Zero: 10 seconds.
	Backoff time.Duration
}

// SettingsOf are those of a target whose Nodes are looked at as own says. Nil: they are not.
func SettingsOf(own *hubv1alpha1.NodeCriticalComponentsController) (settings Settings, on bool) {
	if own == nil {
		return Settings{}, false
	}
	return Settings{ConcurrentSyncs: int(*own.ConcurrentSyncs), Backoff: own.Backoff.Duration}, true
}

func (s Settings) backoff() time.Duration {
	if s.Backoff <= 0 {
		return defaultBackoff
	}
	return s.Backoff
}

// Options say what the controller is made of.
type Options struct {
	// Environment is that of all controllers in targets. Its Source is not needed.
	Environment multicluster.Environment
	// Settings returns those of a target, from memory; false: the controller is switched off there. Required.
	Settings func(clustercache.Status) (Settings, bool)
	// Follow reports targets whose settings have changed. Nil: they do not change.
	Follow multicluster.FollowFunc
	// Metrics takes figures. Nil: they are not recorded.
	Metrics *Metrics
}

// New returns a controller that does nothing until it is started.
func New(options Options) (*multicluster.Controller, error) {
	if options.Settings == nil {
		return nil, fmt.Errorf("controller %s: %w", Name, errors.New("a required option is missing"))
	}
	builder := multicluster.New(Name, options.Environment).
		Watches(nodemarks.Nodes, waiting).
		EnabledFor(func(status clustercache.Status) bool {
			_, on := options.Settings(status)
			return on
		}).
		WorkersFor(allWorkers, func(status clustercache.Status) int {
			settings, _ := options.Settings(status)
			return settings.ConcurrentSyncs
		}).
		Paced(lookRate, lookBurst).
		Timeout(runTimeout)
	var controller *multicluster.Controller
	if options.Follow != nil {
		builder.FollowsSettings(func(
			ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
		) error {
			return options.Follow(ctx, work, func(cluster clustercache.ClusterKey) {
				changed(cluster)
				lookAgain(controller, cluster)
			})
		})
	}
	var err error
	controller, err = builder.Complete(newReconciler(options))
	return controller, err //nolint:wrapcheck // it names the controller
}

// lookAgain has the Nodes of a target looked at that wait: another backoff counts at once, not after the one before.
func lookAgain(controller *multicluster.Controller, cluster clustercache.ClusterKey) {
	nodes, _ := controller.Objects(cluster, nodemarks.Nodes)
	if nodes == nil {
		return
	}
	nodes.Range(func(name types.NamespacedName, value any) bool {
		controller.Enqueue(cluster, waiting(name, nil, value)...)
		return true
	})
}

// waiting has a Node reconciled that comes or changes, if it has the taint.
func waiting(name types.NamespacedName, _, value any) []types.NamespacedName {
	if marks, exists := value.(nodemarks.Marks); !exists || !marks.Waits {
		return nil
	}
	return []types.NamespacedName{name}
}

// reconciler is the Reconciler.
type reconciler struct {
	settings func(clustercache.Status) (Settings, bool)
	clock    clock.PassiveClock
	metrics  *Metrics
	faults   *multicluster.Faults

	mu sync.Mutex
	// reported is the last event about each Node that has the taint.
	reported map[clustercache.ClusterKey]map[string]nodeEvent
}

func newReconciler(options Options) *reconciler {
	r := &reconciler{
		settings: options.Settings, clock: options.Environment.Clock, metrics: options.Metrics,
		reported: map[clustercache.ClusterKey]map[string]nodeEvent{},
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	r.faults = multicluster.NewFaults(r.clock, reasonFailed, action, errTooMany)
	return r
}

// Engage implements multicluster.Engager.
func (r *reconciler) Engage(status clustercache.Status) { r.metrics.engage(status.Cluster, r.clock) }

// Forget implements multicluster.Forgetter.
func (r *reconciler) Forget(cluster clustercache.ClusterKey) {
	r.metrics.forget(cluster)
	r.faults.Forget(cluster)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reported, cluster)
}

// Reconcile takes the taint off a Node, or looks again after a while.
func (r *reconciler) Reconcile(
	ctx context.Context, target *multicluster.Target, name types.NamespacedName,
) (reconcile.Result, error) {
	settings, on := r.settings(target.Status)
	if !on {
		return reconcile.Result{RequeueAfter: defaultBackoff}, nil // unless it is disengaged, it is on again by then
	}
	result, err := r.lookAt(ctx, target, name, settings)
	r.faults.Report(target, err)
	return result, err
}

// lookAt looks at a Node once.
func (r *reconciler) lookAt(
	ctx context.Context, target *multicluster.Target, name types.NamespacedName, settings Settings,
) (reconcile.Result, error) {
	node := &corev1.Node{}
	switch err := target.Client.Get(ctx, name, node); {
	case apierrors.IsNotFound(err):
		r.forget(target.Key(), name.Name)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading Node %s: %w", untrusted.Name(name.Name), err)
	}
	if !Waits(node) {
		r.forget(target.Key(), name.Name)
		return reconcile.Result{}, nil
	}

	r.metrics.waits(target.Key(), node)
	missing, err := look(ctx, target.Client, node)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("critical components of Node %s: %w", untrusted.Name(node.Name), err)
	}
	if missing != nil {
		r.report(ctx, target, node, *missing)
		return reconcile.Result{RequeueAfter: settings.backoff()}, nil
	}
	r.report(ctx, target, node, nodeEvent{reason: reasonReady, note: "All critical components of the node are ready"})
	if err := removeTaint(ctx, target.Client, node); err != nil {
		return reconcile.Result{}, err
	}
	r.forget(target.Key(), name.Name)
	target.Log.Info("Critical components of a Node are ready")
	return reconcile.Result{}, nil
}

// isOurs reports whether a taint is that of critical components, with whatever effect and value.
func isOurs(taint corev1.Taint) bool { return taint.Key == nodemarks.CriticalComponentsTaint }

// removeTaint writes the Node without the taint, if it still is what was read.
func removeTaint(ctx context.Context, c client.Client, node *corev1.Node) error {
	before := node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isOurs)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, node, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the taint of Node %s: %w", untrusted.Name(node.Name), err)
	}
	return nil
}
