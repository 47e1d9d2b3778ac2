package clustercache

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/trellis-hub/trellis/clustercache/internal/connection"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
)

// registration is what is known of a target from its Secret, or from Options.Static. It is immutable.
type registration struct {
	secretName          string
	uid                 types.UID
	resourceVersion     string
	labels, annotations map[string]string

	access connection.Access      // how to connect; empty if fault is set
	fault  *kubeconfig.FaultError // why the registration cannot be used
}

// describeRegistration describes a registration from the metadata of its Secret.
func describeRegistration(secret *corev1.Secret) *registration {
	annotations := maps.Clone(secret.Annotations)
	delete(annotations, lastApplied)
	return &registration{
		secretName:      secret.Name,
		uid:             secret.UID,
		resourceVersion: secret.ResourceVersion,
		labels:          maps.Clone(secret.Labels),
		annotations:     annotations,
	}
}

// newRegistration reads a registration Secret.
func newRegistration(secret *corev1.Secret, policy kubeconfig.Policy) *registration {
	r := describeRegistration(secret)
	config, err := kubeconfig.FromSecret(secret, policy)
	if err != nil {
		if !errors.As(err, &r.fault) {
			r.fault = &kubeconfig.FaultError{Reason: kubeconfig.ReasonInvalid, Message: "the kubeconfig cannot be read"}
		}
		return r
	}
	r.access = connection.Access{Kubeconfig: config}
	return r
}

// same tells whether two registrations come from the same version of the same Secret, and are as good as each other.
func (r *registration) same(o *registration) bool {
	fault := r.fault == o.fault || r.fault != nil && o.fault != nil && *r.fault == *o.fault
	return r.uid == o.uid && r.resourceVersion == o.resourceVersion && fault
}

// watchSecrets feeds registrations into the cache until ctx ends.
func (c *Cache) watchSecrets(ctx context.Context) error {
	informer, err := c.options.Secrets.GetInformer(ctx, &corev1.Secret{})
	if err != nil {
		return fmt.Errorf("cannot watch registration Secrets: %w", err)
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.observeSecret(ctx, obj, false) },
		UpdateFunc: func(_, obj any) { c.observeSecret(ctx, obj, false) },
		DeleteFunc: func(obj any) { c.observeSecret(ctx, obj, true) },
	})
	if err != nil {
		return fmt.Errorf("cannot watch registration Secrets: %w", err)
	}
	select {
	case <-handle.HasSyncedChecker().Done():
		if c.registry.finish(ctx) == nil {
			close(c.synced)
		}
	case <-ctx.Done():
	}
	<-ctx.Done()
	c.registry.wait()
	if err := informer.RemoveEventHandler(handle); err != nil {
		return fmt.Errorf("cannot stop watching registration Secrets: %w", err)
	}
	return nil
}

// observeSecret is called by the informer, which waits for it: it reads nothing of the Secret but its metadata.
func (c *Cache) observeSecret(ctx context.Context, obj any, deleted bool) {
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
		c.registry.remove(ctx, key)
		return
	}
	c.registry.observe(ctx, key, secret)
}
