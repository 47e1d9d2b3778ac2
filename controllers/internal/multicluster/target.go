package multicluster

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
)

// Target is the target of one run.
type Target struct {
	// Status is that of the target when the run began. Its Cluster is the target's key.
	Status clustercache.Status
	// Client calls the target. It refuses to write, with clustercache.ErrConnectionReplaced, once the target is not
	// registered, or not the same cluster by the same connection, any longer.
	Client client.Client
	// Log has the target and the object as values.
	Log logr.Logger

	subscriptions map[*Objects]clustercache.Subscription
	changes       map[*Objects]*atomic.Int64
	events        events.EventRecorder
	valid         func() error
}

// Key is that of the target.
func (t *Target) Key() clustercache.ClusterKey { return t.Status.Cluster }

// Namespace is the home namespace of the target: that of its registration in the source.
func (t *Target) Namespace() string { return t.Status.Cluster.Namespace }

// Objects returns what is watched in the target of some objects that the controller was built with; nil if they are not
// watched in this one. It is of no use after the run.
func (t *Target) Objects(objects *Objects) clustercache.Subscription { return t.subscriptions[objects] }

// Changes returns how often objects of the target have changed, as far as requests followed from it. What was computed
// from all that a watch shows holds for as long as that is the same: a change counts before it is reconciled.
func (t *Target) Changes(objects *Objects) int64 {
	if changes := t.changes[objects]; changes != nil {
		return changes.Load()
	}
	return 0
}

// Valid returns an error once the target is not registered, or not the same cluster by the same connection, any longer.
// Call it right before writing to the source what a target returned.
func (t *Target) Valid() error { return t.valid() }

// Event reports something about an object of the source.
func (t *Target) Event(about client.Object, reason, action, message string) {
	t.events.Eventf(about, nil, corev1.EventTypeNormal, reason, action, "%s", message)
}

// Warn reports that something is wrong with an object of the source.
func (t *Target) Warn(about client.Object, reason, action, message string) {
	t.events.Eventf(about, nil, corev1.EventTypeWarning, reason, action, "%s", message)
}

// validity reports whether a connection still is the target's.
func validity(clusters clustercache.ClusterCache, begun clustercache.Status) func() error {
	return func() error {
		now, registered := clusters.GetStatus(begun.Cluster)
		switch {
		case !registered || now.State == clustercache.StateDraining:
			return fmt.Errorf("target %s is no longer registered: %w", begun.Cluster, clustercache.ErrConnectionReplaced)
		case now.UID != begun.UID || now.Connection != begun.Connection || now.SecretName != begun.SecretName:
			return fmt.Errorf("target %s has another connection: %w", begun.Cluster, clustercache.ErrConnectionReplaced)
		}
		return nil
	}
}

// fenced is a client that does not write to a target that is not what it was.
type fenced struct {
	client.Client
	valid func() error
}

func (f *fenced) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return f.write(func() error { return f.Client.Apply(ctx, obj, opts...) })
}

func (f *fenced) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return f.write(func() error { return f.Client.Create(ctx, obj, opts...) })
}

func (f *fenced) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return f.write(func() error { return f.Client.Delete(ctx, obj, opts...) })
}

func (f *fenced) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return f.write(func() error { return f.Client.Update(ctx, obj, opts...) })
}

func (f *fenced) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return f.write(func() error { return f.Client.Patch(ctx, obj, patch, opts...) })
}

func (f *fenced) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	return f.write(func() error { return f.Client.DeleteAllOf(ctx, obj, opts...) })
}

func (f *fenced) Status() client.SubResourceWriter { return f.SubResource("status") }

func (f *fenced) SubResource(name string) client.SubResourceClient {
	return &fencedSubResource{SubResourceClient: f.Client.SubResource(name), fence: f}
}

func (f *fenced) write(call func() error) error {
	if err := f.valid(); err != nil {
		return err
	}
	return call()
}

type fencedSubResource struct {
	client.SubResourceClient
	fence *fenced
}

func (s *fencedSubResource) Create(
	ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption,
) error {
	return s.fence.write(func() error { return s.SubResourceClient.Create(ctx, obj, sub, opts...) })
}

func (s *fencedSubResource) Update(
	ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption,
) error {
	return s.fence.write(func() error { return s.SubResourceClient.Update(ctx, obj, opts...) })
}

func (s *fencedSubResource) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	return s.fence.write(func() error { return s.SubResourceClient.Patch(ctx, obj, patch, opts...) })
}

func (s *fencedSubResource) Apply(
	ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
) error {
	return s.fence.write(func() error { return s.SubResourceClient.Apply(ctx, obj, opts...) })
}

// wholeTarget is the name in requests of the timer.
var wholeTarget = types.NamespacedName{}
