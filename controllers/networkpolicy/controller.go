package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

// Name is that of the controller, for logs and metrics.
const Name = "networkpolicy"

// allWorkers is how many Services are worked on at a time. They wait for targets most of the time; with fewer, some
// targets that hang would occupy them all.
const allWorkers = 32

// runTimeout bounds a run, which may have to write thousands of policies. What is written stays if it is exceeded.
const runTimeout = 3 * time.Minute

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

// New returns a controller that writes nothing until it is started.
func New(options Options) (*multicluster.Controller, error) {
	if options.Settings == nil {
		return nil, fmt.Errorf("controller %s: %w", Name, errors.New("a required option is missing"))
	}
	r := &reconciler{
		watches: newWatches(options.Settings), settings: options.Settings, clock: options.Environment.Clock,
		memories: memories{all: map[clustercache.ClusterKey]*memory{}}, metrics: options.Metrics,
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	builder := multicluster.New(Name, options.Environment).
		Watches(r.services, ofService).
		Watches(r.policies, ofPolicy).
		Watches(r.namespaces, ofNamespace).
		Watches(r.pods, ofPod).
		Watches(r.ingresses, ofIngress).
		Watches(r.virtualServices, ofVirtualService).
		Watches(r.gateways, ofGateway).
		OnSync().
		EnabledFor(func(status clustercache.Status) bool {
			_, on := options.Settings(status)
			return on
		}).
		WorkersFor(allWorkers, func(status clustercache.Status) int {
			settings, _ := options.Settings(status)
			return settings.ConcurrentSyncs
		}).
		Timeout(runTimeout)
	if options.Follow != nil {
		builder.FollowsSettings(func(
			ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
		) error {
			return options.Follow(ctx, work, func(cluster clustercache.ClusterKey) {
				changed(cluster)
				r.memories.missed(cluster)
				r.controller.Enqueue(cluster, types.NamespacedName{})
			})
		})
	}
	var err error
	r.controller, err = builder.Complete(r)
	return r.controller, err //nolint:wrapcheck // it names the controller
}

type reconciler struct {
	watches
	controller *multicluster.Controller
	settings   func(clustercache.Status) (Settings, bool)
	clock      clock.PassiveClock
	memories   memories
	metrics    *Metrics
}

// Engage implements multicluster.Engager.
func (r *reconciler) Engage(status clustercache.Status) { r.metrics.engage(status.Cluster) }

// Forget implements multicluster.Forgetter.
func (r *reconciler) Forget(cluster clustercache.ClusterKey) {
	r.metrics.forget(cluster)
	r.memories.forget(cluster)
}

// run is one run in a target.
type run struct {
	*reconciler
	*multicluster.Target
	settings Settings
	handled  []labels.Selector // of the namespaces whose Services get policies; empty: of all
	memory   *memory
	known    map[*multicluster.Objects]knowledge
	// collect, if set, gets what is wrong with Services, and no events are written.
	collect func(reason, message string)
}

// Reconcile brings the policies of a Service in line with it, or finds out which Services something else concerns.
func (r *reconciler) Reconcile(
	ctx context.Context, target *multicluster.Target, name types.NamespacedName,
) (reconcile.Result, error) {
	settings, on := r.settings(target.Status)
	if !on {
		return reconcile.Result{}, nil
	}
	w := &run{reconciler: r, Target: target, settings: settings, memory: r.memories.of(target.Key())}
	var err error
	if w.handled, err = settings.selectors(); err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf(
			"settings of the network policy controller for target %s: %w", target.Key(), err))
	}
	if name == (types.NamespacedName{}) {
		return reconcile.Result{RequeueAfter: w.all()}, nil
	}
	if !w.complete() {
		return reconcile.Result{}, nil // everything is reconciled when they are
	}
	if name.Namespace != "" {
		pause, err := w.service(ctx, name)
		r.metrics.ran(target.Key(), name, err)
		return reconcile.Result{RequeueAfter: pause}, err
	}
	about, what, _ := strings.Cut(name.Name, "/")
	var services []types.NamespacedName
	switch about + "/" {
	case aboutNamespace:
		services = w.concernedBy(what)
	case aboutPods:
		if w.memory.changed(what, w.clientKeys(what)) {
			services = w.concernedBy(what)
		}
	case aboutGateway:
		namespace, gateway, _ := strings.Cut(what, "/")
		services = w.behind(types.NamespacedName{Namespace: namespace, Name: gateway})
	}
	r.controller.Enqueue(target.Key(), services...)
	return reconcile.Result{}, nil
}

// knowledge is what a run can rely on of a watch.
type knowledge string

const (
	unknown  knowledge = "unknown"  // it is not complete
	complete knowledge = "complete" // everything that exists is known
	notThere knowledge = "notThere" // the target does not have the kind, or it is of no interest
)

// know returns what can be relied on of each watch, when to look again although nothing happens, zero if that is not
// necessary, and why the first watch that stays incomplete does.
func (w *run) know() (known map[*multicluster.Objects]knowledge, again time.Duration, lasting error) {
	known = map[*multicluster.Objects]knowledge{}
	for _, watch := range w.watches.all() {
		state, left, fault := w.stateOf(watch)
		known[watch.Objects] = state
		if lasting == nil && isLasting(fault) {
			lasting = fault
		}
		again = max(again, left)
	}
	return known, again, lasting
}

// stateOf returns what can be relied on of a watch, for how long it stays unknown although discovery says that the
// kind is not there, and what is wrong with it.
func (w *run) stateOf(watch watched) (state knowledge, left time.Duration, fault error) {
	if watch.wanted != nil && !watch.wanted(w.settings) {
		return notThere, 0, nil
	}
	subscription := w.Objects(watch.Objects)
	if subscription == nil {
		return unknown, 0, nil // the settings have changed just now
	}
	if _, _, synced := subscription.Lookup(types.NamespacedName{}); synced {
		w.memory.seen(watch.Objects)
		return complete, 0, nil
	}
	_, fault = w.controller.Objects(w.Key(), watch.Objects)
	if fault == nil || !watch.Optional || !meta.IsNoMatchError(fault) {
		w.memory.doubted(watch.Objects)
		return unknown, 0, fault
	}
	if left := w.memory.absent(watch.Objects, w.clock.Now()); left > 0 {
		return unknown, left, nil
	}
	return notThere, 0, nil
}

// isLasting reports whether a watch fails for a reason that does not go away by itself.
func isLasting(fault error) bool {
	return apierrors.IsForbidden(fault) || errors.Is(fault, clustercache.ErrTooManyObjects) ||
		errors.Is(fault, untrusted.ErrExceeded)
}

func hasUnknown(known map[*multicluster.Objects]knowledge) bool {
	for _, state := range known {
		if state == unknown {
			return true
		}
	}
	return false
}

// present returns what is watched, nil if there is nothing.
func (w *run) present(objects *multicluster.Objects) clustercache.Subscription {
	if w.known[objects] != complete {
		return nil
	}
	return w.Objects(objects)
}

// complete reports whether all is known that policies follow from. If it is not, that is remembered.
func (w *run) complete() bool {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	before := w.memory.missed
	w.memory.missed = true // before it is looked at, for a watch may become complete just now
	if w.known, _, _ = w.know(); hasUnknown(w.known) {
		return false
	}
	w.memory.missed = before
	return true
}

// all has everything reconciled if something has become known that runs have waited for. It returns when to look again,
// zero if that is not necessary.
func (w *run) all() time.Duration {
	known, again, lasting := w.know()
	w.report(lasting)
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	if hasUnknown(known) {
		return again
	}
	if !w.memory.missed && maps.Equal(known, w.memory.known) {
		return 0
	}
	w.memory.missed, w.memory.known = false, known
	var services []types.NamespacedName
	w.Objects(w.services).Range(func(name types.NamespacedName, _ any) bool {
		services = append(services, name)
		return true
	})
	w.Objects(w.policies).Range(func(_ types.NamespacedName, value any) bool {
		if kept, is := value.(policy); is && kept.service.Name != "" {
			services = append(services, kept.service)
		}
		return true
	})
	w.controller.Enqueue(w.Key(), distinctNames(services)...)
	return 0
}

// concernedBy returns the Services for which it matters what a namespace is like: its own ones, those whose selectors
// match it, and those that have policies in it, because their selectors matched it before.
func (w *run) concernedBy(name string) (services []types.NamespacedName) {
	value, _, _ := w.Objects(w.namespaces).Lookup(types.NamespacedName{Name: name})
	kept, exists := value.(*namespace)
	matches := map[string]bool{} // by the text of selectors, which many Services share
	w.Objects(w.services).Range(func(key types.NamespacedName, value any) bool {
		s, is := value.(*service)
		if !is {
			return true
		}
		if key.Namespace == name {
			services = append(services, key)
			return true
		}
		text, selects := s.annotations[AnnotationNamespaceSelectors]
		if !selects || !exists {
			return true
		}
		if _, known := matches[text]; !known {
			selectors, err := parseSelectors(text)
			matches[text] = err == nil && matchesAny(selectors, kept.labels)
		}
		if matches[text] {
			services = append(services, key)
		}
		return true
	})
	w.Objects(w.policies).Range(func(key types.NamespacedName, value any) bool {
		if kept, is := value.(policy); is && key.Namespace == name && kept.service.Name != "" {
			services = append(services, kept.service)
		}
		return true
	})
	return distinctNames(services)
}

// behind returns the Services that a gateway leads to.
func (w *run) behind(gateway types.NamespacedName) (services []types.NamespacedName) {
	subscription := w.present(w.virtualServices)
	if subscription == nil {
		return nil
	}
	subscription.Range(func(_ types.NamespacedName, value any) bool {
		if kept, is := value.(*virtualService); is && slices.Contains(kept.gateways, gateway) {
			services = append(services, servicesOf(kept.backends)...)
		}
		return true
	})
	return distinctNames(services)
}

// clientKeys are the labels of clients that pods of a namespace have, sorted.
func (w *run) clientKeys(namespace string) []string {
	var keys []string
	for key := range w.clientsIn()[namespace] {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// clientsIn are the labels of clients in each namespace. The result is shared.
func (w *run) clientsIn() map[string]map[string]struct{} {
	changes := w.Changes(w.pods)
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	found, _ := w.memory.inPods.get(changes, func() (map[string]map[string]struct{}, bool) {
		found := map[string]map[string]struct{}{}
		subscription := w.present(w.pods)
		if subscription == nil {
			return found, false
		}
		certain := subscription.Range(func(name types.NamespacedName, value any) bool {
			keys, _ := value.([]string)
			for _, key := range keys {
				if found[name.Namespace] == nil {
					found[name.Namespace] = map[string]struct{}{}
				}
				found[name.Namespace][key] = struct{}{}
			}
			return true
		})
		return found, certain
	})
	return found
}

// policiesOf returns the policies that belong to a Service. The result is shared.
func (w *run) policiesOf(service types.NamespacedName) []types.NamespacedName {
	changes := w.Changes(w.policies)
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	owned, _ := w.memory.owned.get(changes, func() (map[types.NamespacedName][]types.NamespacedName, bool) {
		owned := map[types.NamespacedName][]types.NamespacedName{}
		certain := w.Objects(w.policies).Range(func(name types.NamespacedName, value any) bool {
			if kept, is := value.(policy); is {
				owned[kept.service] = append(owned[kept.service], name)
			}
			return true
		})
		return owned, certain
	})
	return owned[service]
}
