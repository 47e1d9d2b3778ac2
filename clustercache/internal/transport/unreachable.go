package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/untrusted"
)

// Unreachable is the only explanation that tenants get if a call got no answer.
const Unreachable = "the target cannot be reached; the log of the hub has the details"

// UnreachableError is the error of a call that got no complete answer. Its message is the same whatever the reason: the
// owner of a registration chooses what is dialled, and the reason would reveal what is there. It wraps the reason,
// which is for the log of the hub only.
type UnreachableError struct {
	reason error
}

// Error implements error.
func (*UnreachableError) Error() string { return Unreachable }

// Unwrap returns the reason.
func (e *UnreachableError) Unwrap() error { return e.reason }

// Timeout implements net.Error.
func (e *UnreachableError) Timeout() bool {
	var network net.Error
	return errors.Is(e.reason, context.DeadlineExceeded) || errors.As(e.reason, &network) && network.Timeout()
}

// Temporary implements net.Error.
func (*UnreachableError) Temporary() bool { return false }

// Reason is the text of the reason of an UnreachableError, which err may wrap; empty for other errors. The text may be
// of any length and contain anything that the target sent.
func Reason(err error) string {
	var u *UnreachableError
	if !errors.As(err, &u) {
		return ""
	}
	return u.reason.Error()
}

// discreet hides why a call got no answer. Decisions of the hub itself are not hidden: that an answer is not accepted,
// and errors that fenced reports.
func discreet(err error, fenced func(error) bool) error {
	var u *UnreachableError
	own := errors.Is(err, untrusted.ErrExceeded) || answers.IsRefused(err) || errors.Is(err, answers.ErrNoSeat)
	if err == nil || errors.As(err, &u) || own || fenced(err) {
		return err
	}
	return &UnreachableError{reason: err}
}

// discreetly is a round tripper that applies discreet to its errors and to those of the bodies of its answers.
type discreetly struct {
	next   http.RoundTripper
	fenced func(error) bool
}

func (d discreetly) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(request.WithContext(context.WithValue(request.Context(), controlCall{}, true)))
	if err != nil {
		return nil, discreet(err, d.fenced)
	}
	response.Body = discreetBody{response.Body, d.fenced}
	return response, nil
}

type discreetBody struct {
	io.ReadCloser
	fenced func(error) bool
}

func (b discreetBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		return n, err
	}
	return n, discreet(err, b.fenced)
}
