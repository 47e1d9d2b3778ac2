package tokenrequestor

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
)

// Question is what is to be explained, and by what.
type Question struct {
	Secret *corev1.Secret
	// Target is the registered target that the Secret may be for; All are those of the namespace of the Secret. Of each,
	// Cluster, State, Labels, SecretName, CA and ServiceAccount are looked at, the last two of Target only.
	Target clustercache.Status
	All    []clustercache.Status
	// Settings returns those of each, and false if the token requestor is switched off there.
	Settings func(clustercache.Status) (Settings, bool)
	// Client calls the target: it reads, and has the token reviewed, which the target does not keep.
	Client client.Client
	Now    time.Time
}

// Answer is what the token requestor makes of an access Secret. It has no token.
type Answer struct {
	// Off is true if the token requestor does not work in the target, Irrelevant if the Secret is none of its class, and
	// Other if it is for another target.
	Off, Irrelevant, Other bool
	// ServiceAccount is the one that the token is of, and Into the Secret of the target that has the token; zero if the
	// access Secret has.
	ServiceAccount, Into types.NamespacedName
	// Lifetime is the one that is asked for.
	Lifetime time.Duration
	// Due is when the token is to be renewed and Expiry when it ends; zero if that is not known.
	Due, Expiry time.Time
	// Renewal is why the token is renewed at once; empty if it is not.
	Renewal string
	// Reason and Message are those of the event about what is wrong with the Secret; empty if nothing is.
	Reason, Message string
}

// Explain looks at an access Secret as the token requestor does, and writes nothing.
func Explain(ctx context.Context, q Question) (*Answer, error) {
	settings, on := q.Settings(q.Target)
	answer := &Answer{Off: !on, Irrelevant: on && !relevant(q.Secret, settings.Class)}
	if answer.Off || answer.Irrelevant {
		return answer, nil
	}
	assigned := assign(q.Target, q.Secret, q.All, q.Settings)
	if !assigned.mine {
		answer.Other = assigned.fault == nil
		return answer, answer.blame(orNil(assigned.fault))
	}
	selfAccess := q.Secret.Name == q.Target.SecretName
	wanted, ignored, err := parseAccess(q.Secret, settings)
	if err != nil {
		return answer, answer.blame(err)
	}
	answer.ServiceAccount, answer.Into, answer.Lifetime = wanted.account, wanted.targetSecret, wanted.expiration
	if err := settings.permit(wanted, q.Target.ServiceAccount, selfAccess); err != nil {
		return answer, answer.blame(err)
	}
	into, c, err := readToken(ctx, q.Client, q.Secret, wanted, selfAccess)
	if err != nil {
		return answer, answer.blame(err)
	}
	a := assess(q.Now, q.Secret, into, wanted, c, q.Target.CA)
	answer.Due, answer.Expiry, answer.Renewal = a.due, a.expiry, string(a.renew)
	if a.renew != renewNot {
		return answer, answer.blame(ignored)
	}
	good, err := review(ctx, q.Client, wanted, c.token())
	switch {
	case err != nil:
		return answer, err
	case !good:
		answer.Renewal = "the target does not accept it as a token of the ServiceAccount"
		return answer, answer.blame(ignored)
	case a.invalid != nil:
		return answer, answer.blame(a.invalid)
	}
	return answer, answer.blame(ignored)
}

// orNil makes no error of a nil pointer.
func orNil(fault *inputError) error {
	if fault == nil {
		return nil
	}
	return fault
}

// blame notes what is wrong with the Secret. It returns all other errors.
func (a *Answer) blame(err error) error {
	if input := (*inputError)(nil); errors.As(err, &input) {
		a.Reason, a.Message = input.reason, input.message
		return nil
	}
	return err
}
