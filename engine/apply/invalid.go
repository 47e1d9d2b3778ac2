package apply

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/merge"
)

// replace deletes an object whose update is invalid, if its manifest asks for that or if it is an immutable ConfigMap
// or Secret, which cannot be changed in another way. The next attempt creates it.
//
// It is not deleted if it is not ours, or if the live object has keep-object, which promises that the hub never deletes
// it. A dry run must show that the server would accept a new object: what refuses the update, be it the manifest, a
// webhook or a quota, could refuse the new object as well, and nothing would take its place.
func (o *object) replace(live *unstructured.Unstructured, refusal error) (done bool, err error) {
	asked, propagation, err := merge.DeleteOnInvalidUpdate(merge.Annotations(o.manifest, live, o.options))
	if !asked && !immutable(o.in, refusal) {
		return false, refusal
	}
	if err != nil {
		return false, fmt.Errorf("%w; not deleted: %w", refusal, err)
	}
	origin := live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation]
	// An object that a user created in place of an immutable one of ours is reverted like any other edit.
	known := o.in.UID == live.GetUID() || immutable(o.in, refusal) && o.in.UID != ""
	ours := origin == o.manifest.GetAnnotations()[resourcesv1alpha1.OriginAnnotation] || origin == "" && known
	if !ours {
		return false, fmt.Errorf("%w; not deleted because it is not known to be ours", refusal)
	}
	if resourcesv1alpha1.IsTruthy(live.GetAnnotations()[resourcesv1alpha1.KeepObjectAnnotation]) {
		return false, fmt.Errorf("%w; not deleted because of its annotation %s", refusal,
			resourcesv1alpha1.KeepObjectAnnotation)
	}
	created := o.manifest.DeepCopy()
	err = o.target.Client.Create(o.ctx, created, client.FieldOwner(o.FieldManager), client.DryRunAll)
	if err != nil && !apierrors.IsAlreadyExists(err) { // checked last, since it costs a request
		return false, fmt.Errorf("%w; not deleted because a new object would be refused as well: %w", refusal, o.redact(err))
	}
	uid, version := live.GetUID(), live.GetResourceVersion()
	err = o.resource.Delete(o.ctx, o.in.Key.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, PropagationPolicy: propagation,
	})
	switch {
	case apierrors.IsConflict(err):
		return false, nil // it changed meanwhile; try again
	case err != nil && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("%w; deleting it: %w", refusal, err)
	}
	o.out.Recreated = true
	if o.uid, err = o.currentUID(); err != nil {
		return false, err
	}
	if o.uid == uid {
		return false, ErrTerminating
	}
	return false, nil
}

// immutable reports whether a ConfigMap or Secret could not be updated because it is immutable.
func immutable(in Intent, refusal error) bool {
	if gvk := in.Object.GroupVersionKind(); gvk.Group != "" || gvk.Version != "v1" || gvk.Kind != "ConfigMap" &&
		gvk.Kind != "Secret" {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(refusal, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseType("FieldValueForbidden") && strings.Contains(cause.Message, "immutable") {
			return true
		}
	}
	return false
}
