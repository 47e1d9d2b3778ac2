package csrapprover

import (
	"context"
	"errors"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Judgement is what the approver would decide about a request now.
type Judgement struct {
	// Decided is the condition by which the request was decided; nil if it was not.
	Decided *certificatesv1.CertificateSigningRequestCondition
	// Ours is false for requests that the approver leaves to others.
	Ours bool
	// Kind is that of the certificate, such as "kubelet server certificate".
	Kind string
	// Approved and Denied are what the decision would be. Neither of them: none.
	Approved, Denied bool
	// Check is the one that failed.
	Check string
	// Missing is true if a Node or a Machine is not there: the request is denied only once it has waited until Until.
	Missing bool
	Until   time.Time
}

// Explain judges a request as the approver does, whether or not it has been decided, and decides nothing. home is the
// namespace of the registration in the source. IsUnusable reports whether its error says that the approver cannot judge
// the request at all.
func Explain(ctx context.Context, settings Settings, home string, source, target client.Reader,
	csr *certificatesv1.CertificateSigningRequest) (*Judgement, error) {
	found := &Judgement{}
	for i, condition := range csr.Status.Conditions {
		if decides(string(condition.Type)) {
			found.Decided = &csr.Status.Conditions[i]
		}
	}
	if !slices.Contains(signers, csr.Spec.SignerName) {
		return found, nil
	}
	if err := settings.Validate(home); err != nil {
		return nil, err
	}
	request, err := parse(csr)
	if err != nil {
		return nil, err
	}
	j := &judge{Settings: settings, home: home, source: source, target: target, spec: &csr.Spec, request: request}
	v, err := j.judge(ctx)
	if err != nil {
		return nil, err
	}
	found.Ours, found.Kind, found.Check = v.outcome != noOpinion, v.kind, v.check
	found.Approved, found.Denied, found.Missing = v.outcome == approved, v.outcome == denied, v.missing
	found.Until = csr.CreationTimestamp.Add(grace)
	return found, nil
}

// IsUnusable reports whether an error of Explain says that the request can never be judged.
func IsUnusable(err error) bool {
	unusable := (*unusableError)(nil)
	return errors.As(err, &unusable)
}
