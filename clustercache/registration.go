package clustercache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
)

// registration is what is known of a target from its Secret, or from Options.Static. It is immutable.
type registration struct {
	secretName          string
	uid                 types.UID
	resourceVersion     string
	labels, annotations map[string]string

	access access                 // how to connect; empty if fault is set
	fault  *kubeconfig.FaultError // why the registration cannot be used
}

// access is what a connection is made with: the kubeconfig of a registration, or a static configuration.
type access struct {
	kubeconfig *kubeconfig.Config
	static     *rest.Config
}

func (a access) empty() bool { return a.kubeconfig == nil && a.static == nil }

func (a access) equal(b access) bool {
	if a.kubeconfig == nil || b.kubeconfig == nil {
		return a == b
	}
	return a.kubeconfig.Equal(b.kubeconfig)
}

// equalButToken tells whether an open connection can go on with b after its token was replaced.
func (a access) equalButToken(b access) bool {
	return a.kubeconfig != nil && b.kubeconfig != nil && a.kubeconfig.EqualButToken(b.kubeconfig)
}

// config returns the configuration without the token of a registration, which is sent by the transport.
func (a access) config() *rest.Config {
	if a.kubeconfig != nil {
		return a.kubeconfig.REST()
	}
	return rest.CopyConfig(a.static)
}

func (a access) token() string {
	if a.kubeconfig != nil {
		return a.kubeconfig.Token
	}
	return ""
}

// secrets returns what must not be shown.
func (a access) secrets() []string {
	if a.kubeconfig == nil {
		return nil
	}
	return slices.DeleteFunc([]string{a.kubeconfig.Token, a.kubeconfig.Password}, func(s string) bool { return s == "" })
}

// validity is that of the credential which ends first, zero if that is not known.
func (a access) validity() (issued, end time.Time) {
	if a.kubeconfig != nil {
		return a.kubeconfig.Issued, a.kubeconfig.Expiry
	}
	return time.Time{}, time.Time{}
}

// addressesFor says where connections may go. Targets that the operator configured may have any address.
func (c *Cache) addressesFor(a access) addresses.Policy {
	if a.kubeconfig == nil {
		return addresses.Any()
	}
	return c.options.Dial.Addresses
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
	r.access = access{kubeconfig: config}
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
