package convert

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// allWebhooksOff is the setting of a TargetCluster for webhooks that a resource manager does not have.
const allWebhooksOff = `
projectedTokenMount: {enabled: false}
highAvailabilityConfig: {enabled: false}
podSchedulerName: {enabled: false}
seccompProfile: {enabled: false}
kubernetesServiceHost: {enabled: false}
podKubeAPIServerLoadBalancing: {enabled: false}
systemComponentsConfig: {enabled: false}
podTopologySpreadConstraints: {enabled: false}
vpaInPlaceUpdates: {enabled: false}
endpointSliceHints: {enabled: false}
tokenInvalidator: {enabled: false}
crdDeletionProtection: {enabled: false}
extensionValidation: {enabled: false}
nodeAgentAuthorizer: {enabled: false}
`

func TestWebhooks(t *testing.T) {
	const registered = "registration: {scope: Target, failurePolicy: Fail}, "
	const sevenOn = "seccompProfile: {enabled: true}, podKubeAPIServerLoadBalancing: {enabled: true}, " +
		"vpaInPlaceUpdates: {enabled: true}, podTopologySpreadConstraints: {enabled: true}, " +
		"endpointSliceHints: {enabled: true}, extensionValidation: {enabled: true}, crdDeletionProtection: {enabled: true}"
	for name, test := range map[string]struct{ webhooks, class, target, note string }{
		"none":            {"", "", "", ""},
		"one that is off": {"seccompProfile: {enabled: false}", "", "", "off there, and"},
		"projected token mount": {"projectedTokenMount: {enabled: true}", "projectedTokenMount: {enabled: true}",
			registered + "projectedTokenMount: {enabled: true, expirationSeconds: 43200}", "have to reach the hub"},
		"the time of tokens": {"projectedTokenMount: {enabled: true, expirationSeconds: 7200}",
			"projectedTokenMount: {enabled: true, expirationSeconds: 7200}",
			registered + "projectedTokenMount: {enabled: true, expirationSeconds: 7200}", ""},
		"high availability": {"highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: 60}",
			"highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: 60}",
			registered + "highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: 60, legacyMaxSkew: false, " +
				"templateLabelSelectorForStatefulSets: false}", ""},
		"scheduler name": {"podSchedulerName: {enabled: true}", "podSchedulerName: {enabled: true}",
			registered + "podSchedulerName: {enabled: true, schedulerName: default-scheduler}", ""},
		"service host": {"kubernetesServiceHost: {enabled: true, host: a.example}",
			"kubernetesServiceHost: {enabled: false}",
			registered + "kubernetesServiceHost: {enabled: true, host: a.example, port: 443}",
			"Each TargetCluster has to switch it on"},
		"system components": {
			"systemComponentsConfig: {enabled: true, nodeSelector: {a: b}, podTolerations: [{key: c, operator: Exists}]}",
			"systemComponentsConfig: {enabled: true, nodeSelector: {a: b}, podTolerations: [{key: c, operator: Exists}]}",
			registered + "systemComponentsConfig: {enabled: true, nodeSelector: {a: b}, podNodeSelector: {}, " +
				"podTolerations: [{key: c, operator: Exists}]}", ""},
		"those that are on or off": {
			sevenOn, sevenOn, registered + sevenOn, ""},
		"the token invalidator": {"tokenInvalidator: {enabled: true}", "tokenInvalidator: {enabled: true}",
			registered + "tokenInvalidator: {enabled: true}", ""},
		"the token invalidator by its other name": {"tokenValidator: {enabled: true}",
			"tokenInvalidator: {enabled: true}",
			registered + "tokenInvalidator: {enabled: true}", "another name of tokenInvalidator"},
		"node agents with Machines": {"nodeAgentAuthorizer: {enabled: true, machineNamespace: shoot--foo--a}",
			"nodeAgentAuthorizer: {enabled: true}", registered + "nodeAgentAuthorizer: {enabled: true, " +
				"machineNamespace: shoot--foo--a, withoutMachines: false, authorizeWithSelectors: false}",
			"Machines are those of the namespace of the registration"},
		"node agents without": {"nodeAgentAuthorizer: {enabled: true, authorizeWithSelectors: true}",
			"nodeAgentAuthorizer: {enabled: true, withoutMachines: true, authorizeWithSelectors: true}",
			registered + "nodeAgentAuthorizer: {enabled: true, withoutMachines: true, authorizeWithSelectors: true}",
			"agents are named after nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			input := []byte(ofShoot + "webhooks: {" + test.webhooks + "}\n")
			made, err := convert(input, options{HubNamespace: "trellis"})
			g.Expect(err).NotTo(HaveOccurred())
			config := &configv1alpha1.HubConfiguration{}
			g.Expect(yaml.UnmarshalStrict([]byte(text(g, made)), config)).To(Succeed())
			g.Expect(json.Marshal(config.Classes[0].Webhooks)).To(MatchYAML("{" + test.class + "}"))
			if test.note != "" {
				g.Expect(made.notes).To(ContainElement(HaveField("String()", ContainSubstring(test.note))))
			}

			made, err = convert(input, options{Namespace: "shoot--foo--a", TargetCluster: "a"})
			g.Expect(err).NotTo(HaveOccurred())
			tc := &hubv1alpha1.TargetCluster{}
			g.Expect(yaml.UnmarshalStrict([]byte(text(g, made)), tc)).To(Succeed())
			var off, want hubv1alpha1.TargetWebhooks
			g.Expect(yaml.UnmarshalStrict([]byte(allWebhooksOff), &off)).To(Succeed())
			g.Expect(yaml.UnmarshalStrict([]byte("{"+test.target+"}"), &want)).To(Succeed())
			g.Expect(*tc.Spec.Webhooks).To(Equal(off.Merge(&want)))
		})
	}
}

func TestWebhooksThatAHubWouldRefuse(t *testing.T) {
	for name, test := range map[string]struct{ webhooks, fault string }{
		"tokens that are valid for too short": {"projectedTokenMount: {enabled: true, expirationSeconds: 5}",
			"webhooks.projectedTokenMount.expirationSeconds"},
		"both names, which differ": {"tokenInvalidator: {enabled: true}, tokenValidator: {enabled: false}",
			"webhooks.tokenValidator"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range []options{
				{HubNamespace: "trellis"}, {HubNamespace: "trellis", Standby: true},
				{Namespace: "shoot", TargetCluster: "a"},
			} {
				_, err := convert([]byte(ofShoot+"webhooks: {"+test.webhooks+"}\n"), o)
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.fault)))
			}
		})
	}
}

func TestServiceHostOfNoHost(t *testing.T) {
	_, err := convert([]byte(ofShoot+"webhooks: {kubernetesServiceHost: {enabled: true}}\n"),
		options{Namespace: "shoot", TargetCluster: "a"})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("webhooks.kubernetesServiceHost: Required value")))
}

func TestOnStandbyNoWebhookIsServed(t *testing.T) {
	g := NewWithT(t)
	made, err := convert([]byte(ofShoot+"webhooks: {seccompProfile: {enabled: true}}\n"),
		options{HubNamespace: "trellis", Standby: true})
	g.Expect(err).NotTo(HaveOccurred())
	config := &configv1alpha1.HubConfiguration{}
	g.Expect(yaml.UnmarshalStrict([]byte(text(g, made)), config)).To(Succeed())
	g.Expect(config.Classes[0].Webhooks.Enabled()).To(BeEmpty())
	g.Expect(config.Classes[0].Webhooks.SeccompProfile).NotTo(BeNil(), "a TargetCluster can switch it on")
}
