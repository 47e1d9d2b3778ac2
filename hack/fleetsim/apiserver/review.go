package apiserver

import (
	"cmp"
	"encoding/json"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// review answers requests to resources that store nothing: who am I, whose token is this, and may I.
func (c *call) review() {
	if err := c.answerReview(); err != nil {
		c.fail(err)
	}
}

func (c *call) answerReview() error {
	if c.r.Method != http.MethodPost || c.name != "" {
		return c.methodNotAllowed()
	}
	c.verb = "create"
	var answer any
	switch c.resource.GVR.Resource {
	case "selfsubjectreviews":
		review := &authenticationv1.SelfSubjectReview{}
		if err := c.readInto(review); err != nil {
			return err
		}
		review.CreationTimestamp = metav1.NewTime(c.o.Clock())
		review.Status.UserInfo = authenticationv1.UserInfo{Username: c.user.Name, UID: c.user.UID, Groups: c.user.Groups}
		answer = review
	case "tokenreviews":
		review := &authenticationv1.TokenReview{}
		if err := c.readInto(review); err != nil {
			return err
		}
		review.Status = c.reviewed(review.Spec.Token)
		answer = review
	case "selfsubjectaccessreviews":
		review := &authorizationv1.SelfSubjectAccessReview{}
		if err := c.readInto(review); err != nil {
			return err
		}
		review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true}
		answer = review
	case "subjectaccessreviews":
		review := &authorizationv1.SubjectAccessReview{}
		if err := c.readInto(review); err != nil {
			return err
		}
		review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true}
		answer = review
	default:
		return c.methodNotAllowed()
	}
	c.sendValue(http.StatusCreated, answer)
	return nil
}

// reviewed returns the user of a token: the one that a request with it would be authenticated as. Audiences
// are ignored.
func (c *call) reviewed(token string) authenticationv1.TokenReviewStatus {
	user, ok := admin, true
	if c.o.Authenticate != nil {
		user, ok = c.o.Authenticate(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}})
	}
	if !ok {
		return authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}
	}
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, User: authenticationv1.UserInfo{Username: user.Name, UID: user.UID, Groups: user.Groups},
	}
}

// readInto decodes the body.
func (c *call) readInto(into any) error {
	if err := c.negotiate(); err != nil {
		return err
	}
	if err := c.mediaType(); err != nil {
		return err
	}
	if err := c.readBody(); err != nil {
		return err
	}
	text, err := yaml.YAMLToJSON(c.body)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// token issues a token for a service account.
func (c *call) token() error {
	request := &authenticationv1.TokenRequest{}
	if err := c.readInto(request); err != nil {
		return err
	}
	account := c.store.Get(c.group(), c.key())
	if account == nil {
		return c.notFound()
	}
	if c.o.IssueToken == nil {
		c.notServed()
		return nil
	}
	fields := `{"f:spec":{"f:expirationSeconds":{}}}`
	if request.Spec.ExpirationSeconds == nil {
		request.Spec.ExpirationSeconds, fields = ptr.To[int64](3600), ""
	}
	if seconds := *request.Spec.ExpirationSeconds; seconds < 10*60 {
		return apierrors.NewInvalid(schema.GroupKind{Group: authenticationv1.GroupName, Kind: "TokenRequest"}, "", field.ErrorList{
			field.Invalid(field.NewPath("spec", "expirationSeconds"), seconds, "may not specify a duration less than 10 minutes")})
	}
	token, expires, err := c.o.IssueToken(c.namespace, c.name, account.UID(), *request.Spec.ExpirationSeconds)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	request.TypeMeta = metav1.TypeMeta{Kind: "TokenRequest", APIVersion: "authentication.k8s.io/v1"}
	now := metav1.NewTime(c.o.Clock())
	request.Name, request.Namespace, request.UID, request.CreationTimestamp = c.name, c.namespace, account.UID(), now
	if fields != "" {
		request.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: cmp.Or(c.r.URL.Query().Get("fieldManager"), managerOf(c.agentName)), Operation: metav1.ManagedFieldsOperationUpdate,
			APIVersion: request.APIVersion, Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields), Subresource: "token",
		}}
	}
	request.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(expires)}
	c.sendValue(http.StatusCreated, request)
	return nil
}
