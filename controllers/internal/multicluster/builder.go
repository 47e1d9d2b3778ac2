package multicluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
)

// Request names an object of a target, or the target as a whole if the name is empty, as for the timer of Every.
type Request struct {
	Cluster clustercache.ClusterKey
	types.NamespacedName
}

// String is the target and the object, for logs.
func (r Request) String() string {
	if r.NamespacedName == (types.NamespacedName{}) {
		return r.Cluster.String()
	}
	return r.Cluster.String() + " " + r.NamespacedName.String()
}

// Reconciler works on one object of one target. Errors are tried again with backoff; those that say that the target is
// not connected wait for it.
type Reconciler interface {
	Reconcile(ctx context.Context, target *Target, name types.NamespacedName) (reconcile.Result, error)
}

// ReconcilerFunc is a function that is a Reconciler.
type ReconcilerFunc func(ctx context.Context, target *Target, name types.NamespacedName) (reconcile.Result, error)

// Reconcile implements Reconciler.
func (f ReconcilerFunc) Reconcile(
	ctx context.Context, target *Target, name types.NamespacedName,
) (reconcile.Result, error) {
	return f(ctx, target, name)
}

// Forgetter is a Reconciler that remembers something of targets. Forget is called when one is disengaged, and no run
// for it is under way.
type Forgetter interface {
	Forget(cluster clustercache.ClusterKey)
}

// Engager is a Reconciler whose Engage is called for each target before its first run there, and again after Forget was
// called.
type Engager interface {
	Engage(status clustercache.Status)
}

// Objects are objects of targets that a controller watches. The pointer identifies them to Target.Objects.
type Objects struct {
	// Kind is what is watched, in the version that is asked for.
	Kind schema.GroupVersionKind
	// MetadataOnly asks for metadata; else objects come whole, as far as Fields says.
	MetadataOnly bool
	// Namespace and the selectors restrict what the target is asked for. Zero values: all.
	Namespace     string
	LabelSelector labels.Selector
	FieldSelector fields.Selector
	// Fields, Transform and Form are those of clustercache.Watcher: which parts of whole objects are used, what is kept
	// of an object, and the name of that.
	Fields    [][]string
	Transform func(obj client.Object) any
	Form      string
	// Optional says that targets may never serve the kind; they are asked for it at least every one and a half minutes.
	Optional bool
	// When says in which targets they are watched. It is asked when EnabledFor is, and answers from memory. Nil: in all.
	When func(clustercache.Status) bool
}

// Environment is what all controllers of a hub share. All fields are required but those with a default.
type Environment struct {
	// Clusters has the connections.
	Clusters clustercache.ClusterCache
	// Source has the informers of the source. Only needed for WatchesSource.
	Source cache.Cache
	// Events takes events about objects of the source.
	Events events.EventRecorder
	// Metrics collects the figures of controllers. Nil: they are not collected.
	Metrics *Metrics
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Logger defaults to none.
	Logger logr.Logger
}

// MapFunc returns the requests that follow from a change of an object: the names of what is to be reconciled in its
// target. Of old and value, as Objects keeps them, one is nil if the object is new or gone. It is called by the watch
// and must be quick.
type MapFunc func(name types.NamespacedName, old, value any) []types.NamespacedName

// SourceMapFunc does the same for an object of the source, in each target of its namespace.
type SourceMapFunc func(obj client.Object) []types.NamespacedName

// Defaults of a Builder.
const (
	defaultWorkers   = 5
	defaultPerTarget = 2
	defaultTimeout   = time.Minute
)

// Builder says what a controller does. Make one with New.
type Builder struct {
	name        string
	environment Environment
	objects     []watch
	source      []sourceWatch
	shared      bool                                    // some of source are watched by the informers of the hub
	every       func(clustercache.Status) time.Duration // nil: there is no timer
	negative    bool                                    // a period is
	onSync      bool
	enabled     func(clustercache.Status) bool
	duplicates  bool // work for all registrations of a cluster
	settings    FollowFunc
	workers     int
	perTarget   func(clustercache.Status) int
	perSecond   rate.Limit // runs that begin for one target; zero: that is not bounded
	burst       int
	timeout     time.Duration
}

type watch struct {
	objects *Objects
	to      MapFunc
}

type sourceWatch struct {
	SourceObjects
	to SourceMapFunc
}

// SourceObjects is a watch of objects of the source. What it hands out is shared, and not changed.
type SourceObjects interface {
	// Follow calls changed for all changes until ctx ends, at first for what exists. before is nil for an object that is
	// new, after for one that is gone. It returns when all that exist were handled; work is done when nothing is left.
	Follow(ctx context.Context, work *sync.WaitGroup, changed func(before, after client.Object)) error
	// InNamespace returns the objects of a namespace.
	InNamespace(ctx context.Context, namespace string) ([]client.Object, error)
}

// New begins a controller with a name for logs and metrics.
func New(name string, environment Environment) *Builder {
	return &Builder{
		name: name, environment: environment, workers: defaultWorkers, timeout: defaultTimeout,
		perTarget: func(clustercache.Status) int { return defaultPerTarget },
		enabled:   func(status clustercache.Status) bool { return status.Cluster.Namespace != "" },
	}
}

// For has each of some objects reconciled when it changes, comes or goes.
func (b *Builder) For(objects *Objects) *Builder {
	return b.Watches(objects, func(name types.NamespacedName, _, _ any) []types.NamespacedName {
		return []types.NamespacedName{name}
	})
}

// Watches has reconciled what follows from a change of some objects. With a nil to nothing follows: the objects are
// only looked up.
func (b *Builder) Watches(objects *Objects, to MapFunc) *Builder {
	b.objects = append(b.objects, watch{objects, to})
	return b
}

// WatchesSource has reconciled what follows from a change of an object of the source in all targets of its namespace.
// kind and list say which objects, by their types.
func (b *Builder) WatchesSource(kind client.Object, list client.ObjectList, to SourceMapFunc) *Builder {
	b.shared = true
	return b.WatchesSourceBy(&sharedInformer{environment: &b.environment, kind: kind, list: list}, to)
}

// WatchesSourceBy does the same with a watch that the caller runs, for objects that the informers of the hub do not
// have.
func (b *Builder) WatchesSourceBy(objects SourceObjects, to SourceMapFunc) *Builder {
	b.source = append(b.source, sourceWatch{objects, to})
	return b
}

// Every has each target reconciled once in a period, by a request without a name. The first one comes within a period,
// at a time of day that follows from the target's name: targets are spread, and one whose period is longer than a term
// is reconciled all the same.
func (b *Builder) Every(period time.Duration) *Builder {
	b.negative = period < 0
	b.every = nil
	if period != 0 {
		b.every = func(clustercache.Status) time.Duration { return period }
	}
	return b
}

// EveryFor is Every with a period for each target, which is asked for when EnabledFor is, and answered from memory.
// Zero and less: none.
func (b *Builder) EveryFor(period func(clustercache.Status) time.Duration) *Builder {
	b.every = period
	return b
}

// OnSync has a target reconciled, by a request without a name, when one of its watches has become complete in a
// connection, and when one cannot be established or breaks. It is for reconcilers that say what they know of a target.
func (b *Builder) OnSync() *Builder {
	b.onSync = true
	return b
}

// EnabledFor says for which targets the controller works. It is asked when a target is connected and when its
// registration changes, and answers from memory. Default: all that are registered by a Secret.
func (b *Builder) EnabledFor(enabled func(clustercache.Status) bool) *Builder {
	b.enabled = enabled
	return b
}

// InDuplicates has the controller work for all registrations of a cluster. By default it works for one at a time, by
// the UID of the cluster, which EnabledFor has to select: another one that is enabled waits until the last run for that
// one has ended.
func (b *Builder) InDuplicates() *Builder {
	b.duplicates = true
	return b
}

// FollowFunc calls changed for each target whose settings have changed, until ctx ends. What it began has ended when
// work is done.
type FollowFunc func(ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey)) error

// FollowsSettings has EnabledFor, EveryFor, WorkersFor and Objects.When asked again when settings change. Only the
// target that they are about is engaged or disengaged; one with another period, number of workers or other watches is
// engaged again.
func (b *Builder) FollowsSettings(follow FollowFunc) *Builder {
	b.settings = follow
	return b
}

// Workers sets how many requests are worked on at a time, default 5, and how many of them for one target, default 2.
func (b *Builder) Workers(all, perTarget int) *Builder {
	return b.WorkersFor(all, func(clustercache.Status) int { return perTarget })
}

// WorkersFor is Workers with a number for each target, which is asked for when EnabledFor is, and answered from memory.
// Less than one is one.
func (b *Builder) WorkersFor(all int, perTarget func(clustercache.Status) int) *Builder {
	b.workers, b.perTarget = all, perTarget
	return b
}

// Paced bounds how many runs begin for one target in a second, and at once: a target or a tenant causes as many as it
// likes. A run that has to wait keeps its worker, so it waits for as long at most as the workers of the target last.
// Default: no bound.
func (b *Builder) Paced(perSecond, burst int) *Builder {
	b.perSecond, b.burst = rate.Limit(perSecond), burst
	return b
}

// Timeout bounds a run. Default: a minute.
func (b *Builder) Timeout(timeout time.Duration) *Builder {
	b.timeout = timeout
	return b
}

// Complete returns the controller, which does nothing until it is started.
func (b *Builder) Complete(reconciler Reconciler) (*Controller, error) {
	e := &b.environment
	switch {
	case e.Clusters == nil || e.Events == nil:
		return nil, fmt.Errorf("controller %s: a required part of its environment is missing", b.name)
	case b.shared && e.Source == nil:
		return nil, fmt.Errorf("controller %s: objects of the source cannot be watched without its informers", b.name)
	case b.workers < 1 || b.timeout <= 0 || b.negative:
		return nil, fmt.Errorf("controller %s: workers and times have to be positive", b.name)
	case len(b.objects) == 0 && len(b.source) == 0 && b.every == nil:
		return nil, fmt.Errorf("controller %s: %w", b.name, errors.New("nothing would ever be reconciled"))
	}
	if e.Clock == nil {
		e.Clock = clock.RealClock{}
	}
	if e.Logger.GetSink() == nil {
		e.Logger = logr.Discard()
	}
	return newController(*b, reconciler)
}
