package extensionvalidation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// maxFaults is how many violations an answer has.
const maxFaults = 50

// Webhook is the webhook for all kinds.
func Webhook() admission.Webhook {
	return admission.Webhook{
		Name: "extension-validation", Path: "validate-extensions", Validating: true,
		Settings:     func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook { return w.ExtensionValidation },
		Registration: func(*hubv1alpha1.TargetWebhooks) []admission.Entry { return entries() },
		Handler:      admission.HandlerFunc(handle),
	}
}

// entries has one for each kind.
func entries() []admission.Entry {
	var all []admission.Entry
	for _, k := range kinds {
		all = append(all, admission.Entry{
			Name:        "validation.extensions." + k.plural,
			MatchPolicy: admissionregistrationv1.Exact,
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{
					admissionregistrationv1.Create, admissionregistrationv1.Update,
				},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{extensions.Group}, APIVersions: []string{extensions.Version},
					Resources: []string{k.plural},
				},
			}},
		})
	}
	return all
}

// handle implements admission.Handler.
func handle(_ context.Context, request *admission.Request) (admission.Response, error) {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return admission.Response{}, nil
	}
	k := kindOf(request.Kind)
	if k == nil {
		return badRequest(fmt.Errorf("objects of kind %s are not validated",
			untrusted.Name(request.Kind.String()))), nil
	}
	object := &stored{}
	if err := extensions.Decode(request.Object.Raw, object); err != nil {
		return badRequest(err), nil
	}
	if object.Namespace == "" && k.namespaced {
		object.Namespace = request.Namespace
	}
	faults := field.ErrorList{}
	if request.Operation == admissionv1.Update {
		old := &stored{}
		if err := extensions.Decode(request.OldObject.Raw, old); err != nil {
			return badRequest(fmt.Errorf("the old object: %w", err)), nil
		}
		found, err := k.updateFaults(object, old)
		if err != nil {
			return badRequest(err), nil
		}
		faults = append(faults, found...)
	} else {
		faults = append(faults, validation.ValidateObjectMeta(
			&object.ObjectMeta, k.namespaced, validation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	}
	found, err := k.faults(object)
	if err != nil {
		return badRequest(err), nil
	}
	if faults = append(faults, found...); len(faults) == 0 {
		return admission.Response{}, nil
	}
	return invalid(k, object, faults), nil
}

// stored is any object, with its parts not decoded.
type stored struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec   json.RawMessage `json:"spec"`
	Status json.RawMessage `json:"status"`
}

// updateFaults are those of a change.
func (k *kind) updateFaults(object, old *stored) (field.ErrorList, error) {
	faults := validation.ValidateObjectMetaUpdate(&object.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	if object.DeletionTimestamp != nil {
		changed, err := differ(object.Spec, old.Spec)
		if err != nil {
			return nil, err
		}
		if len(changed) > 0 {
			faults = append(faults, field.Forbidden(field.NewPath("spec"),
				fmt.Sprintf("cannot be changed while the object is being deleted, and these fields differ: %v",
					changed)))
		}
		return faults, nil
	}
	found, err := k.immutable(object.Spec, old.Spec)
	return append(faults, found...), err
}

// differ returns the names of fields of two specs that are not equal.
func differ(object, old json.RawMessage) ([]string, error) {
	var fields [2]map[string]any
	for i, document := range [][]byte{object, old} {
		if len(document) == 0 {
			continue
		}
		if err := json.Unmarshal(document, &fields[i]); err != nil {
			return nil, fmt.Errorf("decode a spec: %w", err)
		}
	}
	var changed []string
	for name := range union(fields[0], fields[1]) {
		if !reflect.DeepEqual(fields[0][name], fields[1][name]) {
			changed = append(changed, untrusted.Name(name))
		}
	}
	return sorted(changed, maxFaults), nil
}

func badRequest(err error) admission.Response {
	return admission.Response{Denied: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest,
		Message: untrusted.Message(err.Error()),
	}}
}

func invalid(k *kind, object *stored, faults field.ErrorList) admission.Response {
	if len(faults) > maxFaults {
		faults = append(faults[:maxFaults:maxFaults],
			field.TooMany(field.NewPath("spec"), len(faults), maxFaults))
	}
	status := apierrors.NewInvalid(extensions.GroupVersion.WithKind(k.name).GroupKind(), untrusted.Name(object.Name),
		faults).Status()
	return admission.Response{Denied: &status}
}
