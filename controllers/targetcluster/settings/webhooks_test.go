package settings

import (
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

const configurationOfWebhooks = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection: {leaderElect: false}
sourceIdentity: {serviceAccount: {namespace: trellis, name: trellis-source}}
classes:
- name: ""
  target: {type: Namespace}
  webhooks: {projectedTokenMount: {enabled: true, expirationSeconds: 7200}, kubernetesServiceHost: {port: 6443}}
- {name: plan, target: {type: Namespace}, dryRun: true}
- {name: plain, target: {type: Source}, namespaceSelector: {}}
- {name: seed, target: {type: Source}, namespaceSelector: {}, webhooks: {tokenInvalidator: {enabled: true}}}
`

func TestWebhooksOfATarget(t *testing.T) {
	config, err := configv1alpha1.Load([]byte(configurationOfWebhooks))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	fail, ignore := ptr.To(admissionregistrationv1.Fail), ptr.To(admissionregistrationv1.Ignore)
	on := func(policy *admissionregistrationv1.FailurePolicyType) hubv1alpha1.Webhook {
		return hubv1alpha1.Webhook{Enabled: ptr.To(true), FailurePolicy: policy}
	}
	registered := func(scope hubv1alpha1.WebhookScope) *hubv1alpha1.WebhookRegistration {
		return &hubv1alpha1.WebhookRegistration{
			Scope: &scope, FailurePolicy: fail, TimeoutSeconds: ptr.To[int32](10), CombinePods: ptr.To(false),
		}
	}
	mount := func(seconds int64, policy *admissionregistrationv1.FailurePolicyType) hubv1alpha1.TargetWebhooks {
		return hubv1alpha1.TargetWebhooks{
			Registration: registered(hubv1alpha1.WebhookScopeTarget),
			ProjectedTokenMount: &hubv1alpha1.ProjectedTokenMountWebhook{
				Webhook: on(policy), ExpirationSeconds: &seconds,
			},
		}
	}
	shoot := clustercache.ClusterKey{Namespace: "shoot", Name: "a"}
	with := func(own hubv1alpha1.TargetWebhooks) *hubv1alpha1.TargetClusterSpec {
		return &hubv1alpha1.TargetClusterSpec{Webhooks: &own}
	}
	hosted := func(host string) *hubv1alpha1.KubernetesServiceHostWebhook {
		return &hubv1alpha1.KubernetesServiceHostWebhook{
			WebhookOrPolicy: hubv1alpha1.WebhookOrPolicy{Webhook: hubv1alpha1.Webhook{Enabled: ptr.To(true)}}, Host: &host,
		}
	}
	withHost := mount(7200, fail)
	withHost.KubernetesServiceHost = hosted("a.example")
	withHost.KubernetesServiceHost.Mode = ptr.To(hubv1alpha1.WebhookModeAuto)
	withHost.KubernetesServiceHost.FailurePolicy = ignore
	withHost.KubernetesServiceHost.Port = ptr.To[int32](6443)
	for name, test := range map[string]struct {
		target clustercache.ClusterKey
		class  string
		own    *hubv1alpha1.TargetClusterSpec
		want   hubv1alpha1.TargetWebhooks
		faults string
	}{
		"as its class has it": {shoot, "", nil, mount(7200, fail), ""},
		"a field of its own": {shoot, "", with(hubv1alpha1.TargetWebhooks{
			ProjectedTokenMount: &hubv1alpha1.ProjectedTokenMountWebhook{ExpirationSeconds: ptr.To[int64](600)},
		}), mount(600, fail), ""},
		"a failure policy of its own": {shoot, "", with(hubv1alpha1.TargetWebhooks{
			ProjectedTokenMount: &hubv1alpha1.ProjectedTokenMountWebhook{Webhook: hubv1alpha1.Webhook{FailurePolicy: ignore}},
		}), mount(7200, ignore), ""},
		"on for this one, with a field of the class": {shoot, "",
			with(hubv1alpha1.TargetWebhooks{KubernetesServiceHost: hosted("a.example")}), withHost, ""},
		"off for this one": {shoot, "", with(hubv1alpha1.TargetWebhooks{
			ProjectedTokenMount: &hubv1alpha1.ProjectedTokenMountWebhook{Webhook: hubv1alpha1.Webhook{Enabled: ptr.To(false)}},
		}), hubv1alpha1.TargetWebhooks{}, ""},
		"a fault switches one webhook off": {shoot, "",
			with(hubv1alpha1.TargetWebhooks{KubernetesServiceHost: hosted("-")}), mount(7200, fail),
			`spec.webhooks.kubernetesServiceHost.host: Invalid value: "-"`},
		"a fault about all of them": {shoot, "", with(hubv1alpha1.TargetWebhooks{
			Registration: &hubv1alpha1.WebhookRegistration{Scope: ptr.To(hubv1alpha1.WebhookScope("x"))},
		}), hubv1alpha1.TargetWebhooks{}, `spec.webhooks.registration.scope: Unsupported value: "x"`},
		"paused: what is registered is still called": {shoot, "", &hubv1alpha1.TargetClusterSpec{Paused: true},
			mount(7200, fail), ""},
		"a class that writes nothing": {shoot, "plan", with(hubv1alpha1.TargetWebhooks{
			TokenInvalidator: &hubv1alpha1.Webhook{Enabled: ptr.To(true)},
		}), hubv1alpha1.TargetWebhooks{}, ""},
		"an unknown class": {shoot, "unknown", with(hubv1alpha1.TargetWebhooks{
			TokenInvalidator: &hubv1alpha1.Webhook{Enabled: ptr.To(true)},
		}), hubv1alpha1.TargetWebhooks{}, ""},
		"the source has the class with webhooks": {clustercache.ClusterKey{Name: "source"}, "", nil,
			hubv1alpha1.TargetWebhooks{
				Registration: registered(hubv1alpha1.WebhookScopeRuntime), TokenInvalidator: ptr.To(on(fail)),
			}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m := memory{}
			if test.own != nil {
				meta := metav1.ObjectMeta{Namespace: test.target.Namespace, Name: test.target.Name}
				m.tc = &hubv1alpha1.TargetCluster{ObjectMeta: meta, Spec: *test.own}
			}
			before := m.tc.DeepCopy()
			s := New(m, config, nil)
			status := clustercache.Status{Cluster: test.target, Labels: map[string]string{hubv1alpha1.ClassLabel: test.class}}
			g.Expect(s.Webhooks(status)).To(Equal(test.want))
			if faults := s.WebhookFaults(status).ToAggregate(); test.faults == "" {
				g.Expect(faults).NotTo(HaveOccurred())
			} else {
				g.Expect(faults).To(MatchError(ContainSubstring(test.faults)))
			}
			g.Expect(m.tc).To(Equal(before), "what is shared stays as it is")
		})
	}
	again, err := configv1alpha1.Load([]byte(configurationOfWebhooks))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(config).To(Equal(again))
}
