package controllers

import (
	"context"
	"time"

	"github.com/trellis-hub/trellis/controllers/targetcluster"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newTargetCluster(_ context.Context, t *term) (controller, error) {
	settings := t.Config.Controllers
	thresholds := make(map[string]time.Duration, len(settings.Care.ConditionThresholds))
	for _, threshold := range settings.Care.ConditionThresholds {
		thresholds[threshold.Type] = threshold.Duration.Duration
	}
	targets, err := targetcluster.New(targetcluster.Options{
		Client: t.Client, Live: t.Client, Cache: t.Cache, Clusters: t.Clusters, Guard: t.Guard,
		Holders: t.Holders, Events: t.Events, Members: t.Members, Facts: &t.facts,
		Registrations:       RegistrationSelector(t.Config),
		WatchedUntil:        t.WatchedUntil,
		Metrics:             t.Metrics.Targets,
		Thresholds:          thresholds,
		ProgressingLimit:    settings.Care.ManagedResourceProgressingThreshold.Duration,
		MonitorPeriod:       settings.Heartbeat.MonitorPeriod.Duration,
		TargetMonitorPeriod: settings.Heartbeat.TargetMonitorPeriod.Duration,
		ConcurrentSyncs:     settings.TargetCluster.ConcurrentSyncs,
		SyncPeriod:          settings.TargetCluster.SyncPeriod.Duration,
		Clock:               t.Clock,
		Logger:              t.Logger.WithName("targetcluster"),
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{targets.Start, []heartbeat.Loop{{Name: "targetcluster", StuckSince: targets.StuckSince}}}, nil
}
