package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers"
	"github.com/trellis-hub/trellis/leader/heartbeat"
	"github.com/trellis-hub/trellis/version"
)

// termEnd is how long the end of a term may take.
const termEnd = time.Minute

// newHeart returns the heartbeat, nil if no namespace is known for its Lease.
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
		Version:       version.Get().Version,
		Registrations: controllers.RegistrationSelector(h.Config).String(),
		Interval:      settings.RenewInterval.Duration, Validity: settings.MonitorPeriod.Duration,
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

// watchTerm has the loops of a term watched. It is called with the context of the term, and what it returns when the
// term is over. Between the two, a term that should have ended is stuck if it does not.
func (h *hub) watchTerm(ctx context.Context, loops []heartbeat.Loop) (over func()) {
	var ended atomic.Pointer[time.Time]
	noteEnd := context.AfterFunc(ctx, func() { ended.Store(new(h.Clock.Now())) })
	var remove []func()
	for _, loop := range loops {
		remove = append(remove, h.loops.Add(loop.Name, func(now time.Time) time.Time {
			if end := ended.Load(); end != nil {
				return end.Add(termEnd)
			}
			return loop.StuckSince(now)
		}))
	}
	return func() {
		noteEnd()
		for _, remove := range remove {
			remove()
		}
	}
}

// eventTime bounds what a consumer does with one event, which is all in memory.
const eventTime = time.Minute

// watchProbes adds two loops: the probes of all targets, and the consumers of their events. They are checked as
// long as the process lives.
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

// probesStuckSince returns since when no target at all has been looked after, zero if one is. That a single one is not,
// its condition HubReady says.
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
