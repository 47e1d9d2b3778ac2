package registration

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/semaphore"
)

// ReadTimeout is how long reading a kubeconfig may take. It takes milliseconds, since its size is bounded, so if it
// takes longer, the machine is overloaded.
const ReadTimeout = 10 * time.Second

// StartTimeout is how long the start waits for registrations to be read, those of all namespaces together. A namespace
// with very many, of which each takes long, must not keep the hub from serving the others.
const StartTimeout = 3 * ReadTimeout

// Options configure a Registry.
type Options struct {
	// Quota bounds the registrations of a namespace that are used.
	Quota int
	// Read reads a Secret.
	Read func(*corev1.Secret) *Registration
	// Register is called with each version of a registration that was read, and Unregister when it is gone or no longer
	// within the quota. Refuse is called for those beyond the quota, and Unrefuse when one that may have been refused is
	// gone. Calls are sequential, and must return quickly.
	Register   func(types.NamespacedName, *Registration)
	Unregister func(types.NamespacedName)
	Refuse     func(key types.NamespacedName, secret *corev1.Secret, message string)
	Unrefuse   func(types.NamespacedName)
	Clock      clock.WithTicker
	Logger     logr.Logger
}

// Registry knows the registration Secrets. It decides which of them are within the quota of their namespace, and has
// their kubeconfigs read: outside of informer handlers, a few at a time, fair between namespaces.
//
//	informer ---> observe, remove ---> quota ---> pool: read the newest version ---> Options.Register
//	                                     `------> Options.Refuse
//
// mu is locked while these are called, so that they get the changes of a registration in their order.
type Registry struct {
	options Options
	pool    *semaphore.Semaphore

	mu         sync.Mutex
	entries    map[types.NamespacedName]*entry
	namespaces map[string]*namespace
	complete   bool // all that existed at the start are here
	reading    sync.WaitGroup
}

// entry is a registration Secret.
type entry struct {
	key      types.NamespacedName
	secret   *corev1.Secret // its newest version
	admitted bool           // it is within the quota
	gone     bool
	version  int  // changes with each version of the Secret
	done     int  // the version that was read last
	reading  bool // a goroutine reads it
	// known is closed when it was registered or refused, or is gone.
	known chan struct{}
}

// namespace holds the registrations of one namespace.
type namespace struct {
	order    []*entry // the oldest first
	admitted int
}

// New returns a registry without registrations.
func New(options Options) *Registry {
	seats := int64(max(4, runtime.GOMAXPROCS(0)))
	return &Registry{
		options: options,
		pool:    semaphore.New(semaphore.Options{Size: seats, PerNamespace: seats / 2, PerOwner: 1}),
		entries: map[types.NamespacedName]*entry{}, namespaces: map[string]*namespace{},
	}
}

// Reading returns how many Secrets are being read.
func (r *Registry) Reading() int64 { return r.pool.Held() }

// Settled reports whether the newest version of a registration was read, or it is beyond the quota or not known.
func (r *Registry) Settled(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	return e == nil || !e.admitted || e.done == e.version
}

// Empty reports whether nothing is left of any registration.
func (r *Registry) Empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries) == 0 && len(r.namespaces) == 0
}

// older orders registrations by their age. Creation times have a resolution of a second.
func older(a, b *entry) int {
	age := a.secret.CreationTimestamp.Compare(b.secret.CreationTimestamp.Time)
	return cmp.Or(age, strings.Compare(a.key.Name, b.key.Name))
}

// observe takes a new version of a registration Secret.
func (r *Registry) observe(ctx context.Context, key types.NamespacedName, secret *corev1.Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	if e != nil && e.secret.UID == secret.UID && e.secret.ResourceVersion == secret.ResourceVersion {
		return
	}
	switch {
	case e == nil:
		e = &entry{key: key, secret: secret, known: make(chan struct{})}
		r.entries[key] = e
		r.insertLocked(e)
	case e.secret.UID != secret.UID:
		// Another one under the same name, whose predecessor went unnoticed. It has the rank of its own age.
		before := e.admitted
		r.withdrawLocked(e)
		e.secret, e.admitted = secret, false
		r.insertLocked(e)
		r.fillLocked(ctx, key.Namespace)
		if before && !e.admitted {
			r.options.Unregister(key)
		}
	default:
		e.secret = secret
	}
	e.version++
	r.fillLocked(ctx, key.Namespace)
	if e.admitted {
		r.startLocked(ctx, e)
	} else {
		r.refuseLocked(e)
	}
}

// remove notes that a registration is gone.
func (r *Registry) remove(ctx context.Context, key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	if e == nil {
		return
	}
	e.gone = true
	delete(r.entries, key)
	r.withdrawLocked(e)
	e.settle()
	// One that was admitted counts as refused until it was read, so that both may be there.
	r.options.Unrefuse(key)
	if e.admitted {
		r.options.Unregister(key)
	}
	r.fillLocked(ctx, key.Namespace)
}

// finish returns when all registrations that exist now are known, or ctx ended: they were read or refused, or the time
// is over for those that were not. From then on no registration is replaced by an older one, since its target may be in
// use.
func (r *Registry) finish(ctx context.Context) error {
	r.mu.Lock()
	r.complete = true
	var awaited []*entry
	for _, e := range r.entries {
		awaited = append(awaited, e)
	}
	r.mu.Unlock()
	timer := r.options.Clock.NewTimer(StartTimeout)
	defer timer.Stop()
	for _, e := range awaited {
		select {
		case <-e.known:
		case <-timer.C():
			r.postpone(awaited)
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// postpone registers those that were not read in time as unusable, since what is not registered may be taken for gone.
// What is read of them later replaces that.
func (r *Registry) postpone(awaited []*entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	postponed := 0
	for _, e := range awaited {
		if e.isKnown() {
			continue
		}
		r.options.Register(e.key, unread(e.secret, "the kubeconfig was not read within %s after the start of the hub, "+
			"but will be", StartTimeout))
		e.settle()
		postponed++
	}
	if postponed > 0 {
		r.options.Logger.Info("The start does not wait any longer for registrations that are yet to be read",
			"registrations", postponed, "after", StartTimeout)
	}
}

// wait returns when no read is under way, after the end of the context of all calls.
func (r *Registry) wait() {
	r.mu.Lock()   // nothing is started from now on
	r.mu.Unlock() //nolint:staticcheck // see above
	r.reading.Wait()
}

func (r *Registry) insertLocked(e *entry) {
	ns := r.namespaces[e.key.Namespace]
	if ns == nil {
		ns = &namespace{}
		r.namespaces[e.key.Namespace] = ns
	}
	at, _ := slices.BinarySearchFunc(ns.order, e, older)
	ns.order = slices.Insert(ns.order, at, e)
}

// withdrawLocked takes a registration out of the order of its namespace.
func (r *Registry) withdrawLocked(e *entry) {
	ns := r.namespaces[e.key.Namespace]
	if at, found := slices.BinarySearchFunc(ns.order, e, older); found {
		ns.order = slices.Delete(ns.order, at, at+1)
	}
	if e.admitted {
		ns.admitted--
	}
	if len(ns.order) == 0 {
		delete(r.namespaces, e.key.Namespace)
	}
}

// fillLocked admits the oldest registrations of a namespace as far as its quota goes. Before all are known, it also
// replaces the newest one by an older one.
func (r *Registry) fillLocked(ctx context.Context, namespace string) {
	ns := r.namespaces[namespace]
	if ns == nil {
		return
	}
	if !r.complete && len(ns.order) > r.options.Quota {
		if e := ns.order[r.options.Quota]; e.admitted { // an older one has been inserted before it
			e.admitted = false
			e.version++ // it has to be read again when it is admitted
			ns.admitted--
			r.options.Unregister(e.key)
			r.refuseLocked(e)
		}
	}
	if ns.admitted >= min(r.options.Quota, len(ns.order)) {
		return
	}
	for _, e := range ns.order {
		if !e.admitted && ns.admitted < r.options.Quota {
			e.admitted = true
			ns.admitted++
			r.startLocked(ctx, e)
		}
	}
}

// refuseLocked reports that a registration is beyond the quota.
func (r *Registry) refuseLocked(e *entry) {
	r.options.Refuse(e.key, e.secret, fmt.Sprintf("the namespace has more than %d registrations; "+
		"the newest wait until others are deleted, or until the hub is configured to allow more", r.options.Quota))
	e.settle()
}

// startLocked starts reading the newest version of a registration.
func (r *Registry) startLocked(ctx context.Context, e *entry) {
	if e.reading || e.done == e.version || ctx.Err() != nil {
		return
	}
	e.reading = true
	r.reading.Go(func() { r.run(ctx, e) })
}

// run reads a registration until its newest version was read.
func (r *Registry) run(ctx context.Context, e *entry) {
	for {
		release, err := r.pool.Acquire(ctx, e.key, 1)
		if err != nil {
			return // the registry ends
		}
		secret, version, ok := r.next(e)
		if !ok {
			release()
			return
		}
		result := r.readInTime(secret, func() { r.publish(e, version, overdue(secret), false) })
		release()
		r.publish(e, version, result, true)
	}
}

// readInTime reads a Secret, and calls late if that takes too long. It returns when it was read, which is bounded by
// its size.
func (r *Registry) readInTime(secret *corev1.Secret, late func()) *Registration {
	timer := r.options.Clock.NewTimer(ReadTimeout)
	defer timer.Stop()
	result := make(chan *Registration, 1)
	r.reading.Go(func() { result <- r.options.Read(secret) })
	select {
	case read := <-result:
		return read
	case <-timer.C():
		late()
		return <-result
	}
}

// next returns what is to be read of a registration, false if nothing is.
func (r *Registry) next(e *entry) (secret *corev1.Secret, version int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.gone || !e.admitted || e.done == e.version {
		e.reading = false
		return nil, 0, false
	}
	return e.secret, e.version, true
}

// publish hands on the result of reading a registration. A result that is not final may be replaced.
func (r *Registry) publish(e *entry, version int, result *Registration, final bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.done >= version {
		return
	}
	if final {
		e.done = version
	}
	if e.gone || !e.admitted || e.secret.UID != result.UID {
		return
	}
	r.options.Register(e.key, result)
	e.settle()
}

// overdue is a registration that takes too long to read.
func overdue(secret *corev1.Secret) *Registration {
	return unread(secret, "reading the kubeconfig takes longer than %s", ReadTimeout)
}

// unread is a registration of which nothing but the metadata is known yet.
func unread(secret *corev1.Secret, format string, args ...any) *Registration {
	r := describe(secret)
	r.Fault = &kubeconfig.FaultError{Reason: kubeconfig.ReasonInvalid, Message: fmt.Sprintf(format, args...)}
	return r
}

// settle notes that the registration is known, or gone.
func (e *entry) settle() {
	if !e.isKnown() {
		close(e.known)
	}
}

func (e *entry) isKnown() bool {
	select {
	case <-e.known:
		return true
	default:
		return false
	}
}
