package need

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
)

// named bounds how many ManagedResources are named.
const named = 10

// Here are the ManagedResources of the namespace of a target that have objects in it or will have: those that the
// hub has bound to the cluster, and of the others those that pick the target by its name, or whose class its
// registration serves. A registration that may not be read counts as one of the default class.
func Here(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster) (
	[]resourcesv1alpha1.ManagedResource, error) {
	registered, class := true, resourcesv1alpha1.DefaultClass
	registration, err := remote.Registration(ctx, source, tc.Namespace, tc.Name)
	switch {
	case err == nil:
		class = assignment.Normalize(registration.Labels[hubv1alpha1.ClassLabel])
	case cli.ExitCode(err) == cli.ExitNotFound:
		registered = false
	case cli.IsUnreachable(err):
		return nil, err
	}
	needs := func(mr *resourcesv1alpha1.ManagedResource) bool {
		if uid := mr.Annotations[hubv1alpha1.TargetUIDAnnotation]; uid != "" {
			return uid == string(tc.Status.ClusterUID)
		}
		if picked := mr.Labels[hubv1alpha1.ClusterNameLabel]; picked != "" {
			return picked == tc.Name
		}
		return registered && assignment.SpecClass(mr) == class
	}
	var mrs []resourcesv1alpha1.ManagedResource
	if err := listing.WholeManagedResources(ctx, source, listing.Scope{Namespace: tc.Namespace},
		func(mr *resourcesv1alpha1.ManagedResource) {
			if needs(mr) {
				mrs = append(mrs, *mr)
			}
		}, func() { mrs = nil }); err != nil {
		return nil, fmt.Errorf("listing ManagedResources: %w", err)
	}
	return mrs, nil
}

// elsewhere are the ManagedResources of other namespaces that have objects in a target, as namespace/name. Namespaces
// that register the cluster themselves do not need this registration. If the user may not list all namespaces, nothing
// is returned.
func elsewhere(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster) ([]string, error) {
	clusters, err := listing.Clusters(ctx, source, listing.Scope{})
	if err != nil {
		return nil, unlessForbidden(err)
	}
	registering := map[string]bool{tc.Namespace: true}
	for i := range clusters {
		other := &clusters[i]
		if _, gone := RegistrationGone(other); !gone && other.Status.ClusterUID == tc.Status.ClusterUID {
			registering[other.Namespace] = true
		}
	}
	keys, err := source.Keys(ctx, resourcesv1alpha1.GroupVersion.WithKind("ManagedResource"),
		func(mr *metav1.PartialObjectMetadata) bool {
			return !registering[mr.Namespace] &&
				mr.Annotations[hubv1alpha1.TargetUIDAnnotation] == string(tc.Status.ClusterUID)
		})
	if err != nil {
		return nil, unlessForbidden(fmt.Errorf("listing ManagedResources: %w", err))
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = key.String()
	}
	return names, nil
}

// unlessForbidden is an error unless it is that the user may not do something.
func unlessForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// RegistrationGone reports whether the registration of a TargetCluster was deleted, and why the TargetCluster remains.
func RegistrationGone(tc *hubv1alpha1.TargetCluster) (message string, gone bool) {
	ready := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionReady)
	if ready == nil || ready.Reason != hubv1alpha1.ReasonRegistrationGone {
		return "", false
	}
	return ready.Message, true
}

// Need are the ManagedResources that prevent the removal of a target.
type Need struct {
	// names are those that are known by name, with the number of their objects.
	names []string
	// unnamed is how many more the hub counts: in namespaces that the user may not list, or deleted since it counted.
	unnamed int
	// Objects is how many objects they have in the target.
	Objects int
}

// Of finds the ManagedResources that prevent the removal of a target; nil: no hub ever saw it. The hub also counts
// those of other namespaces; these are only listed if it counts more than there are in the namespace of the target.
func Of(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster) (Need, error) {
	n := Need{}
	if tc == nil {
		return n, nil
	}
	here, err := Here(ctx, source, tc)
	if err != nil {
		return n, err
	}
	for i := range here {
		mr := &here[i]
		n.Objects += len(mr.Status.Resources)
		name := mr.Name + " (" + cli.Count(len(mr.Status.Resources), "object")
		if mr.DeletionTimestamp != nil {
			name += ", is being deleted"
		}
		n.names = append(n.names, name+")")
	}
	if Count(tc) > len(here) && tc.Status.ClusterUID != "" {
		n.Objects = max(n.Objects, int(tc.Status.Objects))
		others, err := elsewhere(ctx, source, tc)
		if err != nil {
			return n, err
		}
		n.names = append(n.names, others...)
	}
	n.unnamed = max(0, Count(tc)-len(n.names))
	return n, nil
}

// Named reports whether some are known by name.
func (n Need) Named() bool { return len(n.names) > 0 }

// Total is how many ManagedResources need the target.
func (n Need) Total() int { return len(n.names) + n.unnamed }

// String names them, as many as fit.
func (n Need) String() string {
	shown := n.names[:min(len(n.names), named)]
	if more := len(n.names) - len(shown); more > 0 {
		shown = append(slices.Clone(shown), fmt.Sprintf("%d more", more))
	}
	text := strings.Join(shown, ", ")
	if n.unnamed == 0 {
		return text
	}
	if text != "" {
		text += ", and "
	}
	return fmt.Sprintf("%s%d of other namespaces, as the hub counts", text, n.unnamed)
}

// Count is how many ManagedResources need a target, as the hub counts them; 0 if there is no TargetCluster.
func Count(tc *hubv1alpha1.TargetCluster) int {
	if tc == nil || tc.Status.ManagedResources == nil {
		return 0
	}
	return int(tc.Status.ManagedResources.Total)
}
