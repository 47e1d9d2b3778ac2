package explain

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/diagnosis"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

// gather reads the facts.
func (w *why) gather(ctx context.Context, source *cli.Source, subject cli.Subject) (*diagnosis.Facts, error) {
	f, err := w.beat(ctx, source, source.Namespace, subject.Name)
	if err != nil {
		return nil, err
	}
	if subject.Kind == cli.KindCluster {
		return f, aboutCluster(ctx, source, f)
	}
	if f.ManagedResource, err = source.ManagedResource(ctx, subject.Name); err != nil {
		return nil, err
	}
	return f, aboutTarget(ctx, source, f)
}

// beat begins the facts about something with the heartbeat of the hub.
func (w *why) beat(ctx context.Context, source *cli.Source, namespace, name string) (*diagnosis.Facts, error) {
	now := w.env.Clock.Now()
	heartbeat, err := w.hub.Read(ctx, source, now)
	if err != nil {
		return nil, fmt.Errorf("reading the heartbeat of the hub: %w", err)
	}
	return &diagnosis.Facts{Now: now, Namespace: namespace, Name: name, Heartbeat: heartbeat}, nil
}

// aboutCluster adds what there is about a cluster.
func aboutCluster(ctx context.Context, source *cli.Source, f *diagnosis.Facts) error {
	tc, err := source.TargetCluster(ctx, f.Name)
	if err != nil && cli.ExitCode(err) != cli.ExitNotFound {
		return err
	}
	f.Cluster = tc
	addRegistration(ctx, source, f)
	if f.Cluster == nil && f.RegistrationKnown && f.Registration == nil {
		return cli.NotFound("there is no cluster %s in namespace %s: neither a TargetCluster nor a Secret %s", f.Name,
			f.Namespace, remote.SecretName(f.Name))
	}
	return nil
}

// addRegistration adds the Secret of a cluster.
func addRegistration(ctx context.Context, source *cli.Source, f *diagnosis.Facts) {
	s, err := remote.Registration(ctx, source, f.Namespace, f.Name)
	f.RegistrationKnown = err == nil || cli.ExitCode(err) == cli.ExitNotFound
	if err == nil {
		f.Registration = s
	}
}

// aboutTarget adds the target of a ManagedResource. If there is none, it adds the classes that the registrations of its
// namespace serve.
func aboutTarget(ctx context.Context, source *cli.Source, f *diagnosis.Facts) error {
	found, err := remote.Of(ctx, source, f.ManagedResource, "")
	switch {
	case err == nil:
		f.Source, f.Cluster, f.TargetKnown = found.Source, found.Cluster, true
		return nil
	case cli.IsUnreachable(err):
		return err
	}
	// A missing target is a fact that the causes explain; a missing right to read it is not.
	f.TargetKnown = !apierrors.IsForbidden(err)
	here := &hubv1alpha1.TargetClusterList{}
	if err := source.List(ctx, here, client.InNamespace(f.Namespace)); err != nil {
		return fmt.Errorf("listing TargetClusters: %w", err)
	}
	f.Classes = map[string]string{}
	for i := range here.Items {
		if s, err := remote.Registration(ctx, source, f.Namespace, here.Items[i].Name); err == nil &&
			f.Heartbeat.Registers(s.Labels) {
			f.Classes[here.Items[i].Name] = s.Labels[hubv1alpha1.ClassLabel]
		}
	}
	return nil
}
