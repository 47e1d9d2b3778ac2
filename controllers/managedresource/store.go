package managedresource

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// store reads and writes ManagedResources. Reads come from the informer, but never older than the last own write: an
// inventory that goes back in time would lose objects.
type store struct {
	cached client.Reader // informers
	live   client.Reader
	client client.Client // writes
	// observe hears of every write, before anything is done that relies on it.
	observe func(*resourcesv1alpha1.ManagedResource)

	mu      sync.Mutex
	written map[types.NamespacedName]*resourcesv1alpha1.ManagedResource // until the informer has caught up
}

// get returns a copy of the ManagedResource, nil if it does not exist.
func (s *store) get(ctx context.Context, name types.NamespacedName) (*resourcesv1alpha1.ManagedResource, error) {
	mr := &resourcesv1alpha1.ManagedResource{}
	err := s.cached.Get(ctx, name, mr)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading ManagedResource %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.written[name]
	if err != nil {
		delete(s.written, name)
		return nil, nil
	}
	if own == nil {
		return mr, nil
	}
	if own.UID == mr.UID && older(mr.ResourceVersion, own.ResourceVersion) {
		return own.DeepCopy(), nil
	}
	delete(s.written, name)
	return mr, nil
}

func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// patch sends the difference between base and mr, metadata and spec or status, and fails if somebody else wrote since. On
// success mr is what the server answered. Nothing is sent if there is no difference.
func (s *store) patch(ctx context.Context, base, mr *resourcesv1alpha1.ManagedResource, status bool) error {
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	name := client.ObjectKeyFromObject(mr)
	var err error
	if status {
		err = s.client.Status().Patch(ctx, mr, patch)
	} else {
		err = s.client.Patch(ctx, mr, patch)
	}
	if apierrors.IsConflict(err) {
		s.refresh(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("writing ManagedResource %s: %w", name, err)
	}
	s.remember(mr)
	return nil
}

func (s *store) remember(mr *resourcesv1alpha1.ManagedResource) {
	s.observe(mr)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[client.ObjectKeyFromObject(mr)] = mr.DeepCopy()
}

// drop forgets what was written to a ManagedResource that is gone.
func (s *store) drop(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.written, name)
}

// refresh reads the ManagedResource live, so that the retry after a conflict does not meet the same old state.
func (s *store) refresh(ctx context.Context, name types.NamespacedName) {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := s.live.Get(ctx, name, mr); err == nil {
		s.remember(mr)
	}
}
