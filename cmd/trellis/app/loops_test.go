package app

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/fake"
)

func TestProbesAreStuckIfNoTargetIsLookedAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const limit = 40 * time.Second
	old := now.Add(-time.Hour)
	connected := clustercache.Status{State: clustercache.StateConnected, Since: old}
	// Each state with when it was probed last.
	type target struct {
		clustercache.Status
		probed time.Time
	}
	tests := map[string]struct {
		targets []target
		since   time.Time
	}{
		"no target": {nil, time.Time{}},
		"only ones that are not to be probed": {[]target{{clustercache.Status{State: clustercache.StateRefused, Since: old},
			old}}, time.Time{}},
		"one that goes": {[]target{{clustercache.Status{State: clustercache.StateDraining,
			Since: old}, old}}, time.Time{}},
		"all are probed": {[]target{{connected, now}, {connected, now.Add(-time.Second)}},
			now.Add(limit)},
		"one is": {[]target{{connected, old}, {connected, now}}, now.Add(limit)},
		"none is": {[]target{{connected, old.Add(time.Minute)}, {connected, old}},
			old.Add(time.Minute + limit)},
		"one is registered just now": {[]target{{clustercache.Status{State: clustercache.StateConnecting,
			Since: now}, time.Time{}}}, now.Add(limit)},
		"one that is down is due in a while": {[]target{{clustercache.Status{State: clustercache.StateDisconnected,
			Since: old, NextAttempt: now.Add(4 * time.Second)}, old}}, now.Add(limit + 4*time.Second)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clusters := fake.New(nil)
			for i, target := range test.targets {
				target.Cluster = clustercache.ClusterKey{Namespace: "n", Name: string(rune('a' + i))}
				clusters.SetStatus(target.Status)
				clusters.SetHealth(target.Cluster, clustercache.HealthCheckingState{LastProbeTime: target.probed})
			}
			NewWithT(t).Expect(probesStuckSince(t.Context(), clusters, limit)).To(Equal(test.since))
		})
	}
}
