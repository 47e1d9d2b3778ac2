package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/targetcluster"
)

// current is the controller of the present term, nil between terms.
type current = atomic.Pointer[managedresource.Controller]

// term runs the controllers for one term of leadership.
func (h *hub) term(ctx context.Context) error {
	classes, err := h.classes(ctx)
	if err != nil {
		return err
	}
	events := newPacedEvents(h.manager.GetEventRecorder("trellis"), h.manager.GetScheme(), h.Clock)
	defer events.tellTheRest()
	settings := h.Config.Controllers.ManagedResource
	resources, err := managedresource.New(managedresource.Options{ //nolint:contextcheck // its callbacks get no context to pass on
		Cache: h.manager.GetCache(), Client: h.client, Clusters: h.clusters, Secrets: h.secrets, Bundles: h.bundles,
		Classes: classes, Events: events, Metrics: h.metrics, QueueMetrics: h.queues,
		Logger: h.Logger.WithName("managedresource"), Clock: h.Clock,
		ManagedBy: settings.ManagedByLabelValue, SyncPeriod: settings.SyncPeriod.Duration, AlwaysUpdate: settings.AlwaysUpdate, ParallelObjects: settings.MaxConcurrentObjects,
		KeepGarbageCollectable: settings.KeepGarbageCollectable,
	})
	if err != nil {
		return fmt.Errorf("setting up the controller of ManagedResources: %w", err)
	}
	h.now.Store(resources)
	defer h.now.Store(nil)

	targets, err := targetcluster.New(targetcluster.Options{
		Client: h.client, Live: h.client, Cache: h.manager.GetCache(), Clusters: h.clusters, Guard: h.guard,
		Events:              events,
		Members:             h.members,
		Thresholds:          thresholds(h.Config.Controllers.Care),
		ProgressingLimit:    h.Config.Controllers.Care.ManagedResourceProgressingThreshold.Duration,
		Reports:             h.report,
		WatchedUntil:        h.watchedUntil,
		MonitorPeriod:       h.Config.Controllers.Heartbeat.MonitorPeriod.Duration,
		TargetMonitorPeriod: h.Config.Controllers.Heartbeat.TargetMonitorPeriod.Duration,
		InUse:               resources.InUse,
		ManagedElsewhere:    resources.ManagedElsewhere,
		ConcurrentSyncs:     h.Config.Controllers.TargetCluster.ConcurrentSyncs,
		SyncPeriod:          h.Config.Controllers.TargetCluster.SyncPeriod.Duration,
		Clock:               h.Clock,
		Logger:              h.Logger.WithName("targetcluster"),
	})
	if err != nil {
		return fmt.Errorf("setting up the controller of TargetClusters: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	defer h.watchTerm(ctx, resources, targets)()
	group.Go(func() error { return h.beat(ctx) })
	group.Go(func() error { return events.start(ctx) })
	group.Go(func() error { return resources.Start(ctx) })
	group.Go(func() error { return targets.Start(ctx) })
	return group.Wait()
}

// report hands the figures of ManagedResources to the controller of TargetClusters.
func (h *hub) report(key clustercache.ClusterKey) (targetcluster.Report, bool) {
	resources := h.now.Load()
	if resources == nil {
		return targetcluster.Report{}, false
	}
	s := resources.Summary(key)
	return targetcluster.Report{DriftLastHour: s.DriftLastHour, DryRun: s.DryRun}, true
}

func thresholds(c configv1alpha1.Care) map[string]time.Duration {
	out := make(map[string]time.Duration, len(c.ConditionThresholds))
	for _, t := range c.ConditionThresholds {
		out[t.Type] = t.Duration.Duration
	}
	return out
}

// classes prepares the configured classes, with the cluster identity where their origins want it.
func (h *hub) classes(ctx context.Context) ([]managedresource.ClassOptions, error) {
	identities := map[string]string{}
	resolve := func(value *string) (string, error) {
		if value == nil {
			return "", nil
		}
		if id, ok := identities[*value]; ok {
			return id, nil
		}
		id, err := h.clusterID(ctx, *value)
		identities[*value] = id
		return id, err
	}
	all, err := resolve(h.Config.Controllers.ClusterID)
	if err != nil {
		return nil, err
	}
	var out []managedresource.ClassOptions
	for _, c := range h.Config.Classes {
		if c.ClusterID != nil {
			own, err := resolve(c.ClusterID)
			if err != nil {
				return nil, err
			}
			c.ClusterID = &own
		}
		class, err := assignment.NewClass(c, all)
		if err != nil {
			return nil, err
		}
		out = append(out, managedresource.ClassOptions{Class: class, ConcurrentSyncs: c.ConcurrentSyncs})
	}
	return out, nil
}

// clusterID resolves a configured cluster ID.
func (h *hub) clusterID(ctx context.Context, value string) (string, error) {
	if value != configv1alpha1.ClusterIDFromCluster && value != configv1alpha1.ClusterIDDefault {
		return value, nil
	}
	name := types.NamespacedName{Namespace: "kube-system", Name: "cluster-identity"}
	identity := &corev1.ConfigMap{}
	err := h.client.Get(ctx, name, identity)
	switch {
	case err == nil && identity.Data["cluster-identity"] != "":
		return identity.Data["cluster-identity"], nil
	case value == configv1alpha1.ClusterIDDefault && (err == nil || apierrors.IsNotFound(err)):
		return "", nil
	case err == nil:
		return "", fmt.Errorf("the cluster ID is to be taken from ConfigMap %s, which has no key cluster-identity", name)
	default:
		return "", fmt.Errorf("the cluster ID is to be taken from ConfigMap %s: %w", name, err)
	}
}
