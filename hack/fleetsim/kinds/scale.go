package kinds

import (
	"fmt"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/form"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/ownership"
)

var scaleGVK = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// scaleForm reads objects of the kind Scale, scaleManagers manage their fields, of which there is one that matters.
var (
	scaleForm     = sync.OnceValue(func() *form.Typed { return form.NewTyped(scaleGVK, true) })
	scaleManagers = sync.OnceValue(func() ownership.Managers { return ownership.NewScale(scaleForm(), scaleGVK) })
)

// Scale converts an object to a Scale of autoscaling/v1. It fails if the resource has none.
func (r *Resource) Scale(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !r.HasScale {
		return nil, fmt.Errorf("%s have no scale", r.groupResource())
	}
	scale := autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
		Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(),
		ResourceVersion: o.GetResourceVersion(), CreationTimestamp: o.GetCreationTimestamp(),
	}}
	scale.SetGroupVersionKind(scaleGVK)
	replicas, _, _ := unstructured.NestedInt64(o.Object, r.scale.Spec...)
	scale.Spec.Replicas = int32(replicas)
	replicas, _, _ = unstructured.NestedInt64(o.Object, r.scale.Status...)
	scale.Status.Replicas = int32(replicas)
	if len(r.scale.Selector) > 0 {
		selector, _, _ := unstructured.NestedFieldNoCopy(o.Object, r.scale.Selector...)
		scale.Status.Selector = selectorText(selector)
	}
	return scaleForm().Unstructured(&scale), nil
}

func selectorText(selector any) string {
	switch s := selector.(type) {
	case string:
		return s
	case map[string]any:
		var parsed metav1.LabelSelector
		if s["matchLabels"] == nil && s["matchExpressions"] == nil {
			// The one of a ReplicationController.
			s = map[string]any{"matchLabels": s}
		}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(s, &parsed) == nil {
			if selector, err := metav1.LabelSelectorAsSelector(&parsed); err == nil {
				return selector.String()
			}
		}
	}
	return ""
}

// nextScale computes what live becomes by a write of its Scale.
func (r *Resource) nextScale(live *unstructured.Unstructured, w Write) (Result, error) {
	if live == nil {
		return Result{}, apierrors.NewNotFound(r.groupResource(), w.Name)
	}
	if !r.HasScale {
		return Result{}, apierrors.NewNotFound(r.groupResource(), w.Name+"/scale")
	}
	parent := r.Convert(live)
	scale, err := r.Scale(parent)
	if err != nil {
		return Result{}, err
	}
	handler := ownership.ScaleHandler(parent.GetManagedFields(), r.GVR.GroupVersion(), r.form.Versions(), r.scale.Spec)
	entries, err := handler.ToSubresource()
	if err != nil {
		return Result{}, unknown(err)
	}
	scale.SetManagedFields(entries)

	// A Scale goes the way of any object.
	w.Subresource = ""
	n := &next{Write: w, live: scale, Resource: &Resource{
		GVR: r.GVR, Kind: scaleGVK.Kind, Namespaced: r.Namespaced, form: scaleForm(), managers: scaleManagers(), gvk: &scaleGVK,
	}}
	changed, err := n.run()
	if err != nil {
		return Result{Warnings: n.warnings}, asStatus(err)
	}
	if changed == scale {
		return Result{Object: live, Warnings: n.warnings}, nil
	}
	if entries, err = handler.ToParent(changed.GetManagedFields()); err != nil {
		return Result{}, unknown(err)
	}
	next := parent.DeepCopy()
	replicas, _, _ := unstructured.NestedInt64(changed.Object, "spec", "replicas")
	if err := unstructured.SetNestedField(next.Object, replicas, r.scale.Spec...); err != nil {
		return Result{}, unknown(err)
	}
	next.SetManagedFields(entries)
	if r.traits.generation && r.traits.changes(next.Object, parent.Object) {
		next.SetGeneration(parent.GetGeneration() + 1)
	}
	return Result{Object: ownership.InVersion(next, r.Storage.GroupVersion()), Warnings: n.warnings, Changed: !ownership.Same(next, parent)}, nil
}
