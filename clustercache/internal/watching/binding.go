package watching

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/follow"
	"github.com/trellis-hub/trellis/clustercache/internal/seats"
)

const (
	// watchRetryMin and watchRetryMax bound the pause before a watch that failed is tried again; after watchRetryReset
	// without a failure the pause begins again.
	watchRetryMin   = time.Second
	watchRetryMax   = 30 * time.Second
	watchRetryReset = 2 * time.Minute
	// unknownRetryMin and unknownRetryMax are the same for kinds that the target does not know: looking again is cheap,
	// and their definitions are often applied in the same breath.
	unknownRetryMin = 200 * time.Millisecond
	unknownRetryMax = 2 * time.Second
	// optionalRetryMax takes the place of unknownRetryMax for kinds that most targets do not have.
	optionalRetryMax = time.Minute
	// fullRetry bounds the pauses after a target had more objects than the quota allows, which begin like the others: a
	// list of so many is work for the target, and only a user can correct the number or the quota. A watch that fits
	// again does not wait that long.
	fullRetry = 5 * time.Minute
)

// forgetful is after how many lists in a row whose versions were forgotten within watchRetryReset that is reported.
const forgetful = 3

// ErrForgetful is reported when a target forgets what it has just listed, again and again, so that it cannot be
// watched.
var ErrForgetful = errors.New("the target forgets the version of a list before it can be watched")

// ErrStalled is reported when a target accepts a watch and then says nothing.
var ErrStalled = errors.New("the initial list of the watch makes no progress")

// Connection is what bindings need of a connection. All bindings of a connection share one, so it is small.
type Connection struct {
	// Context ends with the connection.
	Context context.Context
	// Suspended returns nil while the connection is of use, else a channel that is closed when it is again. What watches
	// kept is not relied upon meanwhile, and nothing is said of their failures. Nil: it always is of use.
	Suspended func() <-chan struct{}
	// Fenced reports whether a call failed because it was not let out by the hub itself, of which nothing is said
	// either. Nil: none does.
	Fenced func(err error) bool
	// Outages returns how often the connection was not of use so far. Nil: never.
	Outages func() uint64
	Mapper  meta.ResettableRESTMapper
	// Client calls the API server whose address is Server.
	Client *http.Client
	Server *url.URL

	Clock clock.WithTickerAndDelayedExecution
	// SyncTimeout bounds how long an initial list may stand still, SilenceTimeout how long a watch may say nothing. Zero:
	// for ever.
	SyncTimeout, SilenceTimeout time.Duration
	Logger                      logr.Logger
	// Events counts the events of watches, objects of initial lists included.
	Events *atomic.Uint64
	// Lists are the seats for listing all objects of a kind. Nil: no bound.
	Lists *seats.Flow
	// Budget bounds the memory of large documents while they are read and decoded. Nil: there is no bound.
	Budget *follow.Share
	// Redact takes out of a text what must not be shown. Nil: nothing.
	Redact func(string) string

	// full are the resources that this target does not serve as metadata.
	full sync.Map // schema.GroupVersionResource -> struct{}
}

func (c *Connection) suspended() <-chan struct{} {
	if c.Suspended == nil {
		return nil
	}
	return c.Suspended()
}

func (c *Connection) outages() uint64 {
	if c.Outages == nil {
		return 0
	}
	return c.Outages()
}

// Binding runs a stream in one connection. A follower lists and watches, and the binding hands what comes to the
// stream.
type Binding struct {
	watch      *Stream
	connection *Connection
	ctx        context.Context
	cancel     context.CancelFunc

	// outcome receives what came first: nil for a complete initial list, or the reason why there is none.
	outcome chan error
	// watchdog ends an initial list that stands still; nil if none does. Only used by the goroutine of run.
	watchdog clock.Timer

	// follower is nil until the kind is known. resource is what the kind is served as. trims is true if it comes in full
	// and is cut down here. All are only used by the goroutine of run and what it calls.
	follower *follow.Follower
	resource schema.GroupVersionResource
	trims    bool
	// listing is what a list that is under way brought so far, nil if none is. Only used by the goroutine of run.
	listing *list
	// abort ends the attempt that is under way, which is overfull if there was no quota for an object. Only used by the
	// goroutine of Run.
	abort    context.CancelCauseFunc
	overfull bool

	activity     activity
	interruption interruption
	// achieved notes that an attempt came to a complete list, or continued where the one before was.
	achieved atomic.Bool
	// listed releases the place of the list that is under way. Only used by the goroutine of run.
	listed func(achieved bool)

	// staged is what a binding collects that is not the stream's feeder yet. Guarded by watch.deliver.
	staged *list
}

// Bind prepares a binding, which begins to work with Run and counts from Promote on.
func Bind(w *Stream, connection *Connection) *Binding {
	b := &Binding{watch: w, connection: connection, outcome: make(chan error, 1)}
	ctx, cancel := context.WithCancel(connection.Context)
	b.activity.patience(connection.SilenceTimeout)
	unbind := context.AfterFunc(w.ctx, cancel)
	b.ctx, b.cancel = ctx, func() { unbind(); cancel() }
	return b
}

// retries are what run remembers between two attempts.
type retries struct {
	started        time.Time // the attempt
	pause, unknown time.Duration
	failures       int
	forgotten      int // lists in a row
}

// Start keeps the watch going until the binding's context ends. It is to be called once. running waits for the end.
func (b *Binding) Start(running *sync.WaitGroup) { running.Go(b.run) }

func (b *Binding) run() {
	r := retries{pause: watchRetryMin}
	for b.tries(&r) {
		b.recover(&r, b.follow())
	}
	b.cancel()
	b.watch.shrink()
}

// tries begins an attempt, unless there are to be no more.
func (b *Binding) tries(r *retries) bool {
	r.started = b.connection.Clock.Now()
	b.achieved.Store(false)
	return b.ctx.Err() == nil
}

// recover waits until the next attempt is to be made.
func (b *Binding) recover(r *retries, err error) {
	if b.watch.ctx.Err() != nil {
		b.cancel() // it is about to be
	}
	if b.ctx.Err() != nil {
		return
	}
	if suspended := b.connection.suspended(); suspended != nil {
		select {
		case <-suspended:
		case <-b.ctx.Done():
		}
		return
	}
	if b.refused(err) {
		b.connection.Logger.Info("The target does not serve metadata of a kind; it is watched in full", "watch",
			b.watch.spec.Name)
		b.follower = nil
		return
	}
	if b.achieved.Load() && b.connection.Clock.Since(r.started) > watchRetryReset {
		r.pause, r.failures, r.forgotten = watchRetryMin, 0, 0
	}
	if err == nil {
		if r.forgotten++; r.forgotten >= forgetful {
			b.report(ErrForgetful)
		}
	} else if w := b.connection.Fenced; w == nil || !w(err) {
		r.failures++
		if IsAnswer(err) || errors.Is(err, ErrSilent) || errors.Is(err, ErrTooMany) || r.failures > 1 {
			b.report(err)
		}
		if apierrors.IsNotFound(err) {
			b.follower = nil // the kind may have moved to another resource or version, or be gone
			b.connection.Mapper.Reset()
		}
	}
	if errors.Is(err, ErrTooMany) {
		b.sleep(wait.Jitter(r.pause, 0.5), b.watch.spec.Quota.announce(b.watch))
		r.pause = min(2*r.pause, fullRetry)
		return
	}
	if meta.IsNoMatchError(err) {
		most := unknownRetryMax
		if b.watch.spec.Optional {
			most = optionalRetryMax
		}
		r.unknown = min(max(2*r.unknown, unknownRetryMin), most)
		b.sleep(wait.Jitter(r.unknown, 0.5), nil)
		return
	}
	b.sleep(wait.Jitter(r.pause, 0.5), nil)
	r.pause = min(2*r.pause, watchRetryMax)
}

// IsAnswer reports whether an error is the target's definite answer, in contrast to a call that failed on the way, or
// that the target is too busy for just now.
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
	log := b.connection.Logger
	if !errors.Is(err, ErrTooMany) {
		log = log.V(1) // only a refused watch is logged at level 0: it may be reported nowhere else
	}
	log.Info("Watch fails", "watch", b.watch.spec.Name, "error", err.Error())
	b.watch.fail(b, err)
}

// sleep waits for so long, or until there is something to wake up for.
func (b *Binding) sleep(d time.Duration, wake <-chan struct{}) {
	timer := b.connection.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-wake:
	case <-b.ctx.Done():
	}
}

// follow follows the kind until the watch breaks, or its initial list stands still for too long.
func (b *Binding) follow() error {
	ctx, err := b.begin()
	if err != nil {
		return err
	}
	return b.end(ctx, b.follower.Follow(ctx))
}

// begin prepares an attempt, which ends with the context.
//
//go:noinline
func (b *Binding) begin() (context.Context, error) {
	if b.follower == nil {
		if err := b.newFollower(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancelCause(b.ctx)
	quota := b.watch.spec.Quota
	if !quota.enter(b, cancel) {
		cancel(nil)
		b.follower.Forget()
		return nil, ErrTooMany
	}
	if err := b.awaitList(ctx); err != nil {
		quota.leave(b)
		cancel(nil)
		return nil, err
	}
	b.abort, b.overfull = cancel, false
	b.guard(cancel)
	return ctx, nil
}

// end cleans up after an attempt that the follower ended with an error, and returns what it ended with.
//
//go:noinline
func (b *Binding) end(ctx context.Context, err error) error {
	defer b.abort(nil)
	defer b.watch.spec.Quota.leave(b)
	b.listed(false)
	b.relax()
	if b.listing != nil || b.overfull {
		b.listing = nil
		b.watch.shrink()
	}
	b.interruption.stop()
	b.watch.distrust(b)
	b.watch.yield(b)
	if cause := context.Cause(ctx); errors.Is(cause, ErrStalled) || errors.Is(cause, ErrSilent) ||
		errors.Is(cause, ErrTooMany) {
		b.follower.Forget()
		err = cause
	}
	return err
}

// noList is listed while no list is under way.
func noList(bool) {}

// awaitList waits until the target may be asked for a list, if it is to be.
func (b *Binding) awaitList(ctx context.Context) (err error) {
	if b.connection.Lists == nil || b.follower.Listed() {
		b.listed = noList
		return nil
	}
	b.listed, err = b.connection.Lists.Acquire(ctx)
	return err
}

// guard has an attempt ended that stands still, or is silent.
func (b *Binding) guard(cancel context.CancelCauseFunc) {
	b.activity.relist.Store(new(func() { cancel(ErrSilent) }))
	b.watchdog = nil
	if b.connection.SyncTimeout > 0 && !b.follower.Listed() {
		b.watchdog = b.connection.Clock.AfterFunc(b.connection.SyncTimeout, func() { cancel(ErrStalled) })
	}
}

// relax ends the guard of a list.
func (b *Binding) relax() {
	if b.watchdog != nil {
		b.watchdog.Stop()
	}
}

// Outcome receives once: nil when the first initial list is complete, or the reason why there is none.
func (b *Binding) Outcome() <-chan error { return b.outcome }

func (b *Binding) settle(err error) {
	select {
	case b.outcome <- err:
	default:
	}
}

// newFollower finds the resource of the kind that is watched and prepares to follow it.
func (b *Binding) newFollower() error {
	spec := &b.watch.spec
	mapping, err := b.connection.Mapper.RESTMapping(spec.Kind.GroupKind(), spec.Kind.Version)
	if meta.IsNoMatchError(err) {
		// The version may be gone while the kind is not. Subscriptions are to the kind.
		mapping, err = b.connection.Mapper.RESTMapping(spec.Kind.GroupKind())
	}
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", spec.Kind.Kind, err)
	}
	b.resource = mapping.Resource
	_, full := b.connection.full.Load(b.resource)
	b.trims = spec.MetadataOnly && full
	c := follow.Collection{
		Client: b.connection.Client, Server: b.connection.Server, Clock: b.connection.Clock, Redact: b.connection.Redact,
		Suspended: b.connection.Suspended,
		Budget:    b.connection.Budget, Resource: b.resource, Kind: mapping.GroupVersionKind,
		Namespace: spec.Namespace, MetadataOnly: spec.MetadataOnly && !full,
		Endless: b.connection.SyncTimeout / 2, // what stands still was opened a bit after it was begun
	}
	c.Fields = spec.Fields
	if b.trims {
		c.Fields = [][]string{} // none
	}
	if spec.LabelSelector != nil {
		c.LabelSelector = spec.LabelSelector.String()
	}
	if spec.FieldSelector != nil {
		c.FieldSelector = spec.FieldSelector.String()
	}
	b.follower = follow.New(c, b)
	return nil
}

// refused reports whether the target says that it does not serve a kind as metadata, and remembers that. Servers behind
// the aggregation layer need not know how.
func (b *Binding) refused(err error) bool {
	if b.follower == nil || !b.watch.spec.MetadataOnly || b.trims || !apierrors.IsNotAcceptable(err) &&
		!apierrors.IsUnsupportedMediaType(err) {
		return false
	}
	b.connection.full.Store(b.resource, struct{}{})
	return true
}

// Begin implements follow.Sink.
func (b *Binding) Begin() { b.listing = newList() }

// Set implements follow.Sink.
func (b *Binding) Set(o client.Object) {
	b.connection.Events.Add(1)
	b.activity.received(b.connection.Clock.Now())
	key := client.ObjectKeyFromObject(o)
	if b.trims {
		partial := meta.AsPartialObjectMetadata(o)
		partial.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
		o = partial
	}
	if b.overfull {
		return // and so is what comes until the attempt has ended
	}
	value := b.watch.keep(o)
	var fits bool
	if b.listing == nil {
		fits = b.watch.set(b, key, value)
	} else {
		if b.watchdog != nil {
			b.watchdog.Reset(b.connection.SyncTimeout)
		}
		fits = b.watch.put(b, b.listing, key, value)
	}
	if !fits {
		b.overfull = true
		b.abort(ErrTooMany)
	}
}

// Remove implements follow.Sink.
func (b *Binding) Remove(o client.Object) {
	b.connection.Events.Add(1)
	b.activity.received(b.connection.Clock.Now())
	key := client.ObjectKeyFromObject(o)
	if b.overfull {
		return
	}
	if b.listing == nil {
		b.watch.remove(b, key)
		return
	}
	b.watch.take(b.listing, key)
}

// Complete implements follow.Sink.
func (b *Binding) Complete() {
	b.relax()
	if b.overfull || !b.watch.spec.Quota.reserve(b.watch, b.listing.size()) {
		return // it is not complete, or its watch was evicted
	}
	b.achieved.Store(true)
	b.watch.replace(b, b.listing)
	b.listing = nil
	b.listed(true)
	b.listed = noList // a watch that lasts keeps nothing of it
	b.settle(nil)
}

// Opened implements follow.Sink.
func (b *Binding) Opened(reopen func()) {
	now := b.connection.Clock.Now()
	b.activity.opened(reopen, now)
	b.reopened(now)
}

// Ended implements follow.Sink.
func (b *Binding) Ended() { b.ended() }

// Bookmark implements follow.Sink.
func (b *Binding) Bookmark() {
	b.activity.bookmarks.Store(true)
	b.activity.received(b.connection.Clock.Now())
	b.caughtUp()
}

var _ follow.Sink = &Binding{}
