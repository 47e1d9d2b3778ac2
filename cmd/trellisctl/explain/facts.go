package explain

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

// heartbeatLimit is the maximum age of the heartbeat of a working hub.
const heartbeatLimit = 40 * time.Second

// Facts are the objects from which a cause is found. Those that the user may not read are missing.
type Facts struct {
	Now time.Time
	// Namespace and Name say what it is about.
	Namespace, Name string
	// Heartbeat is the Lease that a working hub renews; nil if it was not found, and HeartbeatKnown is false if it could
	// not be read.
	Heartbeat      *coordinationv1.Lease
	HeartbeatKnown bool

	// ManagedResource is what it is about, if it is about one; nil if there is none.
	ManagedResource *resourcesv1alpha1.ManagedResource
	// Cluster is the TargetCluster: what it is about, or where the ManagedResource goes.
	Cluster *hubv1alpha1.TargetCluster
	// Classes are those of the registrations of the namespace of a ManagedResource, by name.
	Classes map[string]string
	// TargetKnown is false if it could not be found out where the ManagedResource goes.
	TargetKnown bool
	// Source is true if the ManagedResource goes to the source cluster.
	Source bool
	// Registration is the Secret of the cluster; nil if there is none, and RegistrationKnown is false if it could not be
	// read.
	Registration      *corev1.Secret
	RegistrationKnown bool
}

// uid is that of what it is about, "" if there is none.
func (f *Facts) uid() types.UID {
	switch {
	case f.ManagedResource != nil:
		return f.ManagedResource.UID
	case f.Cluster != nil:
		return f.Cluster.UID
	}
	return ""
}

// gather reads the facts.
func (w *why) gather(ctx context.Context, source *cli.Source, subject cli.Subject) (*Facts, error) {
	f, err := w.beat(ctx, source, source.Namespace, subject.Name)
	if err != nil {
		return nil, err
	}
	if subject.Kind == cli.KindCluster {
		return f, f.aboutCluster(ctx, source)
	}
	if f.ManagedResource, err = source.ManagedResource(ctx, subject.Name); err != nil {
		return nil, err
	}
	return f, f.aboutTarget(ctx, source)
}

// beat begins the facts about something with the heartbeat of the hub.
func (w *why) beat(ctx context.Context, source *cli.Source, namespace, name string) (*Facts, error) {
	f := &Facts{Now: w.env.Clock.Now(), Namespace: namespace, Name: name}
	lease := &coordinationv1.Lease{}
	err := source.Get(ctx, client.ObjectKey{Namespace: w.hubNamespace, Name: w.hubLease}, lease)
	switch {
	case err == nil:
		f.Heartbeat, f.HeartbeatKnown = lease, true
	case cli.ExitCode(err) == cli.ExitUnreachable:
		return nil, fmt.Errorf("reading the heartbeat of the hub: %w", err)
	}
	return f, nil
}

func (f *Facts) aboutCluster(ctx context.Context, source *cli.Source) error {
	tc, err := source.TargetCluster(ctx, f.Name)
	if err != nil && cli.ExitCode(err) != cli.ExitNotFound {
		return err
	}
	f.Cluster = tc
	f.registration(ctx, source, f.Namespace, f.Name)
	if f.Cluster == nil && f.RegistrationKnown && f.Registration == nil {
		return cli.NotFound("there is no cluster %s in namespace %s: neither a TargetCluster nor a Secret %s", f.Name,
			f.Namespace, remote.SecretName(f.Name))
	}
	return nil
}

func (f *Facts) registration(ctx context.Context, source *cli.Source, namespace, name string) {
	s, err := remote.Registration(ctx, source, namespace, name)
	f.RegistrationKnown = err == nil || cli.ExitCode(err) == cli.ExitNotFound
	if err == nil {
		f.Registration = s
	}
}

// aboutTarget finds out where the ManagedResource goes.
func (f *Facts) aboutTarget(ctx context.Context, source *cli.Source) error {
	here := &hubv1alpha1.TargetClusterList{}
	if err := source.List(ctx, here, client.InNamespace(f.Namespace)); err != nil {
		return fmt.Errorf("listing TargetClusters: %w", err)
	}
	f.Classes = map[string]string{}
	for i := range here.Items {
		if s, err := remote.Registration(ctx, source, f.Namespace, here.Items[i].Name); err == nil {
			f.Classes[here.Items[i].Name] = s.Labels[hubv1alpha1.ClassLabel]
		}
	}
	found, err := remote.Of(ctx, source, f.ManagedResource, "")
	if err != nil {
		if cli.IsUnreachable(err) {
			return err
		}
		// A missing target is a fact that the causes explain; a missing right to read it is not.
		f.TargetKnown = !apierrors.IsForbidden(err)
		return nil
	}
	f.Source, f.Cluster, f.TargetKnown = found.Source, found.Cluster, true
	return nil
}
