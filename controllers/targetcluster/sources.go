package targetcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// sources puts targets into the queue: when the clustercache has news, when their TargetCluster or one of their ManagedResources
// changed, and when somebody calls enqueue. The usual sources of controller-runtime do not fit, because their handlers stay at the informer for ever.
type sources struct {
	options    Options
	identities *identity.Index
	news       *news
	sweep      func(context.Context, func(...clustercache.ClusterKey)) // looks at targets that need no reconciliation
	running    sync.WaitGroup

	mu    sync.Mutex
	queue queue
	ended bool // nothing is started any more
}

// Start implements source.Source. It returns once all TargetClusters that exist were seen, so that the first
// reconciliation already knows which targets are the same cluster.
func (s *sources) Start(ctx context.Context, q queue) error {
	// The controller does not wait for a source that is still starting when its context ends, but wait does.
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil
	}
	s.queue = q
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()

	if err := s.watch(ctx, &hubv1alpha1.TargetCluster{}, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.observe(nil, obj) },
		UpdateFunc: s.observe,
		DeleteFunc: s.observeDelete,
	}); err != nil {
		return err
	}
	if s.options.Members != nil {
		if err := s.watch(ctx, &resourcesv1alpha1.ManagedResource{}, toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(obj any, initial bool) { //nolint:contextcheck // answered from memory
				if !initial { // all targets are looked at in the beginning
					s.observeMember(nil, obj)
				}
			},
			UpdateFunc: s.observeMember,
			DeleteFunc: func(obj any) { s.observeMember(obj, nil) }, //nolint:contextcheck // answered from memory
		}); err != nil {
			return err
		}
	}
	s.running.Go(func() { s.forward(ctx) })
	s.running.Go(func() { s.sweep(ctx, s.enqueue) })
	return nil
}

// watch has a handler told of all objects of a kind until ctx ends. It returns when the handler has seen those that exist.
func (s *sources) watch(ctx context.Context, kind client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := s.options.Cache.GetInformer(ctx, kind)
	if err != nil {
		return fmt.Errorf("cannot watch %T: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("cannot watch %T: %w", kind, err)
	}
	s.running.Go(func() {
		<-ctx.Done()
		if err := informer.RemoveEventHandler(registration); err != nil {
			s.options.Logger.Error(err, "Could not remove a handler", "kind", fmt.Sprintf("%T", kind))
		}
	})
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return ctx.Err()
	}
	return nil
}

// wait returns when Start and everything it started have ended.
func (s *sources) wait() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.running.Wait()
}

// forward puts the targets into the queue that the clustercache has news of.
func (s *sources) forward(ctx context.Context) {
	news := s.options.Clusters.GetClusterSource(ControllerName)
	defer news.Close()
	for {
		event, err := news.Next(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
				s.options.Logger.Error(err, "The news of the targets have ended")
			}
			return
		}
		if event.Cluster.Namespace != "" { // static targets have no TargetCluster
			if s.changesWhoServes(event) {
				s.news.ofNamespace(event.Cluster.Namespace) // which of them serves what may have changed
			}
			if s.onlyWords(event) {
				s.enqueueAfter(flapPause, event.Cluster)
			} else {
				s.enqueue(event.Cluster)
			}
		}
	}
}

// changesWhoServes tells whether another target of the namespace may be the one that serves now: one appeared, changed its labels, or goes, or
// one that goes was refused, and is not going any more.
func (s *sources) changesWhoServes(event clustercache.Event) bool {
	if event.Has(clustercache.EventRegistered) || event.Has(clustercache.EventDraining) || event.Has(clustercache.EventGone) {
		return true
	}
	status, _ := s.options.Clusters.GetStatus(event.Cluster)
	return event.Has(clustercache.EventDisconnected) && status.State == clustercache.StateRefused
}

// onlyWords tells whether all that is new of a target is how an attempt failed to go on with a connection that is held. That it is lost was
// told before, and a status waits longer for other words.
func (s *sources) onlyWords(event clustercache.Event) bool {
	status, _ := s.options.Clusters.GetStatus(event.Cluster)
	return status.Held && len(event.Types) == 1 && event.Has(clustercache.EventProbed)
}

func (s *sources) observe(before, after any) {
	tc, ok := after.(*hubv1alpha1.TargetCluster)
	if !ok {
		return
	}
	key := clustercache.ClusterKey{Namespace: tc.Namespace, Name: tc.Name}
	s.enqueue(s.identities.Set(key, tc.Status.ClusterUID)...)

	old, ok := before.(*hubv1alpha1.TargetCluster)
	if ok && old.Generation == tc.Generation && maps.Equal(old.Annotations, tc.Annotations) && tc.DeletionTimestamp.Equal(old.DeletionTimestamp) {
		return // it is our own status
	}
	s.enqueue(key)
}

func (s *sources) observeDelete(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if tc, ok := obj.(*hubv1alpha1.TargetCluster); ok {
		key := clustercache.ClusterKey{Namespace: tc.Namespace, Name: tc.Name}
		s.enqueue(s.identities.Set(key, "")...)
		s.enqueue(key)
	}
}

// observeMember has the targets looked at that a change of a ManagedResource concerns. Either state may be nil.
func (s *sources) observeMember(before, after any) {
	if tombstone, ok := before.(toolscache.DeletedFinalStateUnknown); ok {
		before = tombstone.Obj
	}
	a, _ := before.(*resourcesv1alpha1.ManagedResource)
	b, _ := after.(*resourcesv1alpha1.ManagedResource)
	s.enqueueAfter(membersPause, s.options.Members.Concerned(a, b, s.identities.Of)...)
}

// membersPause is how long a change of a ManagedResource waits for others of the same target. In a roll-out there are some at
// each of them, and each look is one at all of them.
const membersPause = 500 * time.Millisecond

// enqueue has targets reconciled.
func (s *sources) enqueue(keys ...clustercache.ClusterKey) { s.enqueueAfter(0, keys...) }

// enqueueAfter has targets reconciled after a pause, if nothing else does so before. Whatever is new passes here.
func (s *sources) enqueueAfter(pause time.Duration, keys ...clustercache.ClusterKey) {
	s.news.add(keys...)
	s.mu.Lock()
	q := s.queue
	s.mu.Unlock()
	if q == nil {
		return
	}
	for _, key := range keys {
		q.AddAfter(reconcile.Request{NamespacedName: key}, pause)
	}
}
