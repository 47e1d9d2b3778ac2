package v1alpha1_test

import (
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	. "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

func TestCMN19_DefaultsOfWebhooks(t *testing.T) {
	fail, ignore := ptr.To(admissionregistrationv1.Fail), ptr.To(admissionregistrationv1.Ignore)
	registration := &hubv1alpha1.WebhookRegistration{
		Scope: ptr.To(hubv1alpha1.WebhookScopeTarget), FailurePolicy: fail, TimeoutSeconds: ptr.To[int32](10),
		CombinePods: ptr.To(false),
	}
	on := func(policy *admissionregistrationv1.FailurePolicyType) hubv1alpha1.Webhook {
		return hubv1alpha1.Webhook{Enabled: ptr.To(true), FailurePolicy: policy}
	}
	auto := ptr.To(hubv1alpha1.WebhookModeAuto)
	for name, test := range map[string]struct {
		webhooks string
		want     hubv1alpha1.TargetWebhooks
	}{
		"all are off": {"", hubv1alpha1.TargetWebhooks{}},
		"what is off has no defaults": {"projectedTokenMount: {enabled: false}", hubv1alpha1.TargetWebhooks{
			ProjectedTokenMount: &hubv1alpha1.ProjectedTokenMountWebhook{Webhook: hubv1alpha1.Webhook{Enabled: ptr.To(false)}},
		}},
		"projected token mount": {"projectedTokenMount: {enabled: true}", hubv1alpha1.TargetWebhooks{
			Registration: registration,
			ProjectedTokenMount: &hubv1alpha1.ProjectedTokenMountWebhook{
				Webhook: on(fail), ExpirationSeconds: ptr.To[int64](43200),
			},
		}},
		"high availability without tolerations": {"highAvailabilityConfig: {enabled: true}", hubv1alpha1.TargetWebhooks{
			Registration:           registration,
			HighAvailabilityConfig: &hubv1alpha1.HighAvailabilityConfigWebhook{Webhook: on(fail)},
		}},
		"scheduler name": {"podSchedulerName: {enabled: true}", hubv1alpha1.TargetWebhooks{
			Registration: registration,
			PodSchedulerName: &hubv1alpha1.PodSchedulerNameWebhook{
				WebhookOrPolicy: hubv1alpha1.WebhookOrPolicy{Webhook: on(ignore), Mode: auto},
				SchedulerName:   ptr.To("default-scheduler"),
			},
		}},
		"service host": {"kubernetesServiceHost: {enabled: true, host: a.example}", hubv1alpha1.TargetWebhooks{
			Registration: registration,
			KubernetesServiceHost: &hubv1alpha1.KubernetesServiceHostWebhook{
				WebhookOrPolicy: hubv1alpha1.WebhookOrPolicy{Webhook: on(ignore), Mode: auto},
				Host:            ptr.To("a.example"), Port: ptr.To[int32](443),
			},
		}},
		"all that fail are ignored, but for one": {
			"registration: {failurePolicy: Ignore}, tokenInvalidator: {enabled: true}, " +
				"podTopologySpreadConstraints: {enabled: true, failurePolicy: Fail}",
			hubv1alpha1.TargetWebhooks{
				Registration: &hubv1alpha1.WebhookRegistration{
					Scope: ptr.To(hubv1alpha1.WebhookScopeTarget), FailurePolicy: ignore, TimeoutSeconds: ptr.To[int32](10),
					CombinePods: ptr.To(false),
				},
				TokenInvalidator:             ptr.To(on(ignore)),
				PodTopologySpreadConstraints: ptr.To(on(fail)),
			},
		},
		"the other name of the token invalidator": {"tokenValidator: {enabled: true}", hubv1alpha1.TargetWebhooks{
			Registration: registration, TokenInvalidator: ptr.To(on(fail)),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config, err := Load([]byte(withoutClasses +
				"classes: [{name: a, target: {type: Namespace}, webhooks: {" + test.webhooks + "}}]"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(config.Classes[0].Webhooks).To(Equal(test.want))
		})
	}
}

func TestScopeOfWebhooksInTheSource(t *testing.T) {
	g := NewWithT(t)
	config, err := Load([]byte(withoutClasses + "classes: [{name: a, target: {type: Source}, namespaceSelector: {}, " +
		"webhooks: {seccompProfile: {enabled: true}}}]"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Classes[0].Webhooks.Registration.Scope).To(HaveValue(Equal(hubv1alpha1.WebhookScopeRuntime)))
}

func TestClassesWhoseWebhooksAreRejected(t *testing.T) {
	const source = "target: {type: Source}, namespaceSelector: {}"
	of := func(webhooks string) string {
		return "[{name: a, target: {type: Namespace}, webhooks: {" + webhooks + "}}]"
	}
	for name, test := range map[string]struct{ classes, fault string }{
		"an expiry that API servers refuse": {of("projectedTokenMount: {enabled: true, expirationSeconds: 599}"),
			"classes[0].webhooks.projectedTokenMount.expirationSeconds: Invalid value: 599: must be between 600 and 4294967296"},
		"a negative toleration": {of("highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: -1}"),
			"classes[0].webhooks.highAvailabilityConfig.defaultNotReadyTolerationSeconds: Invalid value: -1: must not be " +
				"negative"},
		"another negative toleration": {of("highAvailabilityConfig: {enabled: true, defaultUnreachableTolerationSeconds: " +
			"-1}"),
			"classes[0].webhooks.highAvailabilityConfig.defaultUnreachableTolerationSeconds: Invalid value: -1"},
		"a scheduler that cannot be": {of("podSchedulerName: {enabled: true, schedulerName: A}"),
			`classes[0].webhooks.podSchedulerName.schedulerName: Invalid value: "A"`},
		"no API server": {of("kubernetesServiceHost: {enabled: true}"),
			"classes[0].webhooks.kubernetesServiceHost.host: Required value"},
		"an API server that cannot be": {of(`kubernetesServiceHost: {enabled: true, host: "https://a"}`),
			`classes[0].webhooks.kubernetesServiceHost.host: Invalid value: "https://a"`},
		"a port that cannot be": {of("kubernetesServiceHost: {enabled: true, host: a, port: 65536}"),
			"classes[0].webhooks.kubernetesServiceHost.port: Invalid value: 65536"},
		"a mode that there is not": {of("seccompProfile: {enabled: true, mode: Both}"),
			`classes[0].webhooks.seccompProfile.mode: Unsupported value: "Both"`},
		"a failure policy that there is not": {of("tokenInvalidator: {enabled: true, failurePolicy: Retry}"),
			`classes[0].webhooks.tokenInvalidator.failurePolicy: Unsupported value: "Retry"`},
		"a failure policy of all": {of("registration: {failurePolicy: Retry}"),
			`classes[0].webhooks.registration.failurePolicy: Unsupported value: "Retry"`},
		"a scope that there is not": {of("registration: {scope: Garden}"),
			`classes[0].webhooks.registration.scope: Unsupported value: "Garden"`},
		"a timeout that is too long": {of("registration: {timeoutSeconds: 31}"),
			"classes[0].webhooks.registration.timeoutSeconds: Invalid value: 31: must be between 1 and 30"},
		"labels of nodes that cannot be": {of("systemComponentsConfig: {enabled: true, nodeSelector: {a: -}}"),
			"classes[0].webhooks.systemComponentsConfig.nodeSelector[a]: Invalid value"},
		"a selector of pods that cannot be": {of("systemComponentsConfig: {enabled: true, podNodeSelector: {-: a}}"),
			"classes[0].webhooks.systemComponentsConfig.podNodeSelector[-]: Invalid value"},
		"a toleration that tolerates nothing": {of("systemComponentsConfig: {enabled: true, podTolerations: [{}]}"),
			"classes[0].webhooks.systemComponentsConfig.podTolerations[0].operator: Invalid value"},
		"a toleration of an unknown effect": {
			of("systemComponentsConfig: {enabled: true, podTolerations: [{key: a, effect: Never}]}"),
			`classes[0].webhooks.systemComponentsConfig.podTolerations[0].effect: Unsupported value: "Never"`},
		"a toleration of an unknown operator": {
			of("systemComponentsConfig: {enabled: true, podTolerations: [{key: a, operator: Like}]}"),
			`classes[0].webhooks.systemComponentsConfig.podTolerations[0].operator: Unsupported value: "Like"`},
		"a toleration with a value too many": {
			of("systemComponentsConfig: {enabled: true, podTolerations: [{key: a, operator: Exists, value: b}]}"),
			`classes[0].webhooks.systemComponentsConfig.podTolerations[0].value: Invalid value: "b"`},
		"a toleration for a while of what evicts nothing": {
			of("systemComponentsConfig: {enabled: true, podTolerations: [{key: a, tolerationSeconds: 1}]}"),
			`classes[0].webhooks.systemComponentsConfig.podTolerations[0].effect: Invalid value`},
		"Machines of one namespace for all targets": {of("nodeAgentAuthorizer: {enabled: true, machineNamespace: a}"),
			"classes[0].webhooks.nodeAgentAuthorizer.machineNamespace: Forbidden"},
		"Machines of the source": {"[{name: a, " + source +
			", webhooks: {nodeAgentAuthorizer: {enabled: true}}}]",
			"classes[0].webhooks.nodeAgentAuthorizer.withoutMachines: Required value: the source has no home namespace"},
		"Machines, and none": {of("nodeAgentAuthorizer: {enabled: true, machineNamespace: a, withoutMachines: true}"),
			"classes[0].webhooks.nodeAgentAuthorizer.machineNamespace: Invalid value: \"a\": must be empty with " +
				"withoutMachines"},
		"Machines of another namespace than the registration's": {
			"[{name: a, target: {type: Registration, namespace: garden, name: v}, namespaceSelector: {}, " +
				"webhooks: {nodeAgentAuthorizer: {enabled: true, machineNamespace: a}}}]",
			`classes[0].webhooks.nodeAgentAuthorizer.machineNamespace: Invalid value: "a": must be that of the target's registration (garden)`},
		"a class that writes nothing": {
			"[{name: a, target: {type: Namespace}, dryRun: true, webhooks: {seccompProfile: {enabled: true}}}]",
			"classes[0].webhooks.seccompProfile: Forbidden: with dryRun, nothing is written"},
		"two classes of the source": {"[{name: a, " + source + ", controllers: {garbageCollector: {enabled: true}}}, " +
			"{name: b, " + source + ", webhooks: {seccompProfile: {enabled: true}}}]",
			"classes[1].webhooks.seccompProfile: Forbidden: another class has controllers or webhooks in the same target"},
		"both names of the token invalidator": {of("tokenInvalidator: {enabled: true}, tokenValidator: {}"),
			"classes[0].webhooks.tokenValidator: Duplicate value"},
		"a webhook that is misspelt": {of("seccompprofile: {enabled: true}"), `the nearest known one is "seccompProfile"`},
		"webhooks of all classes":    {"[]\nwebhooks: {seccompProfile: {enabled: true}}", "see classes[].webhooks"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(withoutClasses + "classes: " + test.classes))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.fault)))
		})
	}
}

func TestClassesWhoseWebhooksAreAccepted(t *testing.T) {
	for name, webhooks := range map[string]string{
		"all of them": "registration: {scope: Runtime, failurePolicy: Ignore}, projectedTokenMount: {enabled: true}, " +
			"highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: 0}, podSchedulerName: {enabled: true}, " +
			"seccompProfile: {enabled: true, mode: Policy}, podKubeAPIServerLoadBalancing: {enabled: true, virtualGarden: " +
			"true}, " +
			"kubernetesServiceHost: {enabled: true, host: \"fd00::1\", port: 6443}, podTopologySpreadConstraints: {enabled: " +
			"true}, " +
			"vpaInPlaceUpdates: {enabled: true}, endpointSliceHints: {enabled: true}, tokenInvalidator: {enabled: true}, " +
			"crdDeletionProtection: {enabled: true}, extensionValidation: {enabled: true}, nodeAgentAuthorizer: {enabled: true}",
		"system components": "systemComponentsConfig: {enabled: true, nodeSelector: {a.b/c: d}, podNodeSelector: " +
			"{a: \"\"}, " +
			"podTolerations: [{operator: Exists}, {key: a, value: b, effect: NoExecute, tolerationSeconds: 5}]}",
		"what is faulty and off": "kubernetesServiceHost: {host: \"-\"}",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(withoutClasses + "classes: [{name: a, target: {type: Namespace}, webhooks: " +
				"{" + webhooks + "}}]"))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
		})
	}
}
