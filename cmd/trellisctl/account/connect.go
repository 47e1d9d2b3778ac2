package account

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

// rightsTimeout bounds how long it takes until an API server applies new rights.
const rightsTimeout = 15 * time.Second

// Connect connects with the kubeconfig that will be stored. It retries until the rights of a new service account are
// effective.
func Connect(ctx context.Context, env *cli.Env, stored *remote.Kubeconfig, flags remote.Flags, fresh bool) (
	raw []byte, connection *remote.Connection, err error) {
	raw, config, err := stored.Stored()
	if err != nil {
		return nil, nil, err
	}
	end := env.Clock.Now().Add(rightsTimeout)
	progress := env.Progress()
	defer progress.End()
	for {
		connection, err = remote.Connect(ctx, config, flags.ConnectTimeout, stored.Policy.Addresses)
		if err == nil || !fresh || cli.ExitCode(err) != cli.ExitRefused || env.Clock.Now().After(end) {
			return raw, connection, err
		}
		progress.Say("waiting until the cluster knows of the rights of the service account")
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-env.Clock.After(500 * time.Millisecond):
		}
	}
}

// MayDoEverything asks the target whether a credential has all rights there. Without a response that is not known.
func MayDoEverything(ctx context.Context, c client.Client) bool {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "*", Version: "*", Resource: "*", Verb: "*"},
	}}
	return c.Create(ctx, review) != nil || review.Status.Allowed
}
