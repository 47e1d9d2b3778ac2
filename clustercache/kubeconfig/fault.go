package kubeconfig

import "fmt"

// Reason classifies a FaultError.
type Reason string

// Reasons of faults.
const (
	// ReasonSecretInvalid means that the Secret holds no kubeconfig.
	ReasonSecretInvalid Reason = "SecretInvalid"
	// ReasonInvalid means that the kubeconfig cannot be parsed or is incomplete.
	ReasonInvalid Reason = "KubeconfigInvalid"
	// ReasonRefused means that the kubeconfig asks for something that the hub does not do for others.
	ReasonRefused Reason = "KubeconfigRefused"
)

// FaultError says why a Secret cannot be used. Its message names fields and never quotes content.
type FaultError struct {
	Reason  Reason
	Message string
	// Err is what the fault comes from, for callers that look for it. It is not part of the message. Nil: nothing.
	Err error
}

// Error implements error.
func (f *FaultError) Error() string { return f.Message }

// Unwrap returns what the fault comes from.
func (f *FaultError) Unwrap() error { return f.Err }

func invalidSecret(format string, args ...any) error {
	return &FaultError{Reason: ReasonSecretInvalid, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return &FaultError{Reason: ReasonInvalid, Message: fmt.Sprintf(format, args...)}
}

func refused(format string, args ...any) error {
	return &FaultError{Reason: ReasonRefused, Message: fmt.Sprintf(format, args...)}
}
