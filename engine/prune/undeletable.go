package prune

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/engine/inventory"
)

// undeletable are objects that belong to every cluster. The API server always refuses to delete them, except for
// kube-node-lease, which has the heartbeats of all nodes.
var undeletable = map[inventory.Key]bool{
	{Kind: "Namespace", Name: metav1.NamespaceDefault}: true,
	{Kind: "Namespace", Name: metav1.NamespaceSystem}:  true,
	{Kind: "Namespace", Name: metav1.NamespacePublic}:  true,
	{Kind: "Namespace", Name: "kube-node-lease"}:       true,

	{Group: "scheduling.k8s.io", Kind: "PriorityClass", Name: "system-cluster-critical"}: true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass", Name: "system-node-critical"}:    true,
}

// relinquish gives up our fields of an object that stays, so that labels and annotations without another owner are
// removed, our marks among them.
func (r *run) relinquish(ctx context.Context, out *Outcome, at place, live *metav1.PartialObjectMetadata) error {
	nothing, err := json.Marshal(map[string]any{
		"apiVersion": at.mapping.GroupVersionKind.GroupVersion().String(), "kind": at.mapping.GroupVersionKind.Kind,
		"metadata": map[string]any{"name": live.Name, "uid": live.UID, "resourceVersion": live.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("encoding an empty intent: %w", err)
	}
	options := metav1.PatchOptions{FieldManager: r.policy.FieldManager, Force: ptr.To(true)}
	_, err = at.objects.Patch(ctx, live.Name, types.ApplyPatchType, nothing, options)
	if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) { // required fields stay
		return fmt.Errorf("giving up the fields: %w", err)
	}
	out.Released = true
	// marks that another field manager set for this ManagedResource
	return r.kinds.release(ctx, out.Ref, r.policy.Origin, r.policy.FieldManager)
}
