package identity

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// Guard decides whether the cluster that a registration leads to is the one it has always led to. It lives as long as
// the process, since a standby replica needs it as well.
//
// What counts is the UID in the status of the TargetCluster. Until the controller has written it there, the guard
// remembers what it let pass, so that a registration cannot lead to two clusters in a row before it is known as one.
type Guard struct {
	reader client.Reader

	mu     sync.Mutex
	passed map[clustercache.ClusterKey]types.UID // only where the TargetCluster has no UID yet
}

// NewGuard returns a guard that reads TargetClusters from the given reader, usually a cache.
func NewGuard(reader client.Reader) *Guard {
	return &Guard{reader: reader, passed: map[clustercache.ClusterKey]types.UID{}}
}

// Verify is meant for clustercache.Options.VerifyIdentity. It returns nil if the cluster with this kube-system UID may
// be used as the target, because it is the known one, none is known, or the annotations of the registration Secret
// confirm it. Otherwise the error says what is wrong and how to confirm.
func (g *Guard) Verify(ctx context.Context, cluster clustercache.ClusterKey, uid types.UID,
	secretAnnotations map[string]string) error {
	if cluster.Namespace == "" {
		return nil // a static target is the operator's own configuration
	}
	tc := &hubv1alpha1.TargetCluster{}
	if err := g.reader.Get(ctx, cluster, tc); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", clustercache.ErrIdentityUndecided, err)
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	known := tc.Status.ClusterUID
	if known != "" {
		delete(g.passed, cluster)
	} else {
		known = g.passed[cluster]
	}
	switch {
	case known == uid:
		return nil
	case known == "", Confirmed(secretAnnotations, uid):
		if tc.Status.ClusterUID == "" {
			g.passed[cluster] = uid
		}
		return nil
	default:
		return Changed(known, uid)
	}
}

// Forget drops what the guard remembers of a target.
func (g *Guard) Forget(cluster clustercache.ClusterKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.passed, cluster)
}

// Confirmed reports whether the annotations of a registration Secret confirm that the target is the cluster with a UID.
func Confirmed(secretAnnotations map[string]string, uid types.UID) bool {
	return secretAnnotations[hubv1alpha1.ConfirmIdentityAnnotation] == string(uid)
}

// Changed says that a target is another cluster than it was, and how to confirm that.
func Changed(known, uid types.UID) error {
	return fmt.Errorf("the kubeconfig leads to the cluster with UID %s, but this target is the cluster with UID %s; if that is intended, annotate the Secret with %s=%s",
		uid, known, hubv1alpha1.ConfirmIdentityAnnotation, uid)
}
