package nodeagentauthorizer

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"runtime/debug"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/untrusted"
)

// bounds are those of a review. Selectors and groups of a user are the largest part.
var bounds = untrusted.Bounds{Bytes: 1 << 20, Elements: 20_000, Depth: 20}

// review is a SubjectAccessReview of either version.
type review struct {
	metav1.TypeMeta `json:",inline"`

	Spec struct {
		authorizationv1.SubjectAccessReviewSpec `json:",inline"`
		// Group is what v1beta1 calls the groups.
		Group []string `json:"group,omitempty"`
	} `json:"spec"`
}

// answer is what an API server gets.
type answer struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct{}                                  `json:"metadata"`
	Spec     struct{}                                  `json:"spec"`
	Status   authorizationv1.SubjectAccessReviewStatus `json:"status"`
}

// Review answers a SubjectAccessReview. The status is that of HTTP: 403 if the caller has not proven who it is, so that
// the API server takes the call for failed, else 200.
func (a *Authorizer) Review(
	ctx context.Context, caller Caller, contentType string, body []byte) (status int, reply []byte,
) {
	if !caller.Authenticated {
		return http.StatusForbidden, []byte(ErrNotAuthenticated.Error())
	}
	r := &review{}
	out := &answer{TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(),
		Kind: "SubjectAccessReview"}}
	if code, message := decode(contentType, body, r); message != "" {
		out.Status.EvaluationError = fmt.Sprintf("%d %s", code, untrusted.Message(message))
	} else {
		out.APIVersion = r.APIVersion
		out.Status = a.status(ctx, caller, r)
	}
	reply, err := json.Marshal(out)
	if err != nil { // it has strings only
		return http.StatusInternalServerError, nil
	}
	return http.StatusOK, reply
}

func decode(contentType string, body []byte, into *review) (code int, message string) {
	if len(body) == 0 {
		return http.StatusUnprocessableEntity, "the request has no body"
	}
	if media, _, err := mime.ParseMediaType(contentType); err != nil || media != "application/json" {
		return http.StatusBadRequest, "the content type has to be application/json"
	}
	if err := untrusted.Check(body, bounds); err != nil {
		return http.StatusBadRequest, err.Error()
	}
	if err := json.Unmarshal(body, into); err != nil {
		return http.StatusBadRequest, "the body is no SubjectAccessReview: " + err.Error()
	}
	switch group := authorizationv1.GroupName; into.APIVersion {
	case group + "/v1":
	case group + "/v1beta1":
		into.Spec.Groups = into.Spec.Group
	default:
		return http.StatusBadRequest, "the version of the SubjectAccessReview is not known"
	}
	if into.Kind != "SubjectAccessReview" {
		return http.StatusBadRequest, "the body is no SubjectAccessReview"
	}
	return 0, ""
}

// status decides. A panic is a failure of one request.
func (a *Authorizer) status(
	ctx context.Context, caller Caller, r *review,
) (status authorizationv1.SubjectAccessReviewStatus) {
	defer func() {
		if fault := recover(); fault != nil {
			log.FromContext(ctx).Error(nil, "An authorization ended with a panic",
				"target", caller.Target, "panic", untrusted.Message(fmt.Sprint(fault)), "stack", string(debug.Stack()))
			status = failed("internal error")
		}
	}()
	decision, err := a.Authorize(ctx, caller, &r.Spec.SubjectAccessReviewSpec)
	if err != nil {
		return failed(err.Error())
	}
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision.Allowed, Denied: decision.Denied, Reason: untrusted.Message(decision.Reason),
	}
}

// failed is the answer about an agent if something fails: no other authorizer is to be asked.
func failed(message string) authorizationv1.SubjectAccessReviewStatus {
	return authorizationv1.SubjectAccessReviewStatus{
		Denied: true, EvaluationError: fmt.Sprintf("%d %s", http.StatusInternalServerError, untrusted.Message(message)),
	}
}
