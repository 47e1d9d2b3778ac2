package deletionprotection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// timeout bounds a request, with the lists that it takes.
const timeout = 9 * time.Second

type handler struct{ lister Lister }

// Handle implements admission.Handler.
func (h *handler) Handle(ctx context.Context, request *admission.Request) (admission.Response, error) {
	if request.Operation != admissionv1.Delete {
		return admission.Response{Message: "the operation is not DELETE"}, nil
	}
	if !isProtected(request.Resource) {
		return admission.Response{Message: "objects of this resource are not deletion-protected"}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	objects, err := h.objects(ctx, request)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return admission.Response{Message: "there is no such object"}, nil
	case err != nil:
		return denied(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error()), nil
	}
	for i := range objects {
		if !confirmed(&objects[i]) {
			return denied(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(
				"%s %q is protected: it needs the %s=true annotation to delete it",
				untrusted.Name(request.Resource.Resource),
				untrusted.Name(objects[i].Name), ConfirmationAnnotation)), nil
		}
	}
	return admission.Response{}, nil
}

// isProtected reports whether a resource is protected. Others are sent here only if a user has changed the
// configuration.
func isProtected(resource metav1.GroupVersionResource) bool {
	switch resource.Group {
	case crdGroup:
		return resource.Resource == crdResource && (resource.Version == "v1" || resource.Version == "v1beta1")
	case etcdGroup:
		return resource.Version == "v1alpha1" && resource.Resource == etcds
	case extensions.Group:
		return resource.Version == extensions.Version && slices.Contains(protected, resource.Resource)
	}
	return false
}

// objects are those that have to be confirmed.
func (h *handler) objects(ctx context.Context, request *admission.Request) ([]metav1.PartialObjectMetadata, error) {
	raw := request.OldObject.Raw
	if len(raw) == 0 {
		raw = request.Object.Raw
	}
	object := metav1.PartialObjectMetadata{}
	if request.Name != "" {
		if len(raw) == 0 {
			return nil, errors.New("the request has no object")
		}
		if err := extensions.Decode(raw, &object); err != nil {
			return nil, err
		}
		return []metav1.PartialObjectMetadata{object}, nil
	}
	if len(raw) > 0 && extensions.Decode(raw, &object) == nil && !confirmed(&object) {
		return []metav1.PartialObjectMetadata{object}, nil
	}
	selector := labels.Everything()
	if request.Resource.Group == crdGroup {
		selector = labels.SelectorFromSet(labels.Set{ProtectedLabel: "true"})
	}
	kind := schema.GroupVersionKind{Group: request.Kind.Group, Version: request.Kind.Version, Kind: request.Kind.Kind}
	return h.lister.List(ctx, request.Target, kind, request.Namespace, selector)
}

// confirmed reports whether the annotation says so. Values that mean neither true nor false do not.
func confirmed(object *metav1.PartialObjectMetadata) bool {
	yes, err := strconv.ParseBool(object.Annotations[ConfirmationAnnotation])
	return err == nil && yes
}

func denied(code int32, reason metav1.StatusReason, message string) admission.Response {
	return admission.Response{Denied: &metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: untrusted.Message(message),
	}}
}
