package targetcluster

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// sources puts targets into the queue: when the clustercache has events, when their TargetCluster or one of their
// ManagedResources changed, and when enqueue is called. The usual sources of controller-runtime do not fit, because
// their handlers stay at the informer for ever.
type sources struct {
	options    Options
	identities *identity.Index
	revisions  *revisions
	sweep      func(context.Context, func(...clustercache.ClusterKey)) // refreshes targets that need no reconciliation
	running    sync.WaitGroup

	mu    sync.Mutex
	queue queue
	ended bool // nothing is started any longer
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

	err := informers.Follow(ctx, s.options.Cache, &hubv1alpha1.TargetCluster{}, &s.running, s.observe)
	if err == nil && s.options.Members != nil {
		err = informers.Follow(ctx, s.options.Cache, &resourcesv1alpha1.ManagedResource{}, &s.running, s.observeMember)
	}
	if err != nil {
		return err //nolint:wrapcheck // it says what was watched
	}
	s.running.Go(func() { s.forward(ctx) })
	s.running.Go(func() { s.sweep(ctx, s.enqueue) })
	return nil
}

// wait returns when Start and everything it started have ended.
func (s *sources) wait() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.running.Wait()
}

// forward puts the targets into the queue of which the clustercache has events.
func (s *sources) forward(ctx context.Context) {
	events := s.options.Clusters.GetClusterSource(ControllerName)
	defer events.Close()
	for {
		event, err := events.Next(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
				s.options.Logger.Error(err, "The events of targets have ended")
			}
			return
		}
		if event.Cluster.Namespace != "" { // static targets have no TargetCluster
			if s.changesWhoServes(event) {
				s.revisions.addNamespace(event.Cluster.Namespace) // which of them serves what may have changed
			}
			if s.onlyWords(event) {
				s.enqueueAfter(flapPause, event.Cluster)
			} else {
				s.enqueue(event.Cluster)
			}
		}
	}
}

// changesWhoServes reports whether another target of the namespace may be the one that serves now: one appeared,
// changed its labels, or goes, or one that goes was refused, and is not going any longer.
func (s *sources) changesWhoServes(event clustercache.Event) bool {
	if event.Has(clustercache.EventRegistered) || event.Has(clustercache.EventDraining) ||
		event.Has(clustercache.EventGone) {
		return true
	}
	status, _ := s.options.Clusters.GetStatus(event.Cluster)
	return event.Has(clustercache.EventDisconnected) && status.State == clustercache.StateRefused
}

// onlyWords reports whether all that is new of a target is how an attempt to restore its connection failed. That it is
// lost is written already, and other wordings wait longer.
func (s *sources) onlyWords(event clustercache.Event) bool {
	status, _ := s.options.Clusters.GetStatus(event.Cluster)
	return status.InGrace && len(event.Types) == 1 && event.Has(clustercache.EventProbed)
}

// observe has the targets reconciled that a change of a TargetCluster concerns.
func (s *sources) observe(before, after *hubv1alpha1.TargetCluster, _ bool) {
	if after == nil {
		key := client.ObjectKeyFromObject(before)
		s.enqueue(s.identities.Set(key, identity.Claim{})...)
		s.enqueue(key)
		return
	}
	key := client.ObjectKeyFromObject(after)
	s.enqueue(s.identities.Set(key, identity.ClaimOf(after))...)
	if before != nil && before.Generation == after.Generation && maps.Equal(before.Annotations, after.Annotations) &&
		after.DeletionTimestamp.Equal(before.DeletionTimestamp) {
		return // it is our own status
	}
	s.enqueue(key)
}

// observeMember has the targets reconciled that a change of a ManagedResource concerns. In the beginning all are
// anyway.
func (s *sources) observeMember(before, after *resourcesv1alpha1.ManagedResource, initial bool) {
	if !initial {
		s.enqueueAfter(membersPause, s.options.Members.Concerned(before, after, s.identities.Of)...)
	}
}

// membersPause is how long a change of a ManagedResource waits for others of the same target. In a roll-out there are
// some at each of them, and each reconciliation reads all of them.
const membersPause = 500 * time.Millisecond

// enqueue has targets reconciled.
func (s *sources) enqueue(keys ...clustercache.ClusterKey) { s.enqueueAfter(0, keys...) }

// enqueueAfter has targets reconciled after a pause, if nothing else does so before, and counts that something is new.
func (s *sources) enqueueAfter(pause time.Duration, keys ...clustercache.ClusterKey) {
	s.revisions.add(keys...)
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
