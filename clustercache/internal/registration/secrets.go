package registration

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
)

// Run takes registrations from an informer of Secrets until ctx ends, and waits for what it started. It calls synced
// once when every registration that existed at the start is known.
func (r *Registry) Run(ctx context.Context, informer cache.Informer, synced func()) error {
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.handle(ctx, obj, false) },
		UpdateFunc: func(_, obj any) { r.handle(ctx, obj, false) },
		DeleteFunc: func(obj any) { r.handle(ctx, obj, true) },
	})
	if err != nil {
		return fmt.Errorf("cannot watch registration Secrets: %w", err)
	}
	select {
	case <-handle.HasSyncedChecker().Done():
		if r.finish(ctx) == nil {
			synced()
		}
	case <-ctx.Done():
	}
	<-ctx.Done()
	r.wait()
	if err := informer.RemoveEventHandler(handle); err != nil {
		return fmt.Errorf("cannot stop watching registration Secrets: %w", err)
	}
	return nil
}

// handle is called by the informer, which waits for it: it reads nothing of the Secret but its metadata.
func (r *Registry) handle(ctx context.Context, obj any, deleted bool) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return
	}
	key, ok := kubeconfig.TargetOf(types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name})
	if !ok {
		return
	}
	if deleted || !kubeconfig.IsRegistration(secret) {
		r.remove(ctx, key)
		return
	}
	r.observe(ctx, key, secret)
}
