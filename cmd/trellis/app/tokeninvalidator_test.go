package app_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/tokeninvalidator"
)

// Secrets of the target are labelled as soon as its settings say so, with a warning that no token becomes invalid.
func TestTI19_OneHalfOfTheTokenInvalidatorIsWarnedOf(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub()
	e.eventuallyReady()
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: "a"}, AutomountServiceAccountToken: ptr.To(false),
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.name, Name: "s", Annotations: map[string]string{corev1.ServiceAccountNameKey: account.Name},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	e.Expect(target.Client.Create(e.ctx, account)).To(Succeed())
	e.Expect(target.Client.Create(e.ctx, secret)).To(Succeed())
	e.Expect(e.working(hub, tokeninvalidator.Name)()).To(BeZero(), "it is off by default")
	e.Expect(hub.Log.String()).NotTo(ContainSubstring("static tokens stay valid"))

	e.Expect(e.setControllers(`{"tokenInvalidator":{"enabled":true}}`)).To(Succeed())
	e.Eventually(func() map[string]string {
		e.Expect(target.Client.Get(e.ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		return secret.Labels
	}).Should(HaveKey(tokeninvalidator.ConsiderLabel))
	e.Eventually(e.reasons).Should(ContainElement(And(
		HavePrefix("TokensStayValid"), ContainSubstring("static tokens stay valid"))))
	e.Expect(e.setControllers(`{"tokenInvalidator":{"enabled":false}}`)).To(Succeed())
	e.Eventually(e.working(hub, tokeninvalidator.Name)).Should(BeZero())
	e.stop(hub)

	t.Log("a class")
	hub = e.startHub(func(c *configv1alpha1.HubConfiguration) {
		for i := range c.Classes {
			c.Classes[i].Controllers.TokenInvalidator = &hubv1alpha1.TokenInvalidatorController{Enabled: ptr.To(true)}
		}
	})
	e.Eventually(func() string { return hub.Log.About("static tokens stay valid") }).ShouldNot(BeEmpty())
}
