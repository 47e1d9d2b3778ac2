package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

const (
	// maxElements bounds the values of a body, and maxDepth how deeply they are nested. An object of 3 MiB whose values
	// take 15 bytes each has as many, beside its former state.
	maxElements, maxDepth = 400_000, 200
	// maxWarnings bounds how many warnings go with an answer; API servers cut them themselves after 4 KiB.
	maxWarnings = 20
	kindReview  = "AdmissionReview"
)

var (
	versionV1      = admissionv1.SchemeGroupVersion.String()
	versionV1beta1 = admissionv1beta1.SchemeGroupVersion.String()
)

// decode reads a review. Requests of both versions are the same in JSON. With an error, the status says how it is
// answered, and the review has what is known for that.
func decode(r *http.Request) (review *admissionv1.AdmissionReview, status int32, err error) {
	// What an answer repeats if nothing is known of the request.
	unknown := &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: versionV1, Kind: kindReview}, Request: &admissionv1.AdmissionRequest{},
	}
	if contentType := r.Header.Get("Content-Type"); contentType != "application/json" {
		return unknown, http.StatusBadRequest,
			fmt.Errorf("contentType=%s, expected application/json", untrusted.Token(contentType))
	}
	bounds := untrusted.Bounds{Bytes: MaxBody, Elements: maxElements, Depth: maxDepth}
	if r.ContentLength > MaxBody {
		return unknown, http.StatusRequestEntityTooLarge,
			fmt.Errorf("request entity is too large; limit is %d bytes", MaxBody)
	}
	body, err := readAll(untrusted.NewReader(r.Body, bounds), r.ContentLength)
	exceeded := (*untrusted.ExceededError)(nil)
	switch {
	case errors.As(err, &exceeded):
		return unknown, http.StatusRequestEntityTooLarge, fmt.Errorf("request entity is too large: %w", err)
	case err != nil:
		return unknown, http.StatusBadRequest, fmt.Errorf("unable to read the body of the request: %w", err)
	case len(body) == 0:
		return unknown, http.StatusBadRequest, errors.New("request body is empty")
	}
	decoded := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, decoded); err != nil {
		return unknown, http.StatusBadRequest, errors.New("the body of the request is no AdmissionReview in JSON")
	}
	if decoded.Request == nil {
		decoded.Request = unknown.Request
		err = errors.New("the AdmissionReview has no request")
	}
	if decoded.Kind != kindReview || decoded.APIVersion != versionV1 && decoded.APIVersion != versionV1beta1 {
		decoded.TypeMeta = unknown.TypeMeta
		err = fmt.Errorf("the body of the request has to be an %s of %s or %s", kindReview, versionV1, versionV1beta1)
	}
	if err != nil {
		return decoded, http.StatusBadRequest, err
	}
	return decoded, 0, nil
}

// readAll reads a body whose length is expected, with one allocation if it is right.
func readAll(r io.Reader, expected int64) ([]byte, error) {
	if expected < 0 {
		return io.ReadAll(r)
	}
	body := make([]byte, expected)
	n, err := io.ReadFull(r, body)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return body[:n], nil
	}
	if err != nil {
		return nil, err
	}
	rest, err := io.ReadAll(r) // there is none, but the reader has to see the end
	return append(body, rest...), err
}

// answerOf is what a handler's response is to an API server.
func answerOf(response admission.Response) (answer *admissionv1.AdmissionResponse, result string) {
	warnings := response.Warnings[:min(len(response.Warnings), maxWarnings)]
	if response.Denied != nil {
		answer = denied(response.Denied)
		answer.Warnings = warnings
		return answer, resultDenied
	}
	answer, result = &admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}, resultUnchanged
	if len(response.Patch) > 0 {
		answer.Patch, answer.PatchType = response.Patch, ptr.To(admissionv1.PatchTypeJSONPatch)
		result = resultPatched
	}
	if response.Message != "" {
		answer.Result = &metav1.Status{Code: http.StatusOK, Message: response.Message}
	}
	return answer, result
}

func denied(status *metav1.Status) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: status}
}

// statusOf is what an internal error is to who sent the object: the status of an API that it wraps, else 403, and 500
// after a panic.
func statusOf(err error, panicked bool) *metav1.Status {
	code := int32(http.StatusForbidden)
	if panicked {
		code = http.StatusInternalServerError
	}
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		status := api.Status()
		var member *admission.MemberError
		if errors.As(err, &member) {
			status.Message = "webhook " + member.Webhook + ": " + status.Message
		}
		return &status
	}
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reasonOf(code), Message: untrusted.Message(err.Error()),
	}
}

func reasonOf(code int32) metav1.StatusReason {
	switch code {
	case http.StatusBadRequest:
		return metav1.StatusReasonBadRequest
	case http.StatusRequestEntityTooLarge:
		return metav1.StatusReasonRequestEntityTooLarge
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	default:
		return metav1.StatusReasonInternalError
	}
}

// encode sends an answer in the version of the request.
func encode(w http.ResponseWriter, review *admissionv1.AdmissionReview, response *admissionv1.AdmissionResponse) error {
	response.UID = review.Request.UID
	w.Header().Set("Content-Type", "application/json")
	//nolint:wrapcheck // the caller says what it was
	return json.NewEncoder(w).Encode(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
}
