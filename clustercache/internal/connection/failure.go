package connection

import (
	"context"
	"errors"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/trellis-hub/trellis/clustercache/internal/transport"
)

// Reasons of a Failure.
const (
	ReasonInvalid         = "KubeconfigInvalid"
	ReasonIdentityChanged = "IdentityChanged"
	ReasonUnauthorized    = "Unauthorized"
	ReasonForbidden       = "Forbidden"
	ReasonUnreachable     = "Unreachable"
)

// Failure is why a connection attempt or a probe did not succeed, with the reason that conditions show.
type Failure struct { //nolint:errname // the term for what a FailureLog keeps
	Reason string
	err    error
}

// Error implements error.
func (f *Failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.err }

// Failed returns a Failure.
func Failed(reason, format string, args ...any) error {
	return &Failure{Reason: reason, err: fmt.Errorf(format, args...)}
}

// ReasonOf returns the reason of an error of this package. What has none did not reach the target.
func ReasonOf(err error) string {
	var f *Failure
	if errors.As(err, &f) {
		return f.Reason
	}
	return ReasonUnreachable
}

// Explain returns the reason of an error, and a message and details that show no credential, even if the target echoed
// it. The owner of the registration sees the message. It says what the target answered; all failures to reach the
// target have the same message, and details for the log.
func Explain(err error, a Access) (reason, message, details string) {
	reason = ReasonOf(err)
	if details = transport.Reason(err); details != "" {
		return reason, transport.Unreachable, a.shown(details)
	}
	var f *Failure
	if !errors.As(err, &f) {
		return reason, transport.Unreachable, a.shown(err.Error())
	}
	return reason, a.shown(err.Error()), ""
}

// IsConnectionLevel reports whether there was no answer because no connection could be opened or kept, which needs no
// second probe, in contrast to a timeout.
func IsConnectionLevel(err error) bool {
	var answered apierrors.APIStatus
	if errors.As(err, &answered) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var network net.Error
	return !errors.As(err, &network) || !network.Timeout()
}
