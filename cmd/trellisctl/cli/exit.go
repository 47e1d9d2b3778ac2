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
	// ExitOK: it was done, or all is well.
	ExitOK = 0
	// ExitFailed: it failed in a way that has no code of its own.
	ExitFailed = 1
	// ExitUsage: the command line makes no sense.
	ExitUsage = 2
	// ExitFound: the command worked, and found what it looks for: a difference, a cause, something that is not ready.
	ExitFound = 3
	// ExitNotFound: an object that was named does not exist.
	ExitNotFound = 4
	// ExitTimeout: what was waited for did not happen in time.
	ExitTimeout = 5
	// ExitUnreachable: a cluster does not answer.
	ExitUnreachable = 6
	// ExitRefused: a cluster refuses, or trellisctl itself does: rights, kubeconfigs that a hub does not take, guards.
	ExitRefused = 7
	// ExitInterrupted: somebody pressed Ctrl-C.
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

// ExitError is an error with the exit code that belongs to it. Without Err, nothing is printed: the command said all there is to
// say.
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

// Refused is a failure because something is not allowed or not sensible.
func Refused(format string, args ...any) error {
	return &ExitError{Code: ExitRefused, Err: fmt.Errorf(format, args...)}
}

// NotFound is a failure because something does not exist.
func NotFound(format string, args ...any) error {
	return &ExitError{Code: ExitNotFound, Err: fmt.Errorf(format, args...)}
}

// Unreachable is a failure because a cluster does not answer.
func Unreachable(format string, args ...any) error {
	return &ExitError{Code: ExitUnreachable, Err: fmt.Errorf(format, args...)}
}

// Found ends a command that worked with the code which says that there is something.
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

// IsUnreachable reports whether an error says that a cluster did not answer, or not in a way that a later attempt could
// not change.
func IsUnreachable(err error) bool {
	var network *net.OpError
	var address *url.Error
	return errors.As(err, &network) || errors.As(err, &address) || errors.Is(err, context.DeadlineExceeded) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err)
}
