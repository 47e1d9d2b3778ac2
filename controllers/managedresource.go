package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/workers"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newManagedResource(ctx context.Context, t *term) (controller, error) {
	classes, err := classes(ctx, t.Config, t.Client)
	if err != nil {
		return controller{}, err
	}
	settings := t.Config.Controllers.ManagedResource
	//nolint:contextcheck // its callbacks get no context to pass on
	resources, err := managedresource.New(managedresource.Options{
		Cache: t.Cache, Client: t.Client, Clusters: t.Clusters, Secrets: t.Secrets, Bundles: t.Bundles, Classes: classes,
		Events: t.Events, Facts: &t.facts, Metrics: t.Metrics.Resources, QueueMetrics: t.Metrics.Queues,
		ManagedBy:       settings.ManagedByLabelValue,
		SyncPeriod:      settings.SyncPeriod.Duration,
		AlwaysUpdate:    settings.AlwaysUpdate,
		ParallelObjects: settings.MaxConcurrentObjects,
		KeepGarbageCollectable: func(target clustercache.ClusterKey) bool {
			status, _ := t.Clusters.GetStatus(target)
			status.Cluster = target
			return settings.KeepGarbageCollectable || t.Settings.CollectsGarbage(status)
		},
		Clock:  t.Clock,
		Logger: t.Logger.WithName("managedresource"),
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says of which controller
	}
	return controller{resources.Start, []heartbeat.Loop{
		{Name: "managedresource", StuckSince: func(time.Time) time.Time {
			_, idle, queues := t.Metrics.Queues.Idle()
			return queuesStuckSince(resources.Began(), len(classes)-queues, idle, resources.WorkersLostSince())
		}},
		{Name: "events of the source", StuckSince: func(time.Time) time.Time {
			if oldest := resources.OldestHandling(); !oldest.IsZero() {
				return oldest.Add(handling)
			}
			return time.Time{}
		}},
	}}, nil
}

const (
	// beginning is how long the queues of a term may take to be there.
	beginning = time.Minute
	// handOut is how long an item may wait although a worker is free.
	handOut = time.Minute
	// handling is how long the handling of one event may take, which is all in memory.
	handling = time.Minute
)

// queuesStuckSince returns since when the work on ManagedResources has been stuck, zero if it is not: a queue is
// missing for too long after the beginning, or has not handed out what it could since idle, or all workers of a class
// were lost to runs that never end. How long runs take does not count: that depends on their targets. Before the
// beginning, which is zero then, the term waits for the source, for as long as that takes.
func queuesStuckSince(began time.Time, missing int, idle, lost time.Time) time.Time {
	switch {
	case missing > 0 && !began.IsZero():
		return began.Add(beginning)
	case !idle.IsZero() && (lost.IsZero() || idle.Add(handOut).Before(lost)):
		return idle.Add(handOut)
	default:
		return lost
	}
}

// classes prepares the configured classes, with the cluster identity where their origins want it.
func classes(
	ctx context.Context, config *configv1alpha1.HubConfiguration, source client.Reader,
) ([]workers.Class, error) {
	identities := map[string]string{}
	resolve := func(value *string) (string, error) {
		if value == nil {
			return "", nil
		}
		if id, ok := identities[*value]; ok {
			return id, nil
		}
		id, err := clusterID(ctx, source, *value)
		identities[*value] = id
		return id, err
	}
	all, err := resolve(config.Controllers.ClusterID)
	if err != nil {
		return nil, err
	}
	var out []workers.Class
	for _, c := range config.Classes {
		if c.ClusterID != nil {
			own, err := resolve(c.ClusterID)
			if err != nil {
				return nil, err
			}
			c.ClusterID = &own
		}
		class, err := assignment.NewClass(c, all)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the class
		}
		out = append(out, workers.Class{Class: class, ConcurrentSyncs: c.ConcurrentSyncs})
	}
	return out, nil
}

// clusterID resolves a configured cluster ID.
func clusterID(ctx context.Context, source client.Reader, value string) (string, error) {
	if value != configv1alpha1.ClusterIDFromCluster && value != configv1alpha1.ClusterIDDefault {
		return value, nil
	}
	name := types.NamespacedName{Namespace: "kube-system", Name: "cluster-identity"}
	identity := &corev1.ConfigMap{}
	err := source.Get(ctx, name, identity)
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
