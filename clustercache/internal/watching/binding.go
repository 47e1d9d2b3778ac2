package watching

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/turns"
)

const (
	// watchRetryMin and watchRetryMax bound the pause before a watch that failed is tried again; after watchRetryReset
	// without a failure the pause begins anew.
	watchRetryMin   = time.Second
	watchRetryMax   = 30 * time.Second
	watchRetryReset = 2 * time.Minute
	// unknownRetryMin and unknownRetryMax are the same for kinds that the target does not know: looking again is cheap,
	// and their definitions are often applied in the same breath.
	unknownRetryMin = 200 * time.Millisecond
	unknownRetryMax = 2 * time.Second
)

// ErrStalled is reported when a target accepts a watch and then says nothing.
var ErrStalled = errors.New("the initial list of the watch makes no progress")

// Connection is what bindings need of a connection. All bindings of a connection share one, so it is small.
type Connection struct {
	// Context ends with the connection.
	Context context.Context
	// Held returns nil while the connection is of use, else a channel that is closed when it is again. What watches kept is
	// not relied upon meanwhile, and nothing is said of their failures. Nil: it always is of use.
	Held     func() <-chan struct{}
	Mapper   meta.ResettableRESTMapper
	Metadata metadata.Interface
	Dynamic  dynamic.Interface

	Clock clock.WithTickerAndDelayedExecution
	// SyncTimeout bounds how long an initial list may stand still, SilenceTimeout how long a watch may say nothing. Zero: for
	// ever.
	SyncTimeout, SilenceTimeout time.Duration
	Logger                      logr.Logger
	// Events counts the events of watches, objects of initial lists included.
	Events *atomic.Uint64
	// Lists are the turns in which the target is asked for all objects of a kind. Nil: at any time.
	Lists *turns.Share

	// full are the resources that this target does not serve as metadata.
	full sync.Map // schema.GroupVersionResource -> struct{}
}

func (c *Connection) held() <-chan struct{} {
	if c.Held == nil {
		return nil
	}
	return c.Held()
}

// Binding runs a declared watch in one connection. It is a store that a reflector fills: the reflector lists, watches
// and recovers, and the binding hands what comes to the declared watch.
type Binding struct {
	watch      *Declared
	connection *Connection
	ctx        context.Context
	cancel     context.CancelFunc

	// outcome receives what came first: nil for a complete initial list, or the reason why there is none.
	outcome chan error
	// watchdog ends an initial list that stands still. Only used by the goroutine of Run.
	watchdog clock.Timer

	// resource is what the kind is served as. trims is true if it comes in full and is cut down here. Both are only used by
	// the goroutine of Run and what it calls.
	resource schema.GroupVersionResource
	trims    bool

	hearing hearing
	// listed ends the turn of the list that is under way. Only used by the goroutine of Run.
	listed func(achieved bool)

	// staged is what a binding collects that is not the declared watch's feeder yet. Guarded by watch.deliver.
	staged map[types.NamespacedName]any
}

// Bind prepares a binding, which begins to work with Run and counts from Promote on.
func Bind(w *Declared, connection *Connection) *Binding {
	b := &Binding{watch: w, connection: connection, outcome: make(chan error, 1)}
	ctx, cancel := context.WithCancel(connection.Context)
	b.hearing.patience(connection.SilenceTimeout)
	unbind := context.AfterFunc(w.ctx, cancel)
	b.ctx, b.cancel = ctx, func() { unbind(); cancel() }
	return b
}

// Run keeps the watch going until the binding's context ends.
func (b *Binding) Run() {
	defer b.cancel()
	var lister *toolscache.Reflector
	var err error
	pause, unknown := watchRetryMin, time.Duration(0)
	failures := 0
	for b.ctx.Err() == nil {
		started := b.connection.Clock.Now()
		if lister == nil {
			lister, err = b.newReflector()
		}
		if lister != nil {
			err = b.listAndWatch(lister)
		}
		if b.ctx.Err() != nil {
			return
		}
		if held := b.connection.held(); held != nil {
			select {
			case <-held:
			case <-b.ctx.Done():
			}
			continue
		}
		if lister != nil && b.refused() {
			b.connection.Logger.Info("The target does not serve metadata of a kind; it is watched in full", "watch", b.watch.spec.Name)
			lister = nil
			continue
		}
		if b.connection.Clock.Since(started) > watchRetryReset {
			pause, failures = watchRetryMin, 0
		}
		if err != nil {
			failures++
			if IsAnswer(err) || errors.Is(err, ErrSilent) || failures > 1 {
				b.report(err)
			}
			if apierrors.IsNotFound(err) {
				lister = nil // the kind may have moved to another resource or version, or be gone
				b.connection.Mapper.Reset()
			}
		}
		if meta.IsNoMatchError(err) {
			unknown = min(max(2*unknown, unknownRetryMin), unknownRetryMax)
			b.sleep(wait.Jitter(unknown, 0.5))
			continue
		}
		b.sleep(wait.Jitter(pause, 0.5))
		pause = min(2*pause, watchRetryMax)
	}
}

// IsAnswer tells whether an error is the target's definite answer, in contrast to a call that failed on the way, or that
// the target is too busy for just now.
func IsAnswer(err error) bool {
	if apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) {
		return false
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) || meta.IsNoMatchError(err)
}

func (b *Binding) report(err error) {
	b.settle(err)
	b.connection.Logger.V(1).Info("Watch fails", "watch", b.watch.spec.Name, "error", err.Error())
	b.watch.fail(b, err)
}

func (b *Binding) sleep(d time.Duration) {
	timer := b.connection.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-b.ctx.Done():
	}
}

// listAndWatch runs the reflector until the watch breaks, or its initial list stands still for too long.
func (b *Binding) listAndWatch(lister *toolscache.Reflector) error {
	ctx, cancel := context.WithCancelCause(b.ctx)
	defer cancel(nil)
	if err := b.takeTurn(ctx); err != nil {
		return err
	}
	defer b.listed(false)
	b.watchdog = b.connection.Clock.AfterFunc(b.connection.SyncTimeout, func() { cancel(ErrStalled) })
	defer b.watchdog.Stop()
	b.hearing.relist.Store(new(func() { cancel(ErrSilent) }))
	err := lister.ListAndWatchWithContext(klog.NewContext(ctx, b.connection.Logger.V(3)))
	if cause := context.Cause(ctx); errors.Is(cause, ErrStalled) || errors.Is(cause, ErrSilent) {
		return cause
	}
	return err
}

// takeTurn waits until the target may be asked for a list.
func (b *Binding) takeTurn(ctx context.Context) (err error) {
	if b.connection.Lists == nil {
		b.listed = func(bool) {}
		return nil
	}
	b.listed, err = b.connection.Lists.Take(ctx)
	return err
}

// Outcome receives once: nil when the first initial list is complete, or the reason why there is none.
func (b *Binding) Outcome() <-chan error { return b.outcome }

func (b *Binding) settle(err error) {
	select {
	case b.outcome <- err:
	default:
	}
}

// newReflector finds the resource of the kind that is watched and prepares to list and watch it.
func (b *Binding) newReflector() (*toolscache.Reflector, error) {
	kind := b.watch.spec.Kind
	mapping, err := b.connection.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		// The version may be gone while the kind is not. Who declared the watch asked for the kind.
		mapping, err = b.connection.Mapper.RESTMapping(kind.GroupKind())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot watch %s: %w", kind.Kind, err)
	}
	b.resource = mapping.Resource
	_, full := b.connection.full.Load(b.resource)
	b.trims = b.watch.spec.MetadataOnly && full
	example, lister := b.lister()
	log := b.connection.Logger.V(3)
	return toolscache.NewReflectorWithOptions(b.restrict(lister), example, b, toolscache.ReflectorOptions{
		Logger:          &log,
		Name:            b.watch.spec.Name,
		TypeDescription: kind.String(),
		Clock:           b.connection.Clock,
		Backoff:         &wait.Backoff{Duration: watchRetryMin, Cap: watchRetryMax, Steps: 8, Factor: 2, Jitter: 0.5},
	}), nil
}

// lister returns how to list and watch the resource, and an example of what comes.
func (b *Binding) lister() (runtime.Object, *toolscache.ListWatch) {
	if b.watch.spec.MetadataOnly && !b.trims {
		client := b.connection.Metadata.Resource(b.resource).Namespace(b.watch.spec.Namespace)
		resource := b.resource
		return &metav1.PartialObjectMetadata{}, &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				list, err := client.List(ctx, options)
				b.connection.noteRefusal(resource, err)
				return list, err
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				w, err := client.Watch(ctx, options)
				b.connection.noteRefusal(resource, err)
				return w, err
			},
		}
	}
	client := b.connection.Dynamic.Resource(b.resource).Namespace(b.watch.spec.Namespace)
	return &unstructured.Unstructured{}, &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: client.Watch,
	}
}

// noteRefusal remembers that a target says that it does not serve a resource as metadata. Servers behind the aggregation
// layer need not know how.
func (c *Connection) noteRefusal(resource schema.GroupVersionResource, err error) {
	if apierrors.IsNotAcceptable(err) || apierrors.IsUnsupportedMediaType(err) {
		c.full.Store(resource, struct{}{})
	}
}

// refused tells whether the target turned out not to serve what is asked for.
func (b *Binding) refused() bool {
	_, full := b.connection.full.Load(b.resource)
	return full && b.watch.spec.MetadataOnly && !b.trims
}

// restrict adds the selection to each call, and mends two habits of the reflector.
func (b *Binding) restrict(lister *toolscache.ListWatch) *toolscache.ListWatch {
	selectInto := func(options *metav1.ListOptions) {
		if b.watch.spec.LabelSelector != nil {
			options.LabelSelector = b.watch.spec.LabelSelector.String()
		}
		if b.watch.spec.FieldSelector != nil {
			options.FieldSelector = b.watch.spec.FieldSelector.String()
		}
	}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			// Version 0 means "anything you have in memory". An API server that lags behind would make us report
			// objects as deleted that are not.
			if options.ResourceVersion == "0" {
				options.ResourceVersion = ""
			}
			selectInto(&options)
			return lister.ListWithContextFunc(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			selectInto(&options)
			ctx, end := context.WithCancelCause(ctx)
			w, err := lister.WatchFuncWithContext(ctx, options)
			// While it streams an initial list the reflector waits out such errors without heeding its context, which
			// would keep its goroutine for a minute after the end of the connection. The binding waits instead.
			initial := options.SendInitialEvents != nil && *options.SendInitialEvents
			if initial && (apierrors.IsTooManyRequests(err) || utilnet.IsConnectionRefused(err)) {
				err = errors.New(err.Error())
			}
			if err != nil {
				end(nil)
				return nil, err
			}
			b.hearing.opened(end, b.connection.Clock.Now())
			return w, nil
		},
	}
}

// kept is an object after its transformation, as it passes through the reflector's own store.
type kept struct {
	key   types.NamespacedName
	value any
}

func (b *Binding) keep(obj any) (kept, bool) {
	if k, ok := obj.(kept); ok {
		return k, true
	}
	o, ok := obj.(client.Object)
	if !ok {
		return kept{}, false
	}
	key := client.ObjectKeyFromObject(o)
	if b.trims {
		partial := meta.AsPartialObjectMetadata(o)
		partial.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
		o = partial
	}
	return kept{key: key, value: b.watch.keep(o)}, true
}

// Transformer implements cache.TransformingStore: objects of an initial list are transformed as they come.
func (b *Binding) Transformer() toolscache.TransformFunc {
	return func(obj any) (any, error) {
		b.watchdog.Reset(b.connection.SyncTimeout)
		if k, ok := b.keep(obj); ok {
			return k, nil
		}
		return obj, nil
	}
}

// The methods that implement cache.ReflectorStore never fail: the reflector would log the object.

// Add implements cache.ReflectorStore.
func (b *Binding) Add(obj any) error { return b.Update(obj) }

// Update implements cache.ReflectorStore.
func (b *Binding) Update(obj any) error {
	b.connection.Events.Add(1)
	b.hearing.heard(b.connection.Clock.Now())
	if k, ok := b.keep(obj); ok {
		b.watch.set(b, k.key, k.value)
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (b *Binding) Delete(obj any) error {
	b.connection.Events.Add(1)
	b.hearing.heard(b.connection.Clock.Now())
	if o, ok := obj.(client.Object); ok {
		b.watch.remove(b, client.ObjectKeyFromObject(o))
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (b *Binding) Replace(list []any, _ string) error {
	b.watchdog.Stop()
	b.listed(true)
	b.connection.Events.Add(uint64(len(list)))
	values := make(map[types.NamespacedName]any, len(list))
	for _, obj := range list {
		if k, ok := b.keep(obj); ok {
			values[k.key] = k.value
		}
	}
	b.watch.replace(b, values)
	b.settle(nil)
	return nil
}

// Resync implements cache.ReflectorStore.
func (b *Binding) Resync() error { return nil }
