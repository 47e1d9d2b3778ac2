package nodeagentauthorizer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// UserPrefix is what names of node agents begin with; that of their Machine or Node follows.
	UserPrefix = "gardener.cloud:node-agent:machine:"
	// Group is the group that node agents are in.
	Group = "gardener.cloud:node-agents"
)

const (
	// decisionTimeout bounds a decision: API servers wait for ten seconds.
	decisionTimeout = 9 * time.Second
	// readTimeout bounds a read.
	readTimeout = time.Second
)

// Settings are those of a target.
type Settings struct {
	// Off says that requests of the target are not authorized here: there is no opinion about any.
	Off bool
	// MachineNamespace is the namespace of the source with the target's Machines, which is that of its registration.
	// Empty: there are none, and agents are named after Nodes.
	MachineNamespace string
	// AuthorizeWithSelectors says that the API server sends selectors, so that lists of pods need one.
	AuthorizeWithSelectors bool
}

// Caller is who asks.
type Caller struct {
	Target clustercache.ClusterKey
	// Authenticated says that a client certificate has proven that it is the API server of the target.
	Authenticated bool
	Settings      Settings
}

// Clients are where clients of targets come from, such as a clustercache.ClusterCache.
type Clients interface {
	GetUncachedClient(ctx context.Context, key clustercache.ClusterKey) (client.Client, error)
}

// Authorizer decides.
type Authorizer struct {
	// Source reads Machines, without a cache.
	Source client.Reader
	// Targets read what is asked about.
	Targets Clients
}

// Decision is an opinion about a request, or none.
type Decision struct {
	Allowed, Denied bool
	// Reason says why it is denied, for the log of the agent.
	Reason string
}

// ErrNotAuthenticated is the error of a Caller that has not proven who it is.
var ErrNotAuthenticated = errors.New("only an API server with a client certificate may ask")

func deny(format string, args ...any) (Decision, error) {
	return Decision{Denied: true, Reason: fmt.Sprintf(format, args...)}, nil
}

var allow = Decision{Allowed: true}

// Authorize decides. With an error, the decision is still to be used: it denies what an agent asks.
func (a *Authorizer) Authorize(
	ctx context.Context, caller Caller, spec *authorizationv1.SubjectAccessReviewSpec,
) (Decision, error) {
	if !caller.Authenticated {
		return Decision{}, ErrNotAuthenticated
	}
	name, is := strings.CutPrefix(spec.User, UserPrefix)
	if caller.Settings.Off || !is || !slices.Contains(spec.Groups, Group) {
		return Decision{}, nil
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return deny("%q is not the name of a machine", untrusted.Name(name))
	}
	if spec.ResourceAttributes == nil {
		return deny("node agents may only access resources")
	}
	machines := caller.Settings.MachineNamespace
	if home := caller.Target.Namespace; machines != "" && home != "" && machines != home {
		return Decision{Denied: true}, fmt.Errorf("machines of target %s cannot be in another namespace than its own",
			caller.Target)
	}
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	target, err := a.Targets.GetUncachedClient(ctx, caller.Target)
	if err != nil {
		return Decision{Denied: true}, err
	}
	r := &request{
		attributes: spec.ResourceAttributes, user: spec.User, name: name, settings: caller.Settings,
		source: a.Source, target: target,
	}
	decision, err := r.decide(ctx)
	if err != nil {
		return Decision{Denied: true}, err
	}
	return decision, nil
}
