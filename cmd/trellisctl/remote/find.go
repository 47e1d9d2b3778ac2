package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/addresses"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
)

// SourceName is the name of the source cluster as a target.
const SourceName = "source"

// Found is the target of a ManagedResource.
type Found struct {
	// Source is true for the source cluster itself. Then there is no TargetCluster.
	Source bool
	// Cluster is the TargetCluster.
	Cluster *hubv1alpha1.TargetCluster
}

// String is namespace/name of the TargetCluster, or SourceName.
func (f *Found) String() string {
	if f.Source {
		return SourceName
	}
	return f.Cluster.Namespace + "/" + f.Cluster.Name
}

// Of finds the target of a ManagedResource. wish, if not empty, is the user's choice: "source", a name or
// namespace/name. Else it is the cluster that has its objects already, or the only registration of its namespace that
// serves its class.
func Of(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource, wish string) (*Found, error) {
	if wish != "" {
		return wished(ctx, source, mr.Namespace, wish)
	}
	here := &hubv1alpha1.TargetClusterList{}
	if err := source.List(ctx, here, client.InNamespace(mr.Namespace)); err != nil {
		return nil, fmt.Errorf("listing TargetClusters: %w", err)
	}
	if uid := types.UID(mr.Annotations[hubv1alpha1.TargetUIDAnnotation]); uid != "" {
		return marked(ctx, source, here.Items, mr, uid)
	}
	candidates, err := candidates(ctx, source, here.Items, mr)
	if err != nil {
		return nil, err
	}
	class := assignment.ClassName(assignment.SpecClass(mr))
	switch len(candidates) {
	case 1:
		return &Found{Cluster: &candidates[0]}, nil
	case 0:
		return nil, cli.NotFound(
			"no registration in namespace %s serves class %s%s; if the class has a target of its own, name it with --target",
			mr.Namespace, class, ofLabel(mr))
	}
	names := make([]string, 0, len(candidates))
	for i := range candidates {
		names = append(names, candidates[i].Name)
	}
	return nil, cli.Refused(
		"several registrations in namespace %s serve class %s: %s; the label %s of the ManagedResource picks one",
		mr.Namespace, class, strings.Join(names, ", "), hubv1alpha1.ClusterNameLabel)
}

func ofLabel(mr *resourcesv1alpha1.ManagedResource) string {
	if picked := mr.Labels[hubv1alpha1.ClusterNameLabel]; picked != "" {
		return fmt.Sprintf(" under the name %s, which the label %s asks for", picked, hubv1alpha1.ClusterNameLabel)
	}
	return ""
}

func wished(ctx context.Context, source *cli.Source, namespace, wish string) (*Found, error) {
	if wish == SourceName {
		return &Found{Source: true}, nil
	}
	key := client.ObjectKey{Namespace: namespace, Name: wish}
	if ns, name, found := strings.Cut(wish, "/"); found {
		key = client.ObjectKey{Namespace: ns, Name: name}
	}
	tc := &hubv1alpha1.TargetCluster{}
	if err := source.Get(ctx, key, tc); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, cli.NotFound("there is no TargetCluster %s", key)
		}
		return nil, fmt.Errorf("reading TargetCluster %s: %w", key, err)
	}
	return &Found{Cluster: tc}, nil
}

// Named finds the target that a user names as for Of, but for the source; or if wish is empty, the only one of the
// namespace.
func Named(ctx context.Context, source *cli.Source, wish string) (*Found, error) {
	if wish == SourceName {
		return nil, cli.Usage("the source cluster is no target that this can be about")
	}
	if wish != "" {
		return wished(ctx, source, source.Namespace, wish)
	}
	here := &hubv1alpha1.TargetClusterList{}
	if err := source.List(ctx, here, client.InNamespace(source.Namespace)); err != nil {
		return nil, fmt.Errorf("listing TargetClusters: %w", err)
	}
	switch len(here.Items) {
	case 1:
		return &Found{Cluster: &here.Items[0]}, nil
	case 0:
		return nil, cli.NotFound("there is no TargetCluster in namespace %s", source.Namespace)
	}
	names := make([]string, 0, len(here.Items))
	for i := range here.Items {
		names = append(names, here.Items[i].Name)
	}
	return nil, cli.Refused("there are several TargetClusters in namespace %s: %s; name one of them with --target",
		source.Namespace, strings.Join(names, ", "))
}

// marked finds the target that has the objects of a ManagedResource. Of several registrations of one cluster, it
// returns that of its label or else the first one: they lead to the same objects.
func marked(ctx context.Context, source *cli.Source, here []hubv1alpha1.TargetCluster,
	mr *resourcesv1alpha1.ManagedResource, uid types.UID) (*Found, error) {
	var found *Found
	for i := range here {
		if here[i].Status.ClusterUID == uid && (found == nil || here[i].Name == mr.Labels[hubv1alpha1.ClusterNameLabel]) {
			found = &Found{Cluster: &here[i]}
		}
	}
	if found != nil {
		return found, nil
	}
	system := &corev1.Namespace{}
	if err := source.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err == nil && system.UID == uid {
		return &Found{Source: true}, nil
	}
	// A class with a registration in another namespace. Without the right to list there, the user has to name it.
	everywhere := &hubv1alpha1.TargetClusterList{}
	if err := source.List(ctx, everywhere); err == nil {
		for i := range everywhere.Items {
			if everywhere.Items[i].Status.ClusterUID == uid {
				return &Found{Cluster: &everywhere.Items[i]}, nil
			}
		}
	}
	return nil, cli.NotFound("the cluster with UID %s, which has the objects of ManagedResource %s/%s, is no longer "+
		"registered; name another one with --target",
		uid, mr.Namespace, mr.Name)
}

// candidates are the registrations of the namespace that serve the class of a ManagedResource.
func candidates(ctx context.Context, source *cli.Source, here []hubv1alpha1.TargetCluster,
	mr *resourcesv1alpha1.ManagedResource) ([]hubv1alpha1.TargetCluster, error) {
	var out []hubv1alpha1.TargetCluster
	for i := range here {
		tc := &here[i]
		if picked := mr.Labels[hubv1alpha1.ClusterNameLabel]; picked != "" && picked != tc.Name {
			continue
		}
		if unregistered(tc) {
			continue // the hub's selector of registrations may leave the Secret out
		}
		registration, err := Registration(ctx, source, tc.Namespace, tc.Name)
		if err != nil {
			if cli.ExitCode(err) == cli.ExitNotFound {
				continue // created in advance, or its registration is gone
			}
			return nil, err
		}
		if assignment.Normalize(registration.Labels[hubv1alpha1.ClassLabel]) == assignment.SpecClass(mr) {
			out = append(out, *tc)
		}
	}
	return out, nil
}

// unregistered reports whether the hub reports that a target has no registration.
func unregistered(tc *hubv1alpha1.TargetCluster) bool {
	return slices.ContainsFunc(tc.Status.Conditions, func(c metav1.Condition) bool {
		return c.Reason == hubv1alpha1.ReasonRegistrationGone
	})
}

// SecretName is the name of the registration of a target.
func SecretName(name string) string { return secret.Name(name, secret.Kubeconfig) }

// Registration reads the registration of a target.
func Registration(ctx context.Context, source *cli.Source, namespace, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	key := client.ObjectKey{Namespace: namespace, Name: SecretName(name)}
	if err := source.Get(ctx, key, s); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, cli.NotFound("cluster %s is not registered: there is no Secret %s", name, key)
		}
		return nil, fmt.Errorf("reading the registration %s: %w", key, err)
	}
	return s, nil
}

// Open connects to the target of a ManagedResource. It fails if that is not the cluster that the hub knows as the
// target.
func Open(ctx context.Context, source *cli.Source, found *Found, timeout time.Duration,
	policy kubeconfig.Policy) (*Connection, error) {
	if found.Source {
		return ConnectREST(ctx, source.Config, timeout, addresses.Any())
	}
	registration, err := Registration(ctx, source, found.Cluster.Namespace, found.Cluster.Name)
	if err != nil {
		return nil, err
	}
	config, err := kubeconfig.FromSecret(registration, policy)
	if err != nil {
		return nil, unusable(fmt.Sprintf("the registration of %s", found), err)
	}
	connection, err := Connect(ctx, config, timeout, policy.Addresses)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", found, err)
	}
	if known := found.Cluster.Status.ClusterUID; known != "" && known != connection.UID {
		return nil, cli.Refused("target %s is the cluster with UID %s, but its registration leads to the cluster with UID %s",
			found, known, connection.UID)
	}
	return connection, nil
}
