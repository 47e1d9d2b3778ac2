package clustercache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// anonymousUser is who API servers take callers without a credential for.
	anonymousUser = "system:anonymous"
	// identityPath is read to identify a cluster; only the metadata is asked for.
	identityPath   = "/api/v1/namespaces/" + metav1.NamespaceSystem
	acceptMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	// maxMessage bounds the message of a fault.
	maxMessage = 512
)

// answerBounds are those of the answers to the cache's own calls: the metadata of a namespace, and who the hub is.
var answerBounds = untrusted.Bounds{Bytes: 1 << 20, Elements: 8 << 10, Depth: 100}

// failure is a connection attempt's or probe's end, with the reason that Status shows.
type failure struct {
	reason string
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failed(reason, format string, args ...any) error {
	return &failure{reason: reason, err: fmt.Errorf(format, args...)}
}

// explain returns the reason of an error, and a message and details that show no credential, even if the target echoed
// it. The owner of the registration sees the message. It says what the target answered; all failures to reach the
// target have the same message, and details for the log.
func explain(err error, a access) (reason, message, details string) {
	reason = ReasonUnreachable
	var f *failure
	answered := errors.As(err, &f)
	if answered {
		reason = f.reason
	}
	if details = transport.Reason(err); details != "" {
		return reason, transport.Unreachable, a.shown(details)
	}
	if !answered {
		return reason, transport.Unreachable, a.shown(err.Error())
	}
	return reason, a.shown(err.Error()), ""
}

// shown returns a text bounded for display.
func (a access) shown(text string) string { return untrusted.Text(a.redact(text), maxMessage) }

// redact takes the credential out of a text.
func (a access) redact(text string) string {
	for _, secret := range a.secrets() {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// connect builds a generation and finds out whether it works and leads to the right cluster.
func (t *target) connect(ctx context.Context, number int64, r *registration, previous *connection) (
	_ *connection, err error) {
	g, err := t.newConnection(number, r.access, previous)
	if err != nil {
		return nil, failed(ReasonKubeconfigInvalid, "%w", err)
	}
	defer func() {
		if err != nil {
			g.stop(err)
		}
	}()
	met, err := t.meet(ctx, g, r, t.cache.options.Probe.Timeout)
	if err != nil {
		return nil, err
	}
	g.uid, g.version = met.uid, met.version
	return g, nil
}

// peer is who is at the other end of a connection.
type peer struct {
	uid     types.UID
	version string
}

// meet finds out whether a connection works and leads to the right cluster. The first step, which is where unreachable
// targets wait until patience ends, has a large pool; only targets that answered get one of the few places for the
// second. Those that hang there keep it for a limited time, and wait in a separate queue the next time.
func (t *target) meet(ctx context.Context, g *connection, r *registration, patience time.Duration) (
	met peer, err error) {
	err = t.cache.dials.do(ctx, t.key, patience, func(ctx context.Context) error {
		met.version, err = g.readVersion(ctx)
		return err
	})
	if err != nil {
		return peer{}, err
	}
	done, err := t.identifications.Acquire(ctx)
	if err != nil {
		return peer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.cache.options.Dial.ConnectTimeout)
	defer cancel()
	met.uid, err = t.identify(ctx, g, r)
	done(err == nil)
	return met, err
}

// identify finds out who the hub is in the target, and which cluster the target is.
func (t *target) identify(ctx context.Context, g *connection, r *registration) (types.UID, error) {
	uid, err := g.identity(ctx)
	if err != nil {
		return "", err
	}
	return uid, t.verifyIdentity(ctx, uid, r)
}

// identity returns what identifies the cluster, if the target takes the credential and lets its user know.
func (g *connection) identity(ctx context.Context) (types.UID, error) {
	user, err := g.reviewSelf(ctx)
	if err != nil {
		return "", err
	}
	uid, err := g.readUID(ctx)
	var f *failure
	if errors.As(err, &f) && f.reason == ReasonForbidden {
		return "", failed(ReasonForbidden,
			"the credential%s may not get the namespace %s, whose UID identifies the cluster: %w",
			user, metav1.NamespaceSystem, f.err)
	}
	return uid, err
}

func (t *target) verifyIdentity(ctx context.Context, uid types.UID, r *registration) error {
	if t.cache.options.VerifyIdentity == nil {
		if known := t.snapshot().UID; known != "" && known != uid {
			return failed(ReasonIdentityChanged, "the kubeconfig leads to the cluster with UID %s, before it was %s", uid, known)
		}
		return nil
	}
	err := t.cache.options.VerifyIdentity(ctx, t.key, uid, r.annotations)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrIdentityUndecided), ctx.Err() != nil:
		return failed(ReasonUnreachable, "cannot verify the identity of the cluster: %w", err)
	default:
		return failed(ReasonIdentityChanged, "%w", err)
	}
}

// readVersion is the cheapest call that tells whether an API server is there and takes the credential.
func (g *connection) readVersion(ctx context.Context) (string, error) {
	var info version.Info
	if err := g.call(ctx, http.MethodGet, "/version", nil, &info); err != nil {
		return "", err
	}
	return untrusted.Token(info.GitVersion), nil
}

// readUID returns the UID of kube-system, which stands for the cluster's.
func (g *connection) readUID(ctx context.Context) (types.UID, error) {
	var namespace metav1.PartialObjectMetadata
	if err := g.call(ctx, http.MethodGet, identityPath, nil, &namespace); err != nil {
		return "", err
	}
	if namespace.UID == "" {
		return "", failed(ReasonUnreachable, "the target's answer about the namespace %s has no UID", metav1.NamespaceSystem)
	}
	if len(namespace.UID) > untrusted.MaxToken || untrusted.Token(string(namespace.UID)) != string(namespace.UID) {
		return "", failed(ReasonUnreachable,
			"the target's answer about the namespace %s has a UID that no API server assigns", metav1.NamespaceSystem)
	}
	return namespace.UID, nil
}

// reviewSelf returns who the target takes the hub for, as a part of messages. A server without that API, or one that
// forbids it, leaves the name empty; one that says "anonymous" did not take the credential.
func (g *connection) reviewSelf(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectReview"},
	}
	answer := &authenticationv1.SelfSubjectReview{}
	err := g.call(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, answer)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return "", nil
	case apierrors.IsForbidden(err):
		if strings.Contains(err.Error(), anonymousUser) {
			return "", failed(ReasonUnauthorized, "the target does not take the credential and treats the hub as anonymous")
		}
		return "", nil
	case err != nil:
		return "", err
	}
	user := answer.Status.UserInfo.Username
	if user == anonymousUser {
		return "", failed(ReasonUnauthorized, "the target does not take the credential and treats the hub as anonymous")
	}
	return fmt.Sprintf(" (user %q)", untrusted.Token(user)), nil
}

// call makes one of the cache's own calls, past the throttle. Errors bear the reason for Status.
func (g *connection) call(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("cannot encode the call: %w", err)
		}
		content = strings.NewReader(string(raw))
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(g.config.Host, "/")+path, content)
	if err != nil {
		return failed(ReasonKubeconfigInvalid, "address of the target: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	if path == identityPath {
		request.Header.Set("Accept", acceptMetadata)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := g.control.Do(request)
	if err != nil {
		return failed(ReasonUnreachable, "%w", err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(untrusted.NewReader(response.Body, answerBounds))
	if err != nil {
		return failed(ReasonUnreachable, "reading %s: %w", path, err)
	}
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized:
		return failed(ReasonUnauthorized, "the target does not take the credential: %w", statusError(status, path, raw))
	case status == http.StatusForbidden:
		return failed(ReasonForbidden, "%w", statusError(status, path, raw))
	case status < 200 || status > 299:
		return failed(ReasonUnreachable, "%w", statusError(status, path, raw))
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return failed(ReasonUnreachable, "the answer to %s is not that of a Kubernetes API server", path)
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

// isConnectionLevel tells whether there was no answer because no connection could be opened or kept, which needs no
// second look, in contrast to a timeout.
func isConnectionLevel(err error) bool {
	var answered apierrors.APIStatus
	if errors.As(err, &answered) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var network net.Error
	return !errors.As(err, &network) || !network.Timeout()
}
