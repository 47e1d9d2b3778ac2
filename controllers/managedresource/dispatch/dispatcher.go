package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/sharing"
)

// Options of a Dispatcher. All fields are required.
type Options struct {
	// Cache holds the informers of the source.
	Cache    ctrlcache.Cache
	Clusters clustercache.ClusterCache
	Assigner *assignment.Assigner
	Tracker  *tracker.Tracker
	// Shared records what ManagedResources list.
	Shared *sharing.Index
	// Ahead returns the state of a ManagedResource that was acted on though the informer did not show it; nil if there is
	// none.
	Ahead func(types.NamespacedName) *resourcesv1alpha1.ManagedResource
	// TakePending reports whether something of a ManagedResource is left to do for which its target was missing. It is
	// asked when that is back, and need not say so again. nil: of none is.
	TakePending func(types.NamespacedName) bool
	// Shown is called with each state of a ManagedResource that the informer shows, after everything else. nil: nothing is
	// called.
	Shown  func(*resourcesv1alpha1.ManagedResource)
	Clock  clock.PassiveClock
	Logger logr.Logger
}

// Dispatcher brings events to the queue of the class that is responsible. New makes one.
type Dispatcher struct {
	Options

	handling sync.Map // *handler -> time.Time: since when it has been dealing with an event

	mu     sync.RWMutex
	queues map[string]priorityqueue.PriorityQueue[Request]
}

// New returns a dispatcher without queues.
func New(o Options) *Dispatcher {
	if o.Shown == nil {
		o.Shown = func(*resourcesv1alpha1.ManagedResource) {}
	}
	if o.TakePending == nil {
		o.TakePending = func(types.NamespacedName) bool { return false }
	}
	return &Dispatcher{Options: o, queues: map[string]priorityqueue.PriorityQueue[Request]{}}
}

// SetQueue has the requests of a class go to a queue.
func (d *Dispatcher) SetQueue(class string, queue priorityqueue.PriorityQueue[Request]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queues[class] = queue
}

// EnqueueName queues a ManagedResource by its name, if it exists.
func (d *Dispatcher) EnqueueName(ctx context.Context, name types.NamespacedName, priority int) {
	d.withName(ctx, name, func(mr *resourcesv1alpha1.ManagedResource) { d.enqueue(ctx, mr, priority) })
}

// withName calls f with a ManagedResource, if it exists. If not, its delete event is on its way or was handled.
func (d *Dispatcher) withName(ctx context.Context, name types.NamespacedName, f func(
	*resourcesv1alpha1.ManagedResource)) {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := d.Cache.Get(ctx, name, mr, client.UnsafeDisableDeepCopy); err == nil {
		f(mr)
	}
}

// enqueue queues a ManagedResource that is ours, or that was: then to forget it.
func (d *Dispatcher) enqueue(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, priority int) {
	decision, err := d.Assigner.Decide(ctx, mr)
	if err != nil {
		if ctx.Err() == nil {
			d.Logger.Error(err, "Cannot decide about a ManagedResource", "managedResource",
				client.ObjectKeyFromObject(mr).String())
		}
		return
	}
	name := client.ObjectKeyFromObject(mr)
	if _, tracked := d.Tracker.Target(name); decision.Class != nil || tracked {
		d.Forward(decision, name, priority)
	}
}

// Forward queues a ManagedResource where a decision wants it.
func (d *Dispatcher) Forward(decision assignment.Decision, name types.NamespacedName, priority int) {
	request := Request{NamespacedName: name}
	class := ""
	if decision.Class != nil {
		class = decision.Class.Name
	}
	if decision.HasTarget {
		request.Target = decision.Target
	}
	d.mu.RLock()
	queue := d.queues[class]
	for _, any := range d.queues {
		if queue != nil {
			break
		}
		queue = any // not of a class of this hub any longer; the run forgets it
	}
	d.mu.RUnlock()
	if queue != nil {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
	}
}

// Watch registers all handlers and delivers events until ctx ends.
func (d *Dispatcher) Watch(ctx context.Context) error {
	for _, w := range []struct {
		kind    client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&resourcesv1alpha1.ManagedResource{}, d.managedResourceHandler(ctx)},
		{&hubv1alpha1.TargetCluster{}, d.targetClusterHandler(ctx)},
		{&coordinationv1.Lease{}, d.leaseHandler(ctx)},
		{&corev1.Namespace{}, d.namespaceHandler(ctx)},
	} {
		informer, err := d.Cache.GetInformer(ctx, w.kind)
		if err != nil {
			return err
		}
		registration, err := informer.AddEventHandler(d.timed(w.handler))
		if err != nil {
			return err
		}
		defer func() { _ = informer.RemoveEventHandler(registration) }()
	}
	events := d.Clusters.GetClusterSource("managedresource")
	defer events.Close()
	reported := map[clustercache.ClusterKey]reported{}
	for {
		event, err := events.Next(ctx)
		if err != nil {
			return nil // the end of ctx
		}
		d.clusterChanged(ctx, event, reported)
	}
}

func (d *Dispatcher) managedResourceHandler(ctx context.Context) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			priority := PriorityUser
			if initial {
				priority = PriorityResync
			}
			if mr, ok := obj.(*resourcesv1alpha1.ManagedResource); ok {
				d.Observe(ctx, mr)
				d.enqueue(ctx, mr, priority)
				d.Shown(mr)
			}
		},
		UpdateFunc: func(before, after any) {
			a, ok1 := before.(*resourcesv1alpha1.ManagedResource)
			b, ok2 := after.(*resourcesv1alpha1.ManagedResource)
			if !ok1 || !ok2 {
				return
			}
			d.Observe(ctx, b)
			if relevantChange(a, b) || d.undone(b) {
				d.enqueue(ctx, b, PriorityUser)
			}
			d.Shown(b)
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if mr, ok := obj.(*resourcesv1alpha1.ManagedResource); ok {
				d.concerned(ctx, d.Shared.Forget(client.ObjectKeyFromObject(mr), mr.UID))
				// Whichever class it was of: a run that finds nothing drops what is remembered of it.
				d.Forward(assignment.Decision{}, client.ObjectKeyFromObject(mr), PriorityResync)
			}
		},
	}
}

// Observe takes note of what a ManagedResource lists. Those that share objects with it are put into their queues for
// what it gives up.
func (d *Dispatcher) Observe(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) {
	d.concerned(ctx, d.Shared.Observe(mr))
}

// ObserveWrite takes note of a ManagedResource as it was written, or read from the server itself. Without its last
// finalizer it no longer exists, and the informer may have shown that before the write was answered. So what it listed
// is forgotten here.
func (d *Dispatcher) ObserveWrite(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) {
	if mr.DeletionTimestamp != nil && len(mr.Finalizers) == 0 {
		d.concerned(ctx, d.Shared.Forget(client.ObjectKeyFromObject(mr), mr.UID))
		return
	}
	d.Observe(ctx, mr)
}

// concerned queues the ManagedResources that are affected by what another one lists. Those of other namespaces are
// affected only if they have a target, and if the namespace of the other one was verified to reach it.
func (d *Dispatcher) concerned(ctx context.Context, change sharing.Change) {
	reaches := map[clustercache.ClusterKey]bool{}
	for _, name := range change.Concerned {
		if name.Namespace != change.Namespace {
			through, tracked := d.Tracker.Target(name)
			cluster, bound := change.Location.(sharing.Cluster)
			if !tracked || !bound {
				continue
			}
			does, known := reaches[through]
			if !known {
				does = d.Assigner.AccessTo(ctx, change.Namespace, types.UID(cluster), through) != assignment.NoAccess
				reaches[through] = does
			}
			if !does {
				continue
			}
		}
		d.EnqueueName(ctx, name, PriorityRetry)
	}
}

// relevantChange leaves out our own writes to marks and finalizer, and all but one to the status.
func relevantChange(a, b *resourcesv1alpha1.ManagedResource) bool {
	return a.UID != b.UID || a.Generation != b.Generation || marksLost(a, b) ||
		(a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) || becameUnhealthy(a, b) ||
		!equality.Semantic.DeepEqual(a.Labels, b.Labels) ||
		!equality.Semantic.DeepEqual(foreignFinalizers(a), foreignFinalizers(b)) ||
		!equality.Semantic.DeepEqual(foreignAnnotations(a), foreignAnnotations(b))
}

// undone reports whether a ManagedResource differs from what was last acted on, where that was read from the server
// itself. An informer that lists again after a gap does not show what came and went meanwhile.
func (d *Dispatcher) undone(b *resourcesv1alpha1.ManagedResource) bool {
	acted := d.Ahead(client.ObjectKeyFromObject(b))
	if acted == nil || !relevantChange(acted, b) {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(acted.ResourceVersion, b.ResourceVersion)
	return err != nil || c < 0
}

// becameUnhealthy reports whether a ManagedResource is reported as unhealthy that was not. A run checks it, whichever
// client reports it.
func becameUnhealthy(a, b *resourcesv1alpha1.ManagedResource) bool {
	was := resourcesv1alpha1.GetCondition(a.Status.Conditions, resourcesv1alpha1.ConditionResourcesHealthy)
	is := resourcesv1alpha1.GetCondition(b.Status.Conditions, resourcesv1alpha1.ConditionResourcesHealthy)
	return is != nil && is.Status == resourcesv1alpha1.ConditionFalse &&
		(was == nil || was.Status == resourcesv1alpha1.ConditionTrue)
}

// marksLost reports whether a client removed the annotation that says where the objects are, or the finalizer that
// keeps the ManagedResource until they are gone. If it was the hub itself, there is nothing left to do.
func marksLost(a, b *resourcesv1alpha1.ManagedResource) bool {
	own := resourcesv1alpha1.Finalizer(assignment.SpecClass(b))
	return a.Annotations[hubv1alpha1.TargetUIDAnnotation] != "" && (b.Annotations[hubv1alpha1.TargetUIDAnnotation] == "" ||
		slices.Contains(a.Finalizers, own) && !slices.Contains(b.Finalizers, own))
}

func foreignAnnotations(mr *resourcesv1alpha1.ManagedResource) map[string]string {
	out := map[string]string{}
	for k, v := range mr.Annotations {
		if k != hubv1alpha1.TargetUIDAnnotation && k != hubv1alpha1.AppliedAnnotation {
			out[k] = v
		}
	}
	return out
}

// foreignFinalizers are those that another instance may take off. Additions are of no interest.
func foreignFinalizers(mr *resourcesv1alpha1.ManagedResource) []string {
	own := ""
	if mr.Annotations[hubv1alpha1.TargetUIDAnnotation] != "" {
		own = resourcesv1alpha1.Finalizer(assignment.SpecClass(mr))
	}
	var out []string
	for _, f := range mr.Finalizers {
		if f != own {
			out = append(out, f)
		}
	}
	return out
}

func (d *Dispatcher) targetClusterHandler(ctx context.Context) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if tc, ok := obj.(*hubv1alpha1.TargetCluster); ok && tc.Status.ClusterUID != "" {
				d.enqueueTarget(ctx, client.ObjectKeyFromObject(tc), PriorityResync)
			}
		},
		UpdateFunc: func(before, after any) {
			a, ok1 := before.(*hubv1alpha1.TargetCluster)
			b, ok2 := after.(*hubv1alpha1.TargetCluster)
			if !ok1 || !ok2 || a.Spec.Paused == b.Spec.Paused && a.Status.ClusterUID == b.Status.ClusterUID &&
				a.Annotations[hubv1alpha1.HibernatedAnnotation] == b.Annotations[hubv1alpha1.HibernatedAnnotation] {
				return
			}
			d.enqueueTarget(ctx, client.ObjectKeyFromObject(b), PriorityRetry)
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if tc, ok := obj.(*hubv1alpha1.TargetCluster); ok {
				d.enqueueTarget(ctx, client.ObjectKeyFromObject(tc), PriorityRetry)
			}
		},
	}
}

// leaseHandler notices when a Gardener resource manager takes or gives up a namespace. Renewals put nothing into a
// queue, but the time at which they are seen here counts.
func (d *Dispatcher) leaseHandler(ctx context.Context) toolscache.ResourceEventHandler {
	held := map[string]time.Time{} // until when, by namespace; handlers are called one at a time
	seen := func(obj any, exists bool) {
		if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		lease, ok := obj.(*coordinationv1.Lease)
		if !ok || lease.Name != assignment.ResourceManagerLease {
			return
		}
		before, now := held[lease.Namespace], d.Clock.Now()
		var until time.Time
		if exists {
			until = d.Assigner.SeeLease(lease)
			held[lease.Namespace] = until
		} else {
			d.Assigner.LeaseGone(lease.Namespace)
			delete(held, lease.Namespace)
		}
		if before.After(now) != until.After(now) || until.Before(before) {
			d.enqueueNamespace(ctx, lease.Namespace, PriorityRetry)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen(obj, true) },
		UpdateFunc: func(_, obj any) { seen(obj, true) },
		DeleteFunc: func(obj any) { seen(obj, false) },
	}
}

func (d *Dispatcher) namespaceHandler(ctx context.Context) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		// A namespace may be known later than what is in it.
		AddFunc: func(obj any) {
			if ns, err := meta.Accessor(obj); err == nil {
				d.enqueueNamespace(ctx, ns.GetName(), PriorityResync)
			}
		},
		UpdateFunc: func(before, after any) {
			a, err1 := meta.Accessor(before)
			b, err2 := meta.Accessor(after)
			if err1 == nil && err2 == nil && !equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) {
				d.enqueueNamespace(ctx, b.GetName(), PriorityRetry)
			}
		},
	}
}

// reported is what was last reported of a target.
type reported struct {
	what string
	held int64 // the generation of the connection that may be back in a moment; zero if there is none
}

// clusterChanged queues the ManagedResources that a change of a target concerns. Successful probes concern none. before
// remembers what targets were said to be: of one that is not connected, the end of a first attempt that failed comes as
// a probe event, and so does every later failure with another text.
func (d *Dispatcher) clusterChanged(ctx context.Context, event clustercache.Event,
	before map[clustercache.ClusterKey]reported) {
	status, registered := d.Clusters.GetStatus(event.Cluster)
	was, now := before[event.Cluster], reported{what: string(status.State) + " " + WhyDown(status)}
	if status.State == clustercache.StateRefused {
		now.what += " " + status.Message
	}
	if status.InGrace {
		now.held = status.Connection
	}
	concerns := status.State != clustercache.StateConnected && was != now
	for _, t := range event.Types {
		concerns = concerns || t != clustercache.EventProbed
	}
	if status.InGrace && !event.Has(clustercache.EventRegistered) {
		concerns = false // what comes of it is not settled, and there is another event when it is
	}
	if registered {
		before[event.Cluster] = now
	} else {
		delete(before, event.Cluster)
	}
	returns := was.held != 0 && was.held == status.Connection && status.State == clustercache.StateConnected
	switch {
	case !concerns:
	case returns && !event.Has(clustercache.EventRegistered):
		d.enqueueReturned(ctx, event.Cluster)
	case registered && status.State != clustercache.StateConnected:
		// There is nothing to do but to say so, in thousands of ManagedResources if a network goes. No correction may wait
		// for that.
		d.enqueueTarget(ctx, event.Cluster, PriorityResync)
	default:
		d.enqueueTarget(ctx, event.Cluster, PriorityRetry)
	}
}

// enqueueReturned queues everything that is or may be in a target whose connection was resumed. Its watches report what
// they have missed, so a ManagedResource that is applied and shows no drift is only looked at in the background:
// hundreds of targets may be back at once, and corrections and the conditions that say so go first.
func (d *Dispatcher) enqueueReturned(ctx context.Context, cluster clustercache.ClusterKey) {
	d.eachIn(ctx, cluster, func(mr *resourcesv1alpha1.ManagedResource) {
		priority := PriorityRetry
		if d.isSettled(mr) {
			priority = PriorityResync
		}
		d.enqueue(ctx, mr, priority)
	})
}

// isSettled reports whether a ManagedResource is applied and shows no drift, as far as is known.
func (d *Dispatcher) isSettled(mr *resourcesv1alpha1.ManagedResource) bool {
	applied := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
	healthy := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesHealthy)
	name := client.ObjectKeyFromObject(mr)
	return applied != nil && applied.Status == resourcesv1alpha1.ConditionTrue && healthy != nil &&
		healthy.Status != resourcesv1alpha1.ConditionUnknown &&
		mr.Status.ObservedGeneration == mr.Generation && mr.DeletionTimestamp == nil && !d.TakePending(name) &&
		d.Tracker.Settled(name)
}

// WhyDown is the reason of a target that is down. That probes fail is how it begins; it is not another reason than
// being unreachable, which it is called a moment later.
func WhyDown(status clustercache.Status) string {
	if status.Reason == clustercache.ReasonProbeFailed {
		return clustercache.ReasonUnreachable
	}
	return status.Reason
}

// enqueueTarget queues everything that is or may be in a target.
func (d *Dispatcher) enqueueTarget(ctx context.Context, cluster clustercache.ClusterKey, priority int) {
	d.eachIn(ctx, cluster, func(mr *resourcesv1alpha1.ManagedResource) { d.enqueue(ctx, mr, priority) })
}

// eachIn calls f with everything that is or may be in a target.
func (d *Dispatcher) eachIn(ctx context.Context, cluster clustercache.ClusterKey, f func(
	*resourcesv1alpha1.ManagedResource)) {
	if cluster.Namespace != "" {
		d.Each(ctx, f, client.InNamespace(cluster.Namespace))
	}
	for _, name := range d.Tracker.In(cluster) {
		if name.Namespace != cluster.Namespace {
			d.withName(ctx, name, f)
		}
	}
	for _, class := range d.Assigner.Classes {
		fixed := class.Target.Type == configv1alpha1.TargetSource && cluster == assignment.SourceTarget ||
			class.Target.Type == configv1alpha1.TargetRegistration && cluster.Namespace == class.Target.Namespace &&
				cluster.Name == class.Target.Name
		if fixed {
			d.eachOfClass(ctx, class, f)
		}
	}
}

func (d *Dispatcher) eachOfClass(ctx context.Context, class *assignment.Class, f func(
	*resourcesv1alpha1.ManagedResource)) {
	d.Each(ctx, func(mr *resourcesv1alpha1.ManagedResource) {
		// Those that are leaving the class still have their objects in its target.
		if assignment.SpecClass(mr) == class.Name || slices.Contains(mr.Finalizers, class.Finalizer) {
			f(mr)
		}
	})
}

func (d *Dispatcher) enqueueNamespace(ctx context.Context, namespace string, priority int) {
	d.Each(ctx, func(mr *resourcesv1alpha1.ManagedResource) { d.enqueue(ctx, mr, priority) },
		client.InNamespace(namespace))
}

// Each calls f with every ManagedResource that the informer shows, of those that the options select, the oldest first,
// to the second. f must not change it. Definitions and Namespaces are usually created before what needs them, and an
// informer has no order: without one, most of a new target's ManagedResources would fail once and wait for another
// attempt.
func (d *Dispatcher) Each(ctx context.Context, f func(*resourcesv1alpha1.ManagedResource),
	options ...client.ListOption) {
	list := &resourcesv1alpha1.ManagedResourceList{}
	// The objects are only read, so the informer's own may be looked at.
	if err := d.Cache.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		if ctx.Err() == nil {
			d.Logger.Error(err, "Cannot list ManagedResources")
		}
		return
	}
	all := make([]*resourcesv1alpha1.ManagedResource, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	slices.SortFunc(all, func(a, b *resourcesv1alpha1.ManagedResource) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name))
	})
	for _, mr := range all {
		f(mr)
	}
}
