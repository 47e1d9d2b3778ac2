package app_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// configurations counts those of the hub's webhooks in a cluster.
func (e *env) configurations(in *testbed.Cluster) func() int {
	return func() int {
		mutating := &admissionregistrationv1.MutatingWebhookConfigurationList{}
		validating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
		labelled := client.MatchingLabels{hubv1alpha1.WebhooksLabel: "true"}
		e.Expect(in.Client.List(e.ctx, mutating, labelled)).To(Succeed())
		e.Expect(in.Client.List(e.ctx, validating, labelled)).To(Succeed())
		return len(mutating.Items) + len(validating.Items)
	}
}

// unregister deletes the registration of a target.
func (e *env) unregister(target string) {
	e.t.Helper()
	e.Expect(source.Client.Delete(e.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: target + "-kubeconfig"},
	})).To(Succeed())
}

// exists reports whether there is a TargetCluster.
func (e *env) exists(target string) func() bool {
	return func() bool {
		tc := &hubv1alpha1.TargetCluster{}
		err := source.Client.Get(e.ctx, types.NamespacedName{Namespace: e.name, Name: target}, tc)
		e.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return err == nil
	}
}

const someHost = `{"kubernetesServiceHost":{"enabled":true,"mode":"Webhook","failurePolicy":"Fail","host":"api.a"}}`

// HUB-8: the configurations in a target go before the connection that is left of a deleted registration does.
func TestWebhooksOfADeletedRegistration(t *testing.T) {
	e := newEnv(t)
	e.Expect(source.Client.Create(e.ctx, testbed.Registration(e.name, "leaving", e.alias(target)))).To(Succeed())
	hub := e.startHub(serveWebhooks(e))
	e.setWebhooks("leaving", someHost)
	e.Eventually(e.webhooksOf("leaving")).Should(Equal("True WebhooksRegistered"), "%s", hub.Log)
	e.Expect(e.configurations(target)()).To(Equal(2))

	e.unregister("leaving")
	e.Eventually(e.configurations(target)).Should(BeZero(), "%s", hub.Log)
	e.Eventually(e.exists("leaving")).Should(BeFalse(), "%s", hub.Log)
	e.stop(hub)
	e.Expect(e.host(target)).To(BeEmpty(), "nothing calls the hub that is down")
}

// HUB-8: the same if the TargetCluster is deleted, too, whichever is the first.
func TestWebhooksOfADeletedTargetCluster(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub(serveWebhooks(e))
	for name, first := range map[string]bool{"first": true, "last": false} {
		e.Expect(source.Client.Create(e.ctx, testbed.Registration(e.name, name, e.alias(target)))).To(Succeed())
		e.Eventually(e.exists(name)).Should(BeTrue(), "%s", hub.Log)
		e.setWebhooks(name, someHost)
		e.Eventually(e.webhooksOf(name)).Should(Equal("True WebhooksRegistered"), "%s", hub.Log)
		e.Expect(e.configurations(target)()).To(Equal(2))
		tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: name}}
		if first {
			e.Expect(source.Client.Delete(e.ctx, tc)).To(Succeed())
		}
		e.unregister(name)
		if !first {
			e.Expect(client.IgnoreNotFound(source.Client.Delete(e.ctx, tc))).To(Succeed())
		}
		e.Eventually(e.configurations(target)).Should(BeZero(), "%s", hub.Log)
		e.Eventually(e.exists(name)).Should(BeFalse(), "%s", hub.Log)
	}
}

// HUB-8: if the configurations cannot be deleted, the condition of the TargetCluster says so, and how to delete them.
func TestWebhooksOfATargetThatIsGoneForGood(t *testing.T) {
	e := newEnv(t)
	alias, kubeconfig := e.startAlias(target)
	e.Expect(source.Client.Create(e.ctx, testbed.Registration(e.name, "leaving", kubeconfig))).To(Succeed())
	hub := e.startHub(serveWebhooks(e), func(c *configv1alpha1.HubConfiguration) {
		c.ClusterCache.DrainTimeout.Duration = 2 * time.Second
	})
	e.setWebhooks("leaving", someHost)
	e.Eventually(e.webhooksOf("leaving")).Should(Equal("True WebhooksRegistered"), "%s", hub.Log)

	alias.Stop()
	e.unregister("leaving")
	e.Eventually(e.webhooksOf("leaving")).Should(Equal("False WebhooksLeftBehind"), "%s", hub.Log)
	e.Expect(e.configurations(target)()).To(Equal(2))
	tc := &hubv1alpha1.TargetCluster{}
	e.Expect(source.Client.Get(e.ctx, types.NamespacedName{Namespace: e.name, Name: "leaving"}, tc)).To(Succeed())
	c := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered)
	e.Expect(c.Message).To(ContainSubstring("trellisctl --kubeconfig <of the target> webhooks remove"))
	e.Eventually(func() []eventsv1.Event {
		events := &eventsv1.EventList{}
		e.Expect(source.Client.List(e.ctx, events, client.InNamespace(e.name))).To(Succeed())
		return events.Items
	}).Should(ContainElement(And(HaveField("Reason", "WebhooksLeftBehind"), HaveField("Regarding.Name", "leaving"))))
	e.Expect(e.host(target)).To(BeEmpty(), "the hub allows what it does not look after any longer, as it is")

	// If the target is registered again, the hub deletes its configurations.
	e.setWebhooks("leaving", "null")
	_, kubeconfig = e.startAliasAs(target, tc.Status.ClusterUID)
	e.Expect(source.Client.Create(e.ctx, testbed.Registration(e.name, "leaving", kubeconfig))).To(Succeed())
	e.Eventually(e.webhooksOf("leaving")).Should(BeEmpty(), "%s", hub.Log)
	e.Expect(e.configurations(target)()).To(BeZero())
}
