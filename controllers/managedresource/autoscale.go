package managedresource

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// autoscalerListTimeout bounds the look at the autoscalers of one namespace.
const autoscalerListTimeout = 10 * time.Second

// noteAutoscalers finds out which of the planned objects have their replicas from an autoscaler. The watch knows; while
// it does not, the target is asked, because a Deployment that is scaled down for lack of a cache is an outage. For the
// same reason it is asked about objects that drifted: the autoscaler that just scaled one may be younger than what the
// watch shows. If the target does not tell, the replicas stay as they are until the watch does.
func (r *reconciler) noteAutoscalers(ctx context.Context, work *run, target apply.Target, objects []*apply.Prepared, drifted bool) {
	unsure := map[string][]*apply.Prepared{}
	for _, o := range objects {
		if !setsReplicas(o) {
			continue
		}
		scaled, synced := r.tracker.Autoscaled(work.target, o.Key)
		switch {
		case synced && (scaled || !drifted):
			o.SetAutoscaled(scaled)
		default:
			unsure[o.Key.Namespace] = append(unsure[o.Key.Namespace], o)
		}
	}
	for namespace, objects := range unsure {
		scaled, err := autoscaled(ctx, target, namespace)
		if err != nil {
			work.log.Info("Cannot find out what is scaled by autoscalers; replicas stay as they are", "namespace", namespace, "error", err.Error())
		}
		for _, o := range objects {
			key, _ := tracker.Scalable(o.Key)
			_, synced := r.tracker.Autoscaled(work.target, o.Key)
			o.SetAutoscaled(scaled[key] || err != nil && !synced)
		}
	}
}

// setsReplicas tells whether applying an object may scale it.
func setsReplicas(o *apply.Prepared) bool {
	if _, scalable := tracker.Scalable(o.Key); !scalable || o.CreateOnly || o.Object.GetAnnotations()[resourcesv1alpha1.PreserveReplicasAnnotation] == "true" {
		return false
	}
	_, set, _ := unstructured.NestedFieldNoCopy(o.Object.Object, "spec", "replicas")
	return set
}

// autoscaled asks the target what autoscalers scale in a namespace. A target that does not know them has none.
func autoscaled(ctx context.Context, target apply.Target, namespace string) (map[inventory.Key]bool, error) {
	kind := tracker.AutoscalerKind
	mapper := meta.ToRESTMapperWithContext(target.Mapper)
	mapping, err := mapper.RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = mapper.RESTMappingWithContext(ctx, kind.GroupKind())
	}
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mapping of %s: %w", kind.Kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, autoscalerListTimeout)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := target.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing autoscalers: %w", err)
	}
	scaled := make(map[inventory.Key]bool, len(list.Items))
	for i := range list.Items {
		if key, ok := tracker.ScaledBy(&list.Items[i]); ok {
			scaled[key] = true
		}
	}
	return scaled, nil
}

// planned returns the objects of a plan: those with the keys, all of them without.
func (p *plan) planned(keys ...inventory.Key) []*apply.Prepared {
	var out []*apply.Prepared
	wanted := make(map[inventory.Key]bool, len(keys))
	for _, key := range keys {
		wanted[key] = true
	}
	for i := range p.objects {
		if len(keys) == 0 || wanted[p.objects[i].Key] {
			out = append(out, &p.objects[i])
		}
	}
	return out
}

// exact is what of its objects' metadata a ManagedResource wants to have for itself.
func exact(mr *resourcesv1alpha1.ManagedResource) tracker.Exact {
	return tracker.Exact{Labels: deref(mr.Spec.ForceOverwriteLabels), Annotations: deref(mr.Spec.ForceOverwriteAnnotations)}
}
