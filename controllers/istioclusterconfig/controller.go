package istioclusterconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// Name is that of the controller, for logs and metrics.
const Name = "istio-cluster-configuration"

// allWorkers is how many sources are worked on at a time. They wait for targets most of the time; with fewer, some
// targets that hang would occupy them all.
const allWorkers = 16

// runTimeout bounds a run. What is written stays if it is exceeded.
const runTimeout = 3 * time.Minute

// runRate, a second, and runBurst bound the runs in a target, in which tenants change rules as often as they like.
const runRate, runBurst = 100, 2000

// Settings are those of the controller in one target.
type Settings struct {
	// ConcurrentSyncs is how many sources of the target are worked on at a time. Less than one is one.
	ConcurrentSyncs int
}

// Options say what the controller is made of.
type Options struct {
	// Environment is that of all controllers in targets. Its Source is not needed.
	Environment multicluster.Environment
	// Settings returns those of a target, from memory; false: the controller is switched off there. Required.
	Settings func(clustercache.Status) (Settings, bool)
	// Follow reports targets whose settings have changed. Nil: they do not change.
	Follow multicluster.FollowFunc

	bounds bounds // default: defaultBounds
}

// bounds are those of what follows from the objects of a target.
type bounds struct {
	rules   int // of a source
	patches int // of an EnvoyFilter
	bytes   int // of an EnvoyFilter; an API server accepts objects of a bit more than a MiB
	ingress int // namespaces with ingress gateways
}

var defaultBounds = bounds{rules: 500, patches: 1000, bytes: 512 << 10, ingress: 200}

// New returns a controller that writes nothing until it is started.
func New(options Options) (*multicluster.Controller, error) {
	if options.Settings == nil {
		return nil, fmt.Errorf("controller %s: %w", Name, errors.New("a required option is missing"))
	}
	r := &reconciler{
		watches: newWatches(), bounds: options.bounds, clock: options.Environment.Clock,
		memories: memories{all: map[clustercache.ClusterKey]*memory{}},
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	if r.bounds == (bounds{}) {
		r.bounds = defaultBounds
	}
	builder := multicluster.New(Name, options.Environment).
		Watches(r.rules, r.counting(ofRule)).
		Watches(r.services, ofService).
		Watches(r.namespaces, r.counting(ofNamespace)).
		Watches(r.filters, r.counting(ofFilter)).
		OnSync().
		EnabledFor(func(status clustercache.Status) bool {
			_, on := options.Settings(status)
			return on
		}).
		WorkersFor(allWorkers, func(status clustercache.Status) int {
			settings, _ := options.Settings(status)
			return settings.ConcurrentSyncs
		}).
		Paced(runRate, runBurst).
		Timeout(runTimeout)
	if options.Follow != nil {
		builder.FollowsSettings(options.Follow)
	}
	var err error
	r.controller, err = builder.Complete(r)
	return r.controller, err //nolint:wrapcheck // it names the controller
}

type reconciler struct {
	watches
	bounds     bounds
	controller *multicluster.Controller
	clock      clock.PassiveClock
	memories   memories
	// changes counts those of what is indexed, in all targets.
	changes atomic.Int64
}

// counting counts changes, so that an index of what was before one is not used after it.
func (r *reconciler) counting(to multicluster.MapFunc) multicluster.MapFunc {
	return func(name types.NamespacedName, old, value any) []types.NamespacedName {
		r.changes.Add(1)
		return to(name, old, value)
	}
}

// Forget implements multicluster.Forgetter.
func (r *reconciler) Forget(cluster clustercache.ClusterKey) { r.memories.forget(cluster) }

// run is one run in a target.
type run struct {
	*reconciler
	*multicluster.Target
	memory *memory
}

// Reconcile brings the EnvoyFilters of a source in line with its rules, or finds out which sources something else
// concerns.
func (r *reconciler) Reconcile(
	ctx context.Context, target *multicluster.Target, name types.NamespacedName,
) (reconcile.Result, error) {
	w := &run{reconciler: r, Target: target, memory: r.memories.of(target.Key())}
	if name == (types.NamespacedName{}) {
		w.reportRefused()
		w.all()
		return reconcile.Result{}, nil
	}
	if !w.readyOrMissed() {
		return reconcile.Result{}, nil // everything is reconciled when that is so
	}
	ingress, about := strings.CutPrefix(name.Name, aboutIngress)
	switch {
	case name.Namespace != "":
		w.enqueue(w.sourcesOfService(name))
	case about:
		w.all() // if there were too many
		w.enqueue(w.sourcesOfIngress(ingress))
	default:
		pause, err := w.source(ctx, name.Name)
		return reconcile.Result{RequeueAfter: pause}, err
	}
	return reconcile.Result{}, nil
}

// synced reports whether all is known that filters follow from. It is not while the target lacks the kinds of Istio.
func (w *run) synced() bool {
	for _, objects := range w.watches.all() {
		subscription := w.Objects(objects)
		if subscription == nil {
			return false
		}
		if _, _, synced := subscription.Lookup(types.NamespacedName{}); !synced {
			return false
		}
	}
	return true
}

// ready reports whether filters may be written and deleted.
func (w *run) ready() bool {
	if !w.synced() {
		return false
	}
	message := ""
	n := len(w.indexed().ingress)
	if n > w.bounds.ingress {
		message = fmt.Sprintf("no EnvoyFilters are written or deleted: "+
			"there are %d namespaces with ingress gateways, more than %d", n, w.bounds.ingress)
	}
	w.report(reasonIngress, message)
	return message == ""
}

// readyOrMissed returns the same as ready. If it is false, the missed run is remembered.
func (w *run) readyOrMissed() bool {
	if w.ready() {
		return true
	}
	w.memory.missed.Store(true)
	return w.ready() // that may have become so before it was remembered
}

// all has all sources reconciled if runs were given up, and need not be any longer.
func (w *run) all() {
	if !w.ready() || !w.memory.missed.Swap(false) {
		return
	}
	known := w.indexed()
	var sources []string
	for source := range known.rules {
		sources = append(sources, source)
	}
	for source := range known.filters {
		sources = append(sources, source)
	}
	w.enqueue(sources)
}

// reportRefused reports to the owner of the target that a watch is refused, so that nothing is done in it.
func (w *run) reportRefused() {
	message := ""
	for _, objects := range w.watches.all() {
		if _, fault := w.controller.Objects(w.Key(), objects); message == "" && apierrors.IsForbidden(fault) {
			message = "no EnvoyFilters are written or deleted: " + fault.Error()
		}
	}
	w.report(reasonRefused, message)
}

func (w *run) enqueue(sources []string) {
	slices.Sort(sources)
	for _, source := range slices.Compact(sources) {
		w.controller.Enqueue(w.Key(), types.NamespacedName{Name: source})
	}
}

// sourcesOfService are the namespaces with rules for a Service.
func (w *run) sourcesOfService(name types.NamespacedName) (sources []string) {
	for source, rules := range w.indexed().rules {
		if slices.ContainsFunc(rules, func(r namedRule) bool { return r.service == name }) {
			sources = append(sources, source)
		}
	}
	return sources
}

// sourcesOfIngress are the namespaces with rules that are exported to a namespace, and those with a filter in it.
func (w *run) sourcesOfIngress(name string) (sources []string) {
	known := w.indexed()
	for source, rules := range known.rules {
		if slices.ContainsFunc(rules, func(r namedRule) bool { return r.exports.to(name) }) {
			sources = append(sources, source)
		}
	}
	for source, filters := range known.filters {
		if slices.ContainsFunc(filters, func(f types.NamespacedName) bool { return f.Namespace == name }) {
			sources = append(sources, source)
		}
	}
	return sources
}
