package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/heartbeat"
	"github.com/trellis-hub/trellis/controllers/managedresource"
	"github.com/trellis-hub/trellis/controllers/targetcluster"
)

// termChange bounds the beginning and the end of a term.
const termChange = time.Minute

// newHeart returns the heartbeat, nil if nobody says where its Lease should be.
func (h *hub) newHeart() (*heartbeat.Heart, error) {
	election, settings := h.Config.LeaderElection, h.Config.Controllers.Heartbeat
	if election.ResourceNamespace == "" {
		return nil, nil
	}
	// Like the Lease of the leader election, it has calls of its own.
	config := rest.CopyConfig(h.Source)
	config.QPS, config.Burst = -1, 0
	config.Timeout = settings.RenewInterval.Duration / 2
	config.Wrap(h.leader.Fence().Wrap)
	config.Dial = h.leader.Fence().Dial
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("heartbeat: %w", err)
	}
	h.sockets = append(h.sockets, http.Transport)
	client, err := kubernetes.NewForConfigAndClient(config, http)
	if err != nil {
		return nil, fmt.Errorf("heartbeat: %w", err)
	}
	return heartbeat.New(heartbeat.Options{
		Leases:    client.CoordinationV1().Leases(election.ResourceNamespace),
		Namespace: election.ResourceNamespace, Name: election.ResourceName + heartbeat.NameSuffix, Identity: h.Identity,
		Interval: settings.RenewInterval.Duration, Validity: settings.MonitorPeriod.Duration,
		Loops: h.loops, Events: h.manager.GetEventRecorder("trellis"), Clock: h.Clock,
		Logger: h.Logger.WithName("heartbeat"), Registerer: h.Registerer,
	})
}

// beat shows for one term that the hub works.
func (h *hub) beat(ctx context.Context) error {
	if h.heart == nil {
		<-ctx.Done()
		return nil
	}
	return h.heart.Start(ctx)
}

// watchedUntil is when a hub gave its last sign of life before this term.
func (h *hub) watchedUntil() time.Time {
	if h.heart == nil {
		return time.Time{}
	}
	return h.heart.WatchedUntil()
}

// watchTerm has the loops of a term watched. It is called with the context of the term, and what it returns when the term is
// over. Between the two, a term that should have ended is stuck if it does not.
func (h *hub) watchTerm(ctx context.Context, resources *managedresource.Controller, targets *targetcluster.Controller) (over func()) {
	var ended atomic.Pointer[time.Time]
	noteEnd := context.AfterFunc(ctx, func() { ended.Store(new(h.Clock.Now())) })
	inTerm := func(during heartbeat.StuckSince) heartbeat.StuckSince {
		return func(now time.Time) time.Time {
			if end := ended.Load(); end != nil {
				return end.Add(termChange)
			}
			return during(now)
		}
	}
	queues := h.loops.Add("managedresource", inTerm(func(time.Time) time.Time {
		_, idle, queues := h.queues.Idle()
		return queuesStuckSince(resources.Began(), len(h.Config.Classes)-queues, idle, resources.WorkersLostSince())
	}))
	handlers := h.loops.Add("events of the source", inTerm(func(time.Time) time.Time {
		if oldest := resources.OldestHandling(); !oldest.IsZero() {
			return oldest.Add(eventTime)
		}
		return time.Time{}
	}))
	controller := h.loops.Add("targetcluster", inTerm(func(time.Time) time.Time {
		if oldest := targets.OldestRun(); !oldest.IsZero() {
			return oldest.Add(targetcluster.RunTimeout)
		}
		return time.Time{}
	}))
	return func() {
		noteEnd()
		queues()
		handlers()
		controller()
	}
}

// handOut bounds how long an item waits although a worker is free.
const handOut = time.Minute

// queuesStuckSince returns since when the work on ManagedResources has been stuck, zero if it is not: a queue is
// missing for too long after the beginning, or has not handed out what it could since idle, or all workers of a class
// were lost to runs that never end. How long runs take does not count: that depends on their targets. Before the
// beginning, which is zero then, the term waits for the source, for as long as that takes.
func queuesStuckSince(began time.Time, missing int, idle, lost time.Time) time.Time {
	switch {
	case missing > 0 && !began.IsZero():
		return began.Add(termChange)
	case !idle.IsZero() && (lost.IsZero() || idle.Add(handOut).Before(lost)):
		return idle.Add(handOut)
	default:
		return lost
	}
}

// eventTime bounds what a consumer does with one event, which is all in memory.
const eventTime = time.Minute

// watchProbes has the probes of all targets watched, and who deals with their events, as long as the process lives.
func (h *hub) watchProbes(ctx context.Context) {
	h.loops.Add("probes", func(time.Time) time.Time {
		return probesStuckSince(ctx, h.clusters, h.Config.Controllers.Heartbeat.MonitorPeriod.Duration)
	})
	h.loops.Add("events of targets", func(time.Time) time.Time {
		if oldest := h.clusters.OldestHandling(); !oldest.IsZero() {
			return oldest.Add(eventTime)
		}
		return time.Time{}
	})
}

// probesStuckSince returns since when no target at all has been looked after, zero if one is. That a single one is not, its
// condition HubReady says.
func probesStuckSince(ctx context.Context, clusters clustercache.ClusterCache, limit time.Duration) time.Time {
	var newest time.Time
	for _, status := range clusters.List("") {
		switch status.State {
		case clustercache.StateRefused, clustercache.StateDraining, clustercache.StateHibernated:
			continue // nothing is done until its Secret changes or it wakes, or nothing may be left to do
		}
		health := clusters.GetHealthCheckingState(ctx, status.Cluster)
		for _, sign := range []time.Time{status.Since, status.NextAttempt, health.LastProbeTime} {
			if sign.After(newest) {
				newest = sign
			}
		}
	}
	if newest.IsZero() {
		return newest
	}
	return newest.Add(limit)
}
