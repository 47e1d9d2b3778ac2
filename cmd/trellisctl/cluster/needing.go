package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
)

// elsewherePage bounds an answer when the ManagedResources of all namespaces are listed.
const elsewherePage = 500

// needing are the ManagedResources of the namespace of a target that have objects in it or will have: those that the
// hub has bound to the cluster, and of the others those that pick the target by its name, or whose class its
// registration serves. A registration that may not be read counts as one of the default class.
func needing(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster) (
	[]resourcesv1alpha1.ManagedResource, error) {
	mrs := &resourcesv1alpha1.ManagedResourceList{}
	if err := source.List(ctx, mrs, client.InNamespace(tc.Namespace)); err != nil {
		return nil, fmt.Errorf("listing ManagedResources: %w", err)
	}
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
	return slices.DeleteFunc(mrs.Items, func(mr resourcesv1alpha1.ManagedResource) bool {
		if uid := mr.Annotations[hubv1alpha1.TargetUIDAnnotation]; uid != "" {
			return uid != string(tc.Status.ClusterUID)
		}
		if picked := mr.Labels[hubv1alpha1.ClusterNameLabel]; picked != "" {
			return picked != tc.Name
		}
		return !registered || assignment.SpecClass(&mr) != class
	}), nil
}

// elsewhere are the ManagedResources of other namespaces that have objects in a target, as namespace/name; none if the
// user may not list them.
func elsewhere(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster) (names []string) {
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(resourcesv1alpha1.GroupVersion.WithKind("ManagedResourceList"))
	for {
		if source.List(ctx, page, client.Limit(elsewherePage), client.Continue(page.Continue)) != nil {
			return nil
		}
		for i := range page.Items {
			mr := &page.Items[i]
			if mr.Namespace != tc.Namespace &&
				mr.Annotations[hubv1alpha1.TargetUIDAnnotation] == string(tc.Status.ClusterUID) {
				names = append(names, mr.Namespace+"/"+mr.Name)
			}
		}
		if page.Continue == "" {
			return names
		}
	}
}

// need is what stands against the removal of a target.
type need struct {
	// names are the ManagedResources that are known by name, with how many objects they have.
	names []string
	// unnamed are those that the hub counts beside them: of namespaces that the user may not list, or not to be seen yet.
	unnamed int
	// objects are how many objects they have in the target.
	objects int
}

// needOf finds out what stands against the removal of a target. The hub also counts ManagedResources of other
// namespaces; they are looked for only if it counts more than there are in the namespace of the target.
func needOf(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster) (need, error) {
	n := need{}
	if tc == nil {
		return n, nil // no hub ever saw it
	}
	here, err := needing(ctx, source, tc)
	if err != nil {
		return n, err
	}
	for i := range here {
		mr := &here[i]
		n.objects += len(mr.Status.Resources)
		name := mr.Name + " (" + cli.Count(len(mr.Status.Resources), "object")
		if mr.DeletionTimestamp != nil {
			name += ", is being deleted"
		}
		n.names = append(n.names, name+")")
	}
	if count(tc) > len(here) && tc.Status.ClusterUID != "" {
		n.objects = max(n.objects, int(tc.Status.Objects))
		n.names = append(n.names, elsewhere(ctx, source, tc)...)
	}
	n.unnamed = max(0, count(tc)-len(n.names))
	return n, nil
}

// total is how many ManagedResources need the target.
func (n need) total() int { return len(n.names) + n.unnamed }

// String names them, as many as fit.
func (n need) String() string {
	shown := n.names[:min(len(n.names), namedManagedResources)]
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
