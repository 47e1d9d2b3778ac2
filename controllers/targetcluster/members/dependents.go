package members

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// uidField is the name of the index by the UID of the cluster that has the objects. It is asked again and again for
// each target that goes: to go through all ManagedResources took 0.3 GiB of garbage in four seconds when a hundred of
// 400 targets went.
const uidField = "hub.gardener.cloud/target-uid"

const (
	// memoryTimeout bounds reads that are answered by informers and cannot take long.
	memoryTimeout = time.Second
	// releaseGrace is how long the connection to a target whose registration is gone serves ManagedResources that are not
	// being deleted yet. Secrets and ManagedResources are watched apart, and where both are deleted together the Secret
	// may well be seen first.
	releaseGrace = 5 * time.Second
)

func uidOf(object client.Object) []string {
	if uid := object.GetAnnotations()[hubv1alpha1.TargetUIDAnnotation]; uid != "" {
		return []string{uid}
	}
	return nil
}

// InUse reports whether some ManagedResource has its inventory in a target, by what the source shows. It answers from
// memory; while it cannot, the answer is yes, because no forgets where objects are.
func (i *Index) InUse(ctx context.Context, target clustercache.ClusterKey) bool {
	ctx, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	tc := &hubv1alpha1.TargetCluster{}
	if err := i.informers.Get(ctx, target, tc, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err) != nil
	}
	if tc.Status.ClusterUID == "" {
		return false
	}
	dependents, err := i.dependents(ctx, target, tc.Status.ClusterUID)
	return err != nil || len(dependents) > 0
}

// StillNeeded reports to the cluster cache whether a ManagedResource still has to clean up in a target whose
// registration is gone: one that is being deleted and has objects there, or may be about to be, as all of a namespace
// are that is being deleted. It answers from memory; while it cannot, the answer is yes.
func (i *Index) StillNeeded(target clustercache.ClusterKey) bool {
	ctx, cancel := context.WithTimeout(context.Background(), memoryTimeout)
	defer cancel()
	status, registered := i.clusters.GetStatus(target)
	if !registered || status.UID == "" {
		return false
	}
	dependents, err := i.dependents(ctx, target, status.UID)
	if err != nil {
		return true
	}
	waiting := status.State != clustercache.StateDraining || i.clock.Since(status.Since) < releaseGrace
	return slices.ContainsFunc(dependents, func(mr *resourcesv1alpha1.ManagedResource) bool {
		return !ptr.Deref(mr.Spec.KeepObjects, false) &&
			(waiting || mr.DeletionTimestamp != nil || i.isDeleted(ctx, mr.Namespace))
	})
}

// isDeleted reports whether a namespace is being deleted. What is in it goes one kind after the other, which may take
// minutes.
func (i *Index) isDeleted(ctx context.Context, namespace string) bool {
	ns := &corev1.Namespace{}
	return i.informers.Get(ctx, types.NamespacedName{Name: namespace}, ns) == nil && ns.DeletionTimestamp != nil
}

// dependents are the ManagedResources that have objects in a cluster and reach it by a registration alone. They are the
// informer's own.
func (i *Index) dependents(
	ctx context.Context, registration clustercache.ClusterKey, uid types.UID,
) ([]*resourcesv1alpha1.ManagedResource, error) {
	list := &resourcesv1alpha1.ManagedResourceList{}
	err := i.informers.List(ctx, list, client.MatchingFields{uidField: string(uid)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("finding the ManagedResources with objects in target %s: %w", registration, err)
	}
	var found []*resourcesv1alpha1.ManagedResource
	for n := range list.Items {
		if mr := &list.Items[n]; len(mr.Status.Resources) > 0 && i.dependsOn(ctx, mr, registration, uid) {
			found = append(found, mr)
		}
	}
	return found, nil
}

// dependsOn reports whether a ManagedResource with objects in a cluster reaches it by a registration alone. Several
// registrations of one cluster are common; objects that came by one of them do not concern the others. One of another
// namespace depends on it only if the operator opened a class with this target for its namespace.
func (i *Index) dependsOn(
	ctx context.Context, mr *resourcesv1alpha1.ManagedResource, registration clustercache.ClusterKey, uid types.UID,
) bool {
	for name, c := range i.classes {
		ours := name == classOf(mr) || slices.Contains(mr.Finalizers, resourcesv1alpha1.Finalizer(name))
		if ours && c.isFixedTo(registration) && i.mayReach(ctx, c, mr.Namespace) {
			return true
		}
	}
	return mr.Namespace == registration.Namespace &&
		!slices.ContainsFunc(i.clusters.List(mr.Namespace), func(other clustercache.Status) bool {
			return other.Cluster != registration && other.UID == uid && other.State != clustercache.StateDraining
		})
}

// mayReach reports whether ManagedResources of a namespace have objects in the fixed target of a class. While the
// labels of the namespace cannot be read, the answer is yes.
func (i *Index) mayReach(ctx context.Context, c class, namespace string) bool {
	selected, err := i.isSelected(ctx, c, namespace)
	return namespace == c.Target.Namespace || selected || err != nil
}

// isFixedTo reports whether a target is that of all ManagedResources of a class.
func (c class) isFixedTo(target clustercache.ClusterKey) bool {
	return c.Target.Type == configv1alpha1.TargetRegistration &&
		c.Target.Namespace == target.Namespace && c.Target.Name == target.Name
}
