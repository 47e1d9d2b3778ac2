package assignment

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
)

const (
	// leaseDuration is that of a Lease that does not say.
	leaseDuration = 15 * time.Second
	// clockSkew is how far the clock of a Lease's holder may be behind ours. It decides only about Leases that were not
	// seen to change.
	clockSkew = 30 * time.Second
)

// leases remembers the Leases of Gardener resource managers, by namespace. Their times are those of another machine's
// clock, so they say one thing only: that a Lease was renewed, when they change. A Lease is held for its duration from
// when that was seen, as in the election of leaders. One that is seen first may be just about to be renewed, so it is
// given its duration, too, unless it is much too old by any clock.
type leases struct {
	mu   sync.Mutex
	seen map[string]sighting
}

type sighting struct {
	uid     types.UID
	version string
	holder  string
	renewed time.Time
	// until is when it expires if it does not change; zero for one that is known to be expired.
	until time.Time
}

// sharesFinalizer reports whether a Gardener resource manager in a namespace may have a class: its default class and
// ours use the same finalizer, so only its Lease distinguishes them.
func (c *Class) sharesFinalizer() bool {
	return c.Target.Type == configv1alpha1.TargetNamespace && c.Name == resourcesv1alpha1.DefaultClass
}

// ManagedElsewhere returns until when a Gardener resource manager holds the namespace, by the Lease it renews, as far
// as is known; zero if none does.
func (c *Assigner) ManagedElsewhere(ctx context.Context, namespace string) (time.Time, error) {
	return c.managedElsewhere(ctx, c.Reader, namespace)
}

// ManagedElsewhereNow is ManagedElsewhere with a live read of the source: a Lease may have been created a moment ago.
// It returns zero for classes that no resource manager holds.
func (c *Assigner) ManagedElsewhereNow(ctx context.Context, live client.Reader, class *Class, namespace string) (
	time.Time, error) {
	if !class.sharesFinalizer() {
		return time.Time{}, nil
	}
	return c.managedElsewhere(ctx, live, namespace)
}

func (c *Assigner) managedElsewhere(ctx context.Context, reader client.Reader, namespace string) (time.Time, error) {
	lease := &coordinationv1.Lease{}
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ResourceManagerLease}, lease,
		client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		c.LeaseGone(namespace)
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the Lease of a Gardener resource manager in namespace %s: %w", namespace, err)
	}
	return c.SeeLease(lease), nil
}

// SeeLease takes note of a Lease of a Gardener resource manager and returns until when it is held; zero if it is not.
func (c *Assigner) SeeLease(lease *coordinationv1.Lease) time.Time {
	now := c.Clock.Now()
	c.leases.mu.Lock()
	defer c.leases.mu.Unlock()
	s := sighting{uid: lease.UID, version: lease.ResourceVersion}
	old, known := c.leases.seen[lease.Namespace]
	if known && informers.Older(s.version, old.version) {
		return old.heldUntil(now) // informers may be behind a live read
	}
	duration := leaseDuration
	if spec := lease.Spec; spec.RenewTime != nil && spec.HolderIdentity != nil && *spec.HolderIdentity != "" {
		s.holder, s.renewed = *spec.HolderIdentity, spec.RenewTime.Time
		if spec.LeaseDurationSeconds != nil {
			duration = time.Duration(*spec.LeaseDurationSeconds) * time.Second
		}
		renewal := !known || old.uid != s.uid || old.holder != s.holder || !old.renewed.Equal(s.renewed)
		switch {
		case !renewal:
			s.until = old.until
		case known || s.renewed.Add(duration+clockSkew).After(now):
			s.until = now.Add(duration)
		}
	}
	if c.leases.seen == nil {
		c.leases.seen = map[string]sighting{}
	}
	c.leases.seen[lease.Namespace] = s
	return s.heldUntil(now)
}

// LeaseGone takes note that there is no Lease of a Gardener resource manager in a namespace.
func (c *Assigner) LeaseGone(namespace string) {
	c.leases.mu.Lock()
	defer c.leases.mu.Unlock()
	delete(c.leases.seen, namespace)
}

func (s sighting) heldUntil(now time.Time) time.Time {
	if s.until.After(now) {
		return s.until
	}
	return time.Time{}
}
