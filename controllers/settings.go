package controllers

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/controlplane/providers"
)

const (
	// reasonControllersInvalid is that of the event about a TargetCluster whose controllers cannot work as it says.
	reasonControllersInvalid = "ControllersInvalid"
	// reasonWebhooksInvalid is that of the event about a TargetCluster whose webhooks cannot work as it says.
	reasonWebhooksInvalid = "WebhooksInvalid"
)

// newSettings returns the controller that writes events on TargetClusters about faulty settings for controllers or
// webhooks. The controllers and webhooks in question are off for these targets.
func newSettings(_ context.Context, t *term) (controller, error) {
	return controller{start: func(ctx context.Context) error {
		var work sync.WaitGroup
		defer work.Wait()
		if err := t.Settings.FollowFaults(ctx, &work, t.reportFaults); err != nil && ctx.Err() == nil {
			return err //nolint:wrapcheck // it says what was followed
		}
		<-ctx.Done()
		return nil
	}}, nil
}

func (t *term) reportFaults(key clustercache.ClusterKey) {
	status, _ := t.Clusters.GetStatus(key)
	status.Cluster = key
	t.reportFaultsOf(key, reasonControllersInvalid, "controllers", t.Settings.Faults(status))
	faults := t.Settings.WebhookFaults(status)
	if wanted := t.Settings.Webhooks(status).ControlPlanes; wanted != nil {
		path := field.NewPath("spec", "webhooks", "controlPlanes", "providers")
		faults = append(faults, providers.Unknown(wanted.Providers, path)...)
	}
	t.reportFaultsOf(key, reasonWebhooksInvalid, "webhooks", faults)
}

func (t *term) reportFaultsOf(key clustercache.ClusterKey, reason, what string, faults field.ErrorList) {
	if len(faults) == 0 {
		return
	}
	about := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	t.Events.Eventf(about, nil, corev1.EventTypeWarning, reason, "ReadSettings", "%s",
		untrusted.Message("the "+what+" in question are off for this target: "+faults.ToAggregate().Error()))
}

// followControllers calls changed for each target whose controllers may be others than before, until ctx ends: as
// Settings.FollowControllers does, and for a registration that serves another class. What it began has ended when work
// is done.
func (t *term) followControllers(
	ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
) error {
	if err := t.Settings.FollowControllers(ctx, work, changed); err != nil {
		return err //nolint:wrapcheck // it says what was followed
	}
	registrations := t.Clusters.GetClusterSource("classes of registrations")
	work.Go(func() {
		defer registrations.Close()
		classes := map[clustercache.ClusterKey]string{} // of those that are registered
		for {
			event, err := registrations.Next(ctx)
			if err != nil {
				return // with the term
			}
			status, registered := t.Clusters.GetStatus(event.Cluster)
			if !registered {
				delete(classes, event.Cluster)
				continue
			}
			before, known := classes[event.Cluster]
			classes[event.Cluster] = status.Labels[hubv1alpha1.ClassLabel]
			if known && before != classes[event.Cluster] {
				changed(event.Cluster)
			}
		}
	})
	return nil
}
