package testbed

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// account is the service account of the hub in a target.
const account = "trellis"

// Access returns a kubeconfig for the hub: a token of a service account that administers the cluster. The token is
// bound to the given name; Revoke takes it back. Tokens are distinguished by their lifetime, because the hub shows
// when its credential ends.
func (c *Cluster) Access(ctx context.Context, name string, lifetime time.Duration) ([]byte, error) {
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, metav1.NamespaceSystem, account, 0)
	if err != nil {
		return nil, err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: account}},
	}
	if err := c.Client.Create(ctx, binding); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("access of the hub to %s: %w", c.Name, err)
	}
	anchor := anchor(name)
	if err := c.Client.Create(ctx, anchor); err != nil {
		return nil, fmt.Errorf("access of the hub to %s: %w", c.Name, err)
	}
	seconds := int64(lifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: anchor.Name, UID: anchor.UID},
	}}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: account}}
	if err := c.Client.SubResource("token").Create(ctx, owner, request); err != nil {
		return nil, fmt.Errorf("access of the hub to %s: %w", c.Name, err)
	}
	if err := c.awaitRights(ctx); err != nil {
		return nil, err
	}
	return Rewrite(kubeconfig, func(config *KubeConfig) {
		for _, user := range config.AuthInfos {
			user.Token = request.Status.Token
		}
	}), nil
}

// awaitRights waits until the API server knows of the binding, which is a moment after it was created.
func (c *Cluster) awaitRights(ctx context.Context) error {
	everything := authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}
	for range 100 {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + metav1.NamespaceSystem + ":" + account, ResourceAttributes: &everything,
		}}
		if err := c.Client.Create(ctx, review); err != nil {
			return fmt.Errorf("access of the hub to %s: %w", c.Name, err)
		}
		if review.Status.Allowed {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("access of the hub to %s: its rights do not come into force", c.Name)
}

// Revoke takes back a token of Access. The API server remembers for up to ten seconds that it was good.
func (c *Cluster) Revoke(ctx context.Context, name string) error {
	if err := c.Client.Delete(ctx, anchor(name)); err != nil {
		return fmt.Errorf("taking back the access of the hub to %s: %w", c.Name, err)
	}
	return nil
}

// anchor is what a token is bound to: it is good as long as this Secret exists.
func anchor(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: account + "-" + name}}
}
