package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/prune"
)

// Targets gives access to target clusters.
type Targets struct {
	Clusters clustercache.ClusterCache
	Reader   client.Reader // informers of the source
}

// registration returns the TargetCluster of a registration, nil if there is none (yet). It belongs to the informer.
func (t *Targets) registration(ctx context.Context, key clustercache.ClusterKey) (*hubv1alpha1.TargetCluster, error) {
	if key.Namespace == "" {
		return nil, nil
	}
	tc := &hubv1alpha1.TargetCluster{}
	if err := t.Reader.Get(ctx, key, tc, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading TargetCluster %s: %w", key, err)
	}
	return tc, nil
}

// Paused reports whether the operator stopped all work on a target.
func (t *Targets) Paused(ctx context.Context, key clustercache.ClusterKey) (bool, error) {
	tc, err := t.registration(ctx, key)
	return err == nil && tc != nil && tc.Spec.Paused, err
}

// Hibernated reports whether a target is meant to be away.
func (t *Targets) Hibernated(ctx context.Context, key clustercache.ClusterKey) bool {
	tc, err := t.registration(ctx, key)
	return err == nil && tc != nil && resourcesv1alpha1.IsTruthy(tc.Annotations[hubv1alpha1.HibernatedAnnotation])
}

// IdentityKnown reports whether it is written down which cluster a target is. Nothing is written to a target before.
func (t *Targets) IdentityKnown(ctx context.Context, key clustercache.ClusterKey, uid types.UID) (bool, error) {
	if key.Namespace == "" {
		return true, nil
	}
	tc, err := t.registration(ctx, key)
	return err == nil && tc != nil && tc.Status.ClusterUID == uid, err
}

// Access returns the clients of a target that is known to be the cluster with a UID. If it is another one meanwhile, it
// counts as not connected.
func (t *Targets) Access(ctx context.Context, key clustercache.ClusterKey, uid types.UID) (apply.Target, error) {
	metadataClient, err := t.Clusters.GetMetadataClient(ctx, key)
	if err != nil {
		return apply.Target{}, err
	}
	uncached, err := t.Clusters.GetUncachedClient(ctx, key)
	if err != nil {
		return apply.Target{}, err
	}
	mapper, err := t.Clusters.GetRESTMapper(ctx, key)
	if err != nil {
		return apply.Target{}, err
	}
	if err := t.is(key, uid); err != nil {
		return apply.Target{}, err
	}
	return apply.Target{Metadata: metadataClient, Client: uncached, Mapper: mapper, Hold: clustercache.HoldAnswers}, nil
}

// PruneAccess is the access for deletions to a target whose other clients are known to lead to the cluster with a UID.
func (t *Targets) PruneAccess(
	ctx context.Context, key clustercache.ClusterKey, uid types.UID, target apply.Target,
) (prune.Target, error) {
	config, err := t.Clusters.GetRESTConfig(ctx, key)
	if err != nil {
		return prune.Target{}, err
	}
	if err := t.is(key, uid); err != nil {
		return prune.Target{}, err
	}
	deletes, err := prune.NewDeletes(config)
	if err != nil {
		return prune.Target{}, fmt.Errorf("target %s: %w", key, err)
	}
	return prune.Target{
		Metadata: target.Metadata, Deletes: deletes, Client: target.Client, Mapper: target.Mapper,
		Hold: clustercache.HoldAnswers,
	}, nil
}

// is returns an error unless a target is the cluster with a UID.
func (t *Targets) is(key clustercache.ClusterKey, uid types.UID) error {
	if status, _ := t.Clusters.GetStatus(key); status.UID != uid {
		return fmt.Errorf("target %s is no longer the cluster with UID %s: %w",
			key, uid, clustercache.ErrConnectionReplaced)
	}
	return nil
}

// OfObjects finds the cluster that got the objects. Without a mark, as on a ManagedResource that another instance
// left behind, it is the target that the ManagedResource belongs to.
func (t *Targets) OfObjects(ctx context.Context, s *run.Subject, assigner *assignment.Assigner) (
	key clustercache.ClusterKey, status clustercache.Status, registered bool, err error,
) {
	away := clustercache.Status{State: clustercache.StateDisconnected, Message: s.Decision.Message}
	bound := s.BoundUID()
	if bound == "" {
		if !s.Decision.HasTarget {
			// Nothing says where the objects are, and an ambiguity may be resolved yet.
			if s.Decision.Reason == resourcesv1alpha1.ReasonTargetAmbiguous {
				return key, away, true, nil
			}
			return key, status, false, nil
		}
		status, registered = t.Clusters.GetStatus(s.Target)
		return s.Target, status, registered, nil
	}
	key, found, err := assigner.FindUID(ctx, s.Class, s.Name.Namespace, bound)
	if err != nil {
		return key, status, false, err
	}
	if found {
		status, _ = t.Clusters.GetStatus(key)
		return key, status, true, nil
	}
	if !s.Decision.HasTarget {
		// A fixed target is still there for the operator when a namespace is not selected any longer: the operator has
		// to correct that.
		if may, err := assigner.FixedMayBe(ctx, s.Class, bound); err != nil || may {
			return clustercache.ClusterKey{}, away, may, err
		}
		return key, status, false, nil
	}
	// A registration that does not show its cluster at present may be the one: not dialled yet, down, or refused.
	status, registered = t.Clusters.GetStatus(s.Target)
	if registered && status.State != clustercache.StateConnected {
		return s.Target, status, true, nil
	}
	return key, clustercache.Status{}, false, nil
}

// Lost reports whether a run failed because its target went away, by the errors of its calls. Then nothing is said
// about the objects: what was applied stays applied, as far as is known.
func (t *Targets) Lost(ctx context.Context, s *run.Subject, failures []apply.Outcome, pending []prune.Outcome) bool {
	if !slices.ContainsFunc(failures, func(o apply.Outcome) bool { return isUnanswered(o.Err) }) &&
		!slices.ContainsFunc(pending, func(o prune.Outcome) bool { return o.Err != nil && isUnanswered(o.Err) }) {
		s.State.NoAnswer = false
		return false
	}
	status, _ := t.Clusters.GetStatus(s.Target)
	if status.State != clustercache.StateConnected ||
		t.Clusters.GetHealthCheckingState(ctx, s.Target).ConsecutiveFailures > 0 {
		return true
	}
	// Calls fail before a probe finds out. It will have by the next run, and then the failures are reported if it is
	// not that.
	first := !s.State.NoAnswer
	s.State.NoAnswer = true
	return first
}

// isUnanswered reports whether an error means that a target did not answer.
func isUnanswered(err error) bool {
	var answer apierrors.APIStatus
	return IsDown(err) || errors.Is(err, clustercache.ErrConnectionReplaced) ||
		!errors.As(err, &answer) && isTransport(err)
}

func isTransport(err error) bool {
	var call *url.Error
	var network net.Error
	return errors.As(err, &call) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// IsDown reports whether an error means that a target is not connected, or not registered.
func IsDown(err error) bool {
	return errors.Is(err, clustercache.ErrClusterNotConnected) || errors.Is(err, clustercache.ErrClusterUnknown)
}

// Reachable reports whether calls to a target may succeed.
func Reachable(status clustercache.Status) bool {
	return status.State == clustercache.StateConnected || status.State == clustercache.StateDraining
}

// GivenUp reports whether a user gave up on the objects in a target that cannot be reached.
func GivenUp(mr *resourcesv1alpha1.ManagedResource, status clustercache.Status) bool {
	return !Reachable(status) && resourcesv1alpha1.IsTruthy(mr.Annotations[resourcesv1alpha1.ForceDeletionAnnotation])
}
