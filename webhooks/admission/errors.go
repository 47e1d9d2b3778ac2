package admission

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/trellis-hub/trellis/untrusted"
)

// ErrUnknown is what errors of a State wrap if something could not be read, so that it is not known whether it exists.
var ErrUnknown = errors.New("the state of the target is not known")

// RefusedError is the error of an object that is refused for what is in it.
type RefusedError struct {
	// Reason is what the sender of the object gets to read.
	Reason string
}

// Refuse returns the error that refuses an object.
func Refuse(format string, args ...any) error {
	return &RefusedError{untrusted.Message(fmt.Sprintf(format, args...))}
}

func (r *RefusedError) Error() string { return r.Reason }

// MemberError is the error of one of several webhooks that are combined.
type MemberError struct {
	// Webhook is its name.
	Webhook string
	Err     error
}

func (m *MemberError) Error() string { return "webhook " + m.Webhook + ": " + m.Err.Error() }

// Unwrap returns the error of the webhook.
func (m *MemberError) Unwrap() error { return m.Err }

// PanicError is the error of a webhook that panicked. Its text has nothing of the value, which can be anything.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return "the webhook panicked" }

// Recovered is to be deferred with a pointer to the error of a function: a panic becomes a PanicError.
func Recovered(err *error) {
	if value := recover(); value != nil {
		*err = &PanicError{value, debug.Stack()}
	}
}
