package app_test

import (
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A management cluster of Cluster API has kubeconfig Secrets of its own. With a selector, only those with its labels
// register a target, from the moment on when they have them and as long as they do.
func TestRegistrationsAreOptInWithASelector(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub(func(c *configv1alpha1.HubConfiguration) {
		c.ClusterCache.RegistrationSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/hub": "yes"}}
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: "target-kubeconfig"}}
	label := func(value string) {
		patch := `{"metadata":{"labels":{"example.com/hub":` + value + `}}}`
		e.Expect(source.Client.Patch(e.ctx, secret, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}
	targetCluster := func() error {
		key := types.NamespacedName{Namespace: e.name, Name: "target"}
		return source.Client.Get(e.ctx, key, &hubv1alpha1.TargetCluster{})
	}

	// The hub works on another registration that was made later: it has seen the first one and left it alone.
	other := &corev1.Secret{}
	e.Expect(source.Client.Get(e.ctx, client.ObjectKeyFromObject(secret), other)).To(Succeed())
	other.ObjectMeta = metav1.ObjectMeta{Namespace: e.name, Name: "other-kubeconfig", Labels: map[string]string{
		hubv1alpha1.ClusterNameLabel: "other", "example.com/hub": "yes",
	}}
	e.Expect(source.Client.Create(e.ctx, other)).To(Succeed())
	e.Eventually(func() error {
		key := types.NamespacedName{Namespace: e.name, Name: "other"}
		return source.Client.Get(e.ctx, key, &hubv1alpha1.TargetCluster{})
	}).Should(Succeed())
	e.Expect(targetCluster()).To(MatchError(apierrors.IsNotFound, "not found"))
	e.Expect(source.Client.Delete(e.ctx, other)).To(Succeed())

	lease := &coordinationv1.Lease{}
	e.Expect(source.Client.Get(e.ctx, types.NamespacedName{Namespace: testbed.HubNamespace, Name: "trellis-heartbeat"},
		lease)).To(Succeed())
	e.Expect(lease.Annotations).To(HaveKeyWithValue(hubv1alpha1.RegistrationSelectorAnnotation, "example.com/hub=yes"))

	label(`"yes"`)
	e.expectWork()
	e.Expect(targetCluster()).To(Succeed())

	// Without ManagedResources that need it, a Secret that loses its label is as good as gone.
	mr := testbed.ManagedResource(e.name, "mr", "mr")
	e.Expect(source.Client.Delete(e.ctx, mr)).To(Succeed())
	e.Eventually(func() error { return source.Client.Get(e.ctx, client.ObjectKeyFromObject(mr), mr) }).
		Should(MatchError(apierrors.IsNotFound, "not found"))
	label("null")
	e.Eventually(targetCluster).Should(MatchError(apierrors.IsNotFound, "not found"))
	e.stop(hub)
}
