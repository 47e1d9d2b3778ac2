package clustercache

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/semaphore"
)

// parseTimeout is how long reading a kubeconfig may take. It takes milliseconds, since its size is bounded, so if it
// takes longer, the machine is overloaded.
const parseTimeout = 10 * time.Second

// startTimeout is how long the start waits for registrations to be read, those of all namespaces together. A namespace
// with very many, of which each takes long, must not keep the hub from serving the others.
const startTimeout = 3 * parseTimeout

// registry knows the registration Secrets. It decides which of them have a place within the quota of their namespace,
// and has their kubeconfigs read: outside of informer handlers, a few at a time, fair between namespaces.
//
//	informer ---> observe, remove ---> quota ---> pool: read the newest version ---> Cache.register
//	                                     `------> Cache.refuse
//
// mu is held while the Cache is notified, so that it gets the changes of a registration in their order.
type registry struct {
	cache *Cache
	read  func(*corev1.Secret) *registration
	pool  *semaphore.Semaphore
	most  int // registrations of a namespace

	mu         sync.Mutex
	entries    map[ClusterKey]*entry
	namespaces map[string]*registrations
	complete   bool // all that existed at the start are here
	reading    sync.WaitGroup
}

// entry is a registration Secret.
type entry struct {
	key      ClusterKey
	secret   *corev1.Secret // its newest version
	admitted bool           // it has a place
	gone     bool
	version  int  // changes with each version of the Secret
	done     int  // the version that was read last
	reading  bool // a goroutine reads it
	// known is closed when the cache knows the registration, or it is gone.
	known chan struct{}
}

// registrations are those of one namespace.
type registrations struct {
	order    []*entry // the oldest first
	admitted int
}

func newRegistry(c *Cache) *registry {
	places := int64(max(4, runtime.GOMAXPROCS(0)))
	policy := kubeconfig.Policy{AllowedProxyURLs: c.options.Dial.AllowedProxyURLs, Addresses: c.options.Dial.Addresses}
	return &registry{
		cache: c, most: c.options.MaxRegistrations,
		read:    func(s *corev1.Secret) *registration { return c.options.read(s, policy) },
		pool:    semaphore.New(semaphore.Options{Size: places, PerNamespace: places / 2, PerOwner: 1}),
		entries: map[ClusterKey]*entry{}, namespaces: map[string]*registrations{},
	}
}

// older orders registrations by their age. Creation times have a resolution of a second.
func older(a, b *entry) int {
	age := a.secret.CreationTimestamp.Compare(b.secret.CreationTimestamp.Time)
	return cmp.Or(age, strings.Compare(a.key.Name, b.key.Name))
}

// observe takes a new version of a registration Secret.
func (r *registry) observe(ctx context.Context, key ClusterKey, secret *corev1.Secret) {
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
		// Another one under the same name, whose predecessor went unnoticed. It has the place of its own age.
		before := e.admitted
		r.withdrawLocked(e)
		e.secret, e.admitted = secret, false
		r.insertLocked(e)
		r.fillLocked(ctx, key.Namespace)
		if before && !e.admitted {
			r.cache.unregister(key)
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
func (r *registry) remove(ctx context.Context, key ClusterKey) {
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
	// One that got a place counts as refused until it was read, so that both may be there.
	r.cache.unrefuse(key)
	if e.admitted {
		r.cache.unregister(key)
	}
	r.fillLocked(ctx, key.Namespace)
}

// finish returns when all registrations that exist now are known to the cache, or ctx ended: they were read or refused,
// or the time is over for those that were not. From then on no registration loses its place to an older one, since its
// target may be in use.
func (r *registry) finish(ctx context.Context) error {
	r.mu.Lock()
	r.complete = true
	var awaited []*entry
	for _, e := range r.entries {
		awaited = append(awaited, e)
	}
	r.mu.Unlock()
	timer := r.cache.options.Clock.NewTimer(startTimeout)
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
func (r *registry) postpone(awaited []*entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	postponed := 0
	for _, e := range awaited {
		if e.isKnown() {
			continue
		}
		r.cache.register(e.key, unread(e.secret, "the kubeconfig was not read within %s after the start of the hub, "+
			"but will be", startTimeout))
		e.settle()
		postponed++
	}
	if postponed > 0 {
		r.cache.options.Logger.Info("The start does not wait any longer for registrations that are yet to be read",
			"registrations", postponed, "after", startTimeout)
	}
}

// wait returns when no read is under way, after the end of the context of all calls.
func (r *registry) wait() {
	r.mu.Lock()   // nothing is started from now on
	r.mu.Unlock() //nolint:staticcheck // see above
	r.reading.Wait()
}

func (r *registry) insertLocked(e *entry) {
	ns := r.namespaces[e.key.Namespace]
	if ns == nil {
		ns = &registrations{}
		r.namespaces[e.key.Namespace] = ns
	}
	at, _ := slices.BinarySearchFunc(ns.order, e, older)
	ns.order = slices.Insert(ns.order, at, e)
}

// withdrawLocked takes a registration out of the order of its namespace.
func (r *registry) withdrawLocked(e *entry) {
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

// fillLocked gives the free places of a namespace to the oldest that have none. Before all are known, it also takes the
// place of the newest one for an older one.
func (r *registry) fillLocked(ctx context.Context, namespace string) {
	ns := r.namespaces[namespace]
	if ns == nil {
		return
	}
	if !r.complete && len(ns.order) > r.most {
		if e := ns.order[r.most]; e.admitted { // an older one has been inserted before it
			e.admitted = false
			e.version++ // it has to be read again when it gets a place
			ns.admitted--
			r.cache.unregister(e.key)
			r.refuseLocked(e)
		}
	}
	if ns.admitted >= min(r.most, len(ns.order)) {
		return
	}
	for _, e := range ns.order {
		if !e.admitted && ns.admitted < r.most {
			e.admitted = true
			ns.admitted++
			r.startLocked(ctx, e)
		}
	}
}

// refuseLocked reports that a registration has no place.
func (r *registry) refuseLocked(e *entry) {
	r.cache.refuse(e.key, e.secret, fmt.Sprintf("the namespace has more than %d registrations; "+
		"the newest wait until others are deleted, or until the hub is configured to allow more", r.most))
	e.settle()
}

// startLocked starts reading the newest version of a registration.
func (r *registry) startLocked(ctx context.Context, e *entry) {
	if e.reading || e.done == e.version || ctx.Err() != nil {
		return
	}
	e.reading = true
	r.reading.Go(func() { r.run(ctx, e) })
}

// run reads a registration until its newest version was read.
func (r *registry) run(ctx context.Context, e *entry) {
	for {
		release, err := r.pool.Acquire(ctx, e.key, 1)
		if err != nil {
			return // the cache ends
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
func (r *registry) readInTime(secret *corev1.Secret, late func()) *registration {
	timer := r.cache.options.Clock.NewTimer(parseTimeout)
	defer timer.Stop()
	result := make(chan *registration, 1)
	r.reading.Go(func() { result <- r.read(secret) })
	select {
	case read := <-result:
		return read
	case <-timer.C():
		late()
		return <-result
	}
}

// next returns what is to be read of a registration, false if nothing is.
func (r *registry) next(e *entry) (secret *corev1.Secret, version int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.gone || !e.admitted || e.done == e.version {
		e.reading = false
		return nil, 0, false
	}
	return e.secret, e.version, true
}

// publish hands the result of reading a registration to the cache. A result that is not final may be replaced.
func (r *registry) publish(e *entry, version int, result *registration, final bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.done >= version {
		return
	}
	if final {
		e.done = version
	}
	if e.gone || !e.admitted || e.secret.UID != result.uid {
		return
	}
	r.cache.register(e.key, result)
	e.settle()
}

// overdue is a registration that takes too long to read.
func overdue(secret *corev1.Secret) *registration {
	return unread(secret, "reading the kubeconfig takes longer than %s", parseTimeout)
}

// unread is a registration of which nothing but the metadata is known yet.
func unread(secret *corev1.Secret, format string, args ...any) *registration {
	r := describeRegistration(secret)
	r.fault = &kubeconfig.FaultError{Reason: kubeconfig.ReasonInvalid, Message: fmt.Sprintf(format, args...)}
	return r
}

// settle notes that the cache knows the registration, or that it is gone.
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

// refused is a registration without a place. It is small, because there may be very many of them.
type refused struct {
	secretName, resourceVersion string
	labels, annotations         map[string]string
	since                       time.Time
	message                     string
}

func (r *refused) status(key ClusterKey) Status {
	return Status{
		Cluster: key, State: StateRefused, Reason: ReasonQuotaExceeded, Message: r.message, Since: r.since,
		Labels: r.labels, Annotations: r.annotations,
		SecretName: r.secretName, SecretResourceVersion: r.resourceVersion,
	}
}

// refuse records a registration that has no place.
func (c *Cache) refuse(key ClusterKey, secret *corev1.Secret, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	all := c.refused[key.Namespace]
	if all == nil {
		all = map[string]*refused{}
		c.refused[key.Namespace] = all
	}
	since := c.options.Clock.Now()
	if before := all[key.Name]; before != nil {
		since = before.since
	} else {
		c.options.Logger.Info("Registration is refused", "target", key, "reason", ReasonQuotaExceeded)
	}
	all[key.Name] = &refused{
		secretName: secret.Name, resourceVersion: secret.ResourceVersion,
		labels: secret.Labels, annotations: secret.Annotations,
		since: since, message: message,
	}
	c.hub.Publish(key, EventRegistered)
}

// unrefuse drops a registration that had no place, if there is one.
func (c *Cache) unrefuse(key ClusterKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, refused := c.refused[key.Namespace][key.Name]
	c.unrefuseLocked(key)
	if refused && c.targets[key] == nil {
		c.hub.Publish(key, EventGone)
	}
}

func (c *Cache) unrefuseLocked(key ClusterKey) {
	delete(c.refused[key.Namespace], key.Name)
	if len(c.refused[key.Namespace]) == 0 {
		delete(c.refused, key.Namespace)
	}
}

// refusal returns the status of a registration that has no place.
func (c *Cache) refusal(key ClusterKey) (Status, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.refused[key.Namespace][key.Name]; r != nil {
		return r.status(key), true
	}
	return Status{}, false
}

// refusals returns the states of the registrations of a namespace that have no place, or of all namespaces if it is
// empty.
func (c *Cache) refusals(namespace string) []Status {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var states []Status
	for name, all := range c.refused {
		if namespace != "" && namespace != name {
			continue
		}
		for target, r := range all {
			key := ClusterKey{Namespace: name, Name: target}
			if c.targets[key] == nil { // else its predecessor is still there
				states = append(states, r.status(key))
			}
		}
	}
	return states
}
