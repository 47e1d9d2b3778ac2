package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Exit codes, for scripts.
const (
	// ExitOK: success.
	ExitOK = 0
	// ExitFailed: it failed in a way that has no code of its own.
	ExitFailed = 1
	// ExitUsage: the command line is invalid.
	ExitUsage = 2
	// ExitFound: the command succeeded, and found something: a difference, a cause, an object that is not ready.
	ExitFound = 3
	// ExitNotFound: an object that was named does not exist.
	ExitNotFound = 4
	// ExitTimeout: what was waited for did not happen in time.
	ExitTimeout = 5
	// ExitUnreachable: a cluster does not respond.
	ExitUnreachable = 6
	// ExitRefused: a cluster or trellisctl itself refuses it: rights, kubeconfigs that a hub does not accept, safety
	// checks.
	ExitRefused = 7
	// ExitInterrupted: the user pressed Ctrl-C.
	ExitInterrupted = 130
)

// ExitCodes describe the exit codes, in order, for the reference.
var ExitCodes = []struct {
	Code    int
	Meaning string
}{
	{ExitOK, "done, or all is well"},
	{ExitFailed, "failed"},
	{ExitUsage, "the command line makes no sense"},
	{ExitFound, "it worked and found something: a difference, a cause, something not ready, documents that cannot be read"},
	{ExitNotFound, "an object that was named does not exist"},
	{ExitTimeout, "what was waited for did not happen in time"},
	{ExitUnreachable, "a cluster does not answer"},
	{ExitRefused, "refused: by a cluster (rights, admission), or because a hub would not take it"},
	{ExitInterrupted, "interrupted"},
}

// ExitError is an error with its exit code. Without Err nothing is printed, because the command has printed everything.
type ExitError struct {
	Code int
	Err  error
}

// Error implements error.
func (f *ExitError) Error() string {
	if f.Err == nil {
		return ""
	}
	return f.Err.Error()
}

// Unwrap implements errors.Unwrap.
func (f *ExitError) Unwrap() error { return f.Err }

// Usage is a failure of the command line.
func Usage(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// Refused is a failure because something is not allowed.
func Refused(format string, args ...any) error {
	return &ExitError{Code: ExitRefused, Err: fmt.Errorf(format, args...)}
}

// NotFound is a failure because something does not exist.
func NotFound(format string, args ...any) error {
	return &ExitError{Code: ExitNotFound, Err: fmt.Errorf(format, args...)}
}

// Unreachable is a failure because a cluster does not respond.
func Unreachable(format string, args ...any) error {
	return &ExitError{Code: ExitUnreachable, Err: fmt.Errorf(format, args...)}
}

// Found ends a successful command with ExitFound.
func Found() error { return &ExitError{Code: ExitFound} }

// ExitCode is the exit code for an error; nil has ExitOK.
func ExitCode(err error) int {
	var failure *ExitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &failure):
		return failure.Code
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case apierrors.IsNotFound(err):
		return ExitNotFound
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return ExitRefused
	case IsUnreachable(err):
		return ExitUnreachable
	}
	return ExitFailed
}

// IsUnreachable reports whether an error says that a cluster did not respond, or failed in a way that a later attempt
// may not.
func IsUnreachable(err error) bool {
	var network *net.OpError
	var address *url.Error
	return errors.As(err, &network) || errors.As(err, &address) || errors.Is(err, context.DeadlineExceeded) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err)
}
