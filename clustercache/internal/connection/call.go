package connection

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// anonymousUser is the user name of callers without a credential.
	anonymousUser = "system:anonymous"
	// identityPath is read to identify a cluster; only the metadata is asked for.
	identityPath   = "/api/v1/namespaces/" + metav1.NamespaceSystem
	acceptMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// answerBounds are those of the answers to the connection's own calls: the metadata of a namespace, and the user name
// of the hub.
var answerBounds = untrusted.Bounds{Bytes: 1 << 20, Elements: 8 << 10, Depth: 100}

// readVersion is the cheapest call that shows whether an API server answers and accepts the credential.
func (c *Connection) readVersion(ctx context.Context) (string, error) {
	var info version.Info
	if err := c.call(ctx, http.MethodGet, "/version", nil, &info); err != nil {
		return "", err
	}
	return untrusted.Token(info.GitVersion), nil
}

// readUID returns the UID of kube-system, which stands for the cluster's.
func (c *Connection) readUID(ctx context.Context) (types.UID, error) {
	var namespace metav1.PartialObjectMetadata
	if err := c.call(ctx, http.MethodGet, identityPath, nil, &namespace); err != nil {
		return "", err
	}
	if namespace.UID == "" {
		return "", Failed(ReasonUnreachable, "the target's answer about the namespace %s has no UID", metav1.NamespaceSystem)
	}
	if len(namespace.UID) > untrusted.MaxToken || untrusted.Token(string(namespace.UID)) != string(namespace.UID) {
		return "", Failed(ReasonUnreachable,
			"the target's answer about the namespace %s has a UID that no API server assigns", metav1.NamespaceSystem)
	}
	return namespace.UID, nil
}

// reviewSelf returns the user name that the hub has in the target, as a part of messages. It is empty if the server
// does not have that API, or forbids it. If it is that of the anonymous user, the server ignored the credential.
func (c *Connection) reviewSelf(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectReview"},
	}
	answer := &authenticationv1.SelfSubjectReview{}
	err := c.call(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, answer)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return "", nil
	case apierrors.IsForbidden(err):
		if strings.Contains(err.Error(), anonymousUser) {
			return "", Failed(ReasonUnauthorized, "the target does not take the credential and treats the hub as anonymous")
		}
		return "", nil
	case err != nil:
		return "", err
	}
	user := answer.Status.UserInfo.Username
	if user == anonymousUser {
		return "", Failed(ReasonUnauthorized, "the target does not take the credential and treats the hub as anonymous")
	}
	return fmt.Sprintf(" (user %q)", untrusted.Token(user)), nil
}

// call makes one of the connection's own calls, past the throttle. Errors bear the reason for Status.
func (c *Connection) call(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("cannot encode the call: %w", err)
		}
		content = strings.NewReader(string(raw))
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.config.Host, "/")+path, content)
	if err != nil {
		return Failed(ReasonInvalid, "address of the target: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	if path == identityPath {
		request.Header.Set("Accept", acceptMetadata)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.control.Do(request)
	if err != nil {
		return Failed(ReasonUnreachable, "%w", err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(untrusted.NewReader(response.Body, answerBounds))
	if err != nil {
		return Failed(ReasonUnreachable, "reading %s: %w", path, err)
	}
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized:
		return Failed(ReasonUnauthorized, "the target does not take the credential: %w", statusError(status, path, raw))
	case status == http.StatusForbidden:
		return Failed(ReasonForbidden, "%w", statusError(status, path, raw))
	case status < 200 || status > 299:
		return Failed(ReasonUnreachable, "%w", statusError(status, path, raw))
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return Failed(ReasonUnreachable, "the answer to %s is not that of a Kubernetes API server", path)
	}
	return nil
}

// statusError turns an answer into an error that the functions of apierrors know.
func statusError(code int, path string, raw []byte) error {
	var status metav1.Status
	if json.Unmarshal(raw, &status) == nil && status.Kind == "Status" && status.Message != "" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	err := apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, true)
	err.ErrStatus.Message = fmt.Sprintf("the target answers %d %s to %s", code, http.StatusText(code), path)
	return err
}
