package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// handler answers requests for the kinds of a Definition.
type handler struct {
	mutators   map[schema.GroupVersionKind]Mutator
	validators map[schema.GroupVersionKind]Validator
	reader     client.Reader
	readerOf   func(context.Context, *admission.Request) (client.Reader, error)
	shoot      func(context.Context, *admission.Request) (client.Reader, error)
	cluster    bool
}

// Handle implements admission.Handler.
func (h *handler) Handle(ctx context.Context, request *admission.Request) (admission.Response, error) {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return admission.Response{}, nil
	}
	kind := schema.GroupVersionKind{
		Group: request.Kind.Group, Version: request.Kind.Version, Kind: request.Kind.Kind,
	}
	mutator, mutates := find(h.mutators, kind)
	validator, validates := find(h.validators, kind)
	if !mutates && !validates {
		return denied(http.StatusBadRequest, metav1.StatusReasonBadRequest,
			fmt.Errorf("this webhook is not for objects of kind %s", untrusted.Name(kind.String()))), nil
	}
	if len(request.Object.Raw) == 0 {
		return denied(http.StatusBadRequest, metav1.StatusReasonBadRequest, errors.New("there is no object")), nil
	}
	c := &Context{
		Target: request.Target, Namespace: request.Namespace, Reader: h.reader,
		DryRun: request.DryRun != nil && *request.DryRun,
	}
	if err := h.prepare(ctx, c, request); err != nil {
		// This is no refusal: where the policy is Ignore, the object is admitted unchanged.
		return admission.Response{}, apierrors.NewInternalError(err)
	}

	if validates {
		if err := validator.check(ctx, c, request.Object.Raw, request.OldObject.Raw); err != nil {
			return refused(err), nil
		}
		return admission.Response{}, nil
	}
	before, after, err := mutator.change(ctx, c, request.Object.Raw, request.OldObject.Raw)
	if err != nil {
		return refused(err), nil
	}
	if bytes.Equal(before, after) {
		return admission.Response{}, nil
	}
	patch, err := admission.Patch(request.Object.Raw, json.RawMessage(before), json.RawMessage(after))
	if err != nil {
		return admission.Response{}, err //nolint:wrapcheck // it names what failed
	}
	return admission.Response{Patch: patch}, nil
}

// prepare reads what the Definition says that mutators want.
func (h *handler) prepare(ctx context.Context, c *Context, request *admission.Request) error {
	if h.readerOf != nil {
		reader, err := h.readerOf(ctx, request)
		if err != nil {
			return fmt.Errorf("the client of the cluster: %w", err)
		}
		c.Reader = reader
	}
	if h.shoot != nil {
		shoot, err := h.shoot(ctx, request)
		if err != nil {
			return fmt.Errorf("the client of the shoot: %w", err)
		}
		c.Shoot = shoot
	}
	if h.cluster {
		_, err := c.Cluster(ctx)
		return err
	}
	return nil
}

// find returns what is for a kind, or else for all its versions.
func find[V any](all map[schema.GroupVersionKind]V, kind schema.GroupVersionKind) (V, bool) {
	if one, found := all[kind]; found {
		return one, true
	}
	kind.Version = AnyVersion
	one, found := all[kind]
	return one, found
}

func refused(err error) admission.Response {
	if errors.As(err, &undecodable{}) {
		return denied(http.StatusBadRequest, metav1.StatusReasonBadRequest, err)
	}
	return denied(http.StatusForbidden, metav1.StatusReasonForbidden, err)
}

func denied(code int32, reason metav1.StatusReason, err error) admission.Response {
	return admission.Response{Denied: &metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: untrusted.Lines(err.Error(),
			untrusted.MaxMessage),
	}}
}
