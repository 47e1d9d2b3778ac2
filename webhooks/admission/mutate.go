package admission

import (
	"context"
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"

	"github.com/trellis-hub/trellis/untrusted"
)

// Deny is the response that refuses an object, with a status code of HTTP.
func Deny(code int32, reason metav1.StatusReason, message string) Response {
	return Response{Denied: &metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: untrusted.Message(message),
	}}
}

// Object is a pointer to a type that objects are decoded into.
type Object[T any] interface {
	*T
	DeepCopy() *T
}

// Mutate returns a handler of one type of objects. The function changes the object that it gets. If it returns an error
// of Refuse, the object is refused with the code 403; other errors are those of the handler. Of its response, all but
// the patch is used. It is not called for deletions. Objects that cannot be decoded are refused with the code 400.
func Mutate[T any, P Object[T]](mutate func(context.Context, *Request, P) (Response, error)) Handler {
	return mutation[T, P](mutate)
}

// mutation is what Mutate returns.
type mutation[T any, P Object[T]] func(context.Context, *Request, P) (Response, error)

// Handle implements Handler.
func (mutate mutation[T, P]) Handle(ctx context.Context, request *Request) (Response, error) {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return Response{}, nil
	}
	var decoded T
	if err := json.UnmarshalCaseSensitivePreserveInts(request.Object.Raw, &decoded); err != nil {
		refusal := Deny(http.StatusBadRequest, metav1.StatusReasonBadRequest, "decoding the object: "+err.Error())
		return refusal, nil //nolint:nilerr // the client that sent the object gets it
	}
	changed := P(&decoded).DeepCopy()
	response, err := mutate(ctx, request, changed)
	var refused *RefusedError
	if errors.As(err, &refused) {
		response.Denied = Deny(http.StatusForbidden, metav1.StatusReasonForbidden, err.Error()).Denied
		return response, nil
	}
	if err != nil {
		return response, err
	}
	if response.Patch, err = Patch(request.Object.Raw, &decoded, changed); err != nil {
		return Response{}, err
	}
	return response, nil
}

// Quietly is what a function of Mutate is that has nothing to say but an error.
func Quietly[P any](mutate func(context.Context, *Request, P) error) func(context.Context, *Request, P) (Response,
	error) {
	return func(ctx context.Context, request *Request, object P) (Response, error) {
		return Response{}, mutate(ctx, request, object)
	}
}
