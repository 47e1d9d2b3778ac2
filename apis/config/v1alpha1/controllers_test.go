package v1alpha1_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	. "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

const withoutClasses = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection: {leaderElect: false}
sourceIdentity: {serviceAccount: {namespace: trellis, name: trellis-source}}
`

func TestControllersOfClassesAreOffByDefault(t *testing.T) {
	g := NewWithT(t)
	config, err := Load([]byte(withNamespace))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Classes[0].Controllers).To(Equal(hubv1alpha1.TargetControllers{}))
}

func TestDefaultsOfControllersOfClasses(t *testing.T) {
	for name, test := range map[string]struct {
		controllers string
		want        hubv1alpha1.TargetControllers
	}{
		"GC-7 the default period is an hour": {
			"garbageCollector: {enabled: true}",
			hubv1alpha1.TargetControllers{GarbageCollector: &hubv1alpha1.GarbageCollectorController{
				Enabled: ptr.To(true), SyncPeriod: ptr.To(duration(time.Hour)),
			}},
		},
		"GC-7 the least period": {
			"garbageCollector: {enabled: true, syncPeriod: 15s}",
			hubv1alpha1.TargetControllers{GarbageCollector: &hubv1alpha1.GarbageCollectorController{
				Enabled: ptr.To(true), SyncPeriod: ptr.To(duration(15 * time.Second)),
			}},
		},
		"GC-7 the period of one that is off does not matter": {
			"garbageCollector: {syncPeriod: 1s}",
			hubv1alpha1.TargetControllers{GarbageCollector: &hubv1alpha1.GarbageCollectorController{
				SyncPeriod: ptr.To(duration(time.Second)),
			}},
		},
		"one that is off has no defaults": {
			"tokenRequestor: {enabled: false}",
			hubv1alpha1.TargetControllers{TokenRequestor: &hubv1alpha1.TokenRequestorController{Enabled: ptr.To(false)}},
		},
		"the token requestor": {
			"tokenRequestor: {enabled: true}",
			hubv1alpha1.TargetControllers{TokenRequestor: &hubv1alpha1.TokenRequestorController{
				Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](5), Class: ptr.To("shoot"),
			}},
		},
		"the approver": {
			"csrApprover: {enabled: true}",
			hubv1alpha1.TargetControllers{CSRApprover: &hubv1alpha1.CSRApproverController{
				Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](1),
			}},
		},
		"network policies": {
			`networkPolicy: {enabled: true, namespaceSelectors: [{matchLabels: {a: b}}], ` +
				`ingressControllerSelector: {namespace: ingress, podSelector: {matchLabels: {app: nginx}}}}`,
			hubv1alpha1.TargetControllers{NetworkPolicy: &hubv1alpha1.NetworkPolicyController{
				Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](5),
				NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}},
				IngressControllerSelector: &hubv1alpha1.IngressControllerSelector{
					Namespace: "ingress", PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}},
				},
			}},
		},
		"D-1 the token invalidator by the name that Gardener's documentation has": {
			"tokenValidator: {enabled: true}",
			hubv1alpha1.TargetControllers{TokenInvalidator: &hubv1alpha1.TokenInvalidatorController{
				Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](5),
			}},
		},
		"high availability": {
			"nodeHighAvailability: {enabled: true}",
			hubv1alpha1.TargetControllers{NodeHighAvailability: &hubv1alpha1.NodeHighAvailabilityController{
				Enabled: ptr.To(true),
			}},
		},
		"Istio": {
			"istioClusterConfiguration: {enabled: true}",
			hubv1alpha1.TargetControllers{IstioClusterConfiguration: &hubv1alpha1.IstioClusterConfigurationController{
				Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](5),
			}},
		},
		"stale pods and care": {
			"stalePods: {enabled: true}, care: {enabled: true}",
			hubv1alpha1.TargetControllers{
				StalePods: &hubv1alpha1.StalePodsController{
					Enabled: ptr.To(true), SyncPeriod: ptr.To(duration(time.Minute)), Namespaces: []string{"kube-system"},
				},
				Care: &hubv1alpha1.CareController{Enabled: ptr.To(true), SyncPeriod: ptr.To(duration(time.Minute))},
			},
		},
		"an empty namespace is the default one": {
			`csrApprover: {enabled: true, concurrentSyncs: 3, machineNamespace: ""}`,
			hubv1alpha1.TargetControllers{CSRApprover: &hubv1alpha1.CSRApproverController{
				Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](3), MachineNamespace: ptr.To(""),
			}},
		},
		"NODE-14 a node is looked at again after ten seconds": {
			"nodeCriticalComponents: {enabled: true}",
			hubv1alpha1.TargetControllers{NodeCriticalComponents: &hubv1alpha1.NodeCriticalComponentsController{
				Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](5), Backoff: ptr.To(duration(10 * time.Second)),
			}},
		},
		"NODE-24 the delays": {
			"nodeAgentReconciliationDelay: {enabled: true}",
			hubv1alpha1.TargetControllers{NodeAgentReconciliationDelay: &hubv1alpha1.NodeAgentReconciliationDelayController{
				Enabled: ptr.To(true), MinDelay: ptr.To(duration(0)), MaxDelay: ptr.To(duration(5 * time.Minute)),
			}},
		},
		"NODE-24 the least and the greatest delay": {
			"nodeAgentReconciliationDelay: {enabled: true, minDelay: 30m, maxDelay: 1800s}",
			hubv1alpha1.TargetControllers{NodeAgentReconciliationDelay: &hubv1alpha1.NodeAgentReconciliationDelayController{
				Enabled: ptr.To(true), MinDelay: ptr.To(duration(30 * time.Minute)), MaxDelay: ptr.To(duration(30 * time.Minute)),
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config, err := Load([]byte(withoutClasses +
				"classes: [{name: a, target: {type: Namespace}, controllers: {" + test.controllers + "}}]"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(config.Classes[0].Controllers).To(Equal(test.want))
		})
	}
}

func TestClassesWhoseControllersAreRejected(t *testing.T) {
	const (
		registration = "target: {type: Registration, namespace: garden, name: v}, namespaceSelector: {}"
		source       = "target: {type: Source}, namespaceSelector: {}"
	)
	for name, test := range map[string]struct{ classes, fault string }{
		"GC-7 a period that is too short": {
			"[{name: a, target: {type: Namespace}, controllers: {garbageCollector: {enabled: true, syncPeriod: 14s}}}]",
			`classes[0].controllers.garbageCollector.syncPeriod: Invalid value: "14s": must be at least 15s`,
		},
		"no workers": {
			"[{name: a, target: {type: Namespace}, controllers: {tokenRequestor: {enabled: true, concurrentSyncs: 0}}}]",
			`classes[0].controllers.tokenRequestor.concurrentSyncs: Invalid value: 0: must be between 1 and 100`,
		},
		"too many workers": {
			"[{name: a, target: {type: Namespace}, controllers: {csrApprover: {enabled: true, concurrentSyncs: 101}}}]",
			`classes[0].controllers.csrApprover.concurrentSyncs: Invalid value: 101: must be between 1 and 100`,
		},
		"Machines of one namespace for all targets": {
			"[{name: a, target: {type: Namespace}, controllers: {csrApprover: {enabled: true, machineNamespace: garden}}}]",
			`classes[0].controllers.csrApprover.machineNamespace: Forbidden`,
		},
		"Machines of another namespace than the registration's": {
			"[{name: a, " + registration + ", controllers: {csrApprover: {enabled: true, machineNamespace: shoot}}}]",
			`classes[0].controllers.csrApprover.machineNamespace: Invalid value: "shoot": must be that of the target's registration (garden)`,
		},
		"a class that writes nothing": {
			"[{name: a, target: {type: Namespace}, dryRun: true, controllers: {garbageCollector: {enabled: true}}}]",
			`classes[0].controllers.garbageCollector: Forbidden: with dryRun, nothing is written`,
		},
		"two classes of the source": {
			"[{name: a, " + source + ", controllers: {garbageCollector: {enabled: true}}}, " +
				"{name: b, " + source + ", controllers: {csrApprover: {enabled: true, withoutMachines: true}}}]",
			`classes[1].controllers.csrApprover: Forbidden: another class has controllers or webhooks in the same target`,
		},
		"tokens of the source": {
			"[{name: a, " + source + ", controllers: {tokenRequestor: {enabled: true}}}]",
			`classes[0].controllers.tokenRequestor: Forbidden: tokens are requested of targets with a registration`,
		},
		"Machines of the source": {
			"[{name: a, " + source + ", controllers: {csrApprover: {enabled: true}}}]",
			`classes[0].controllers.csrApprover.withoutMachines: Required value: the source has no home namespace`,
		},
		"an audience without a name": {
			`[{name: a, target: {type: Namespace}, controllers: {tokenRequestor: {enabled: true, audiences: [""]}}}]`,
			`classes[0].controllers.tokenRequestor.audiences[0]: Invalid value: "": must not be empty`,
		},
		"a selector of namespaces that cannot be": {
			"[{name: a, target: {type: Namespace}, controllers: {networkPolicy: {enabled: true, " +
				"namespaceSelectors: [{}, {matchExpressions: [{key: a, operator: Like}]}]}}}]",
			`classes[0].controllers.networkPolicy.namespaceSelectors[1]: Invalid value`,
		},
		"an ingress controller nowhere": {
			"[{name: a, target: {type: Namespace}, controllers: {networkPolicy: {enabled: true, " +
				`ingressControllerSelector: {namespace: "", podSelector: {}}}}}]`,
			`classes[0].controllers.networkPolicy.ingressControllerSelector.namespace: Invalid value: ""`,
		},
		"an ingress controller whose pods cannot be selected": {
			"[{name: a, target: {type: Namespace}, controllers: {networkPolicy: {enabled: true, " +
				`ingressControllerSelector: {namespace: a, podSelector: {matchLabels: {"": b}}}}}}]`,
			`classes[0].controllers.networkPolicy.ingressControllerSelector.podSelector: Invalid value`,
		},
		"ServiceAccounts that cannot be": {
			`[{name: a, target: {type: Namespace}, controllers: {tokenRequestor: {enabled: true, allowedServiceAccounts: [a/b/c]}}}]`,
			`classes[0].controllers.tokenRequestor.allowedServiceAccounts[0]: Invalid value: "a/b/c"`,
		},
		"NODE-14 a pause that is too short": {
			"[{name: a, target: {type: Namespace}, controllers: {nodeCriticalComponents: {enabled: true, backoff: 1ms}}}]",
			`classes[0].controllers.nodeCriticalComponents.backoff: Invalid value: "1ms": must be between 1s and 1h0m0s`,
		},
		"no workers for nodes": {
			"[{name: a, target: {type: Namespace}, controllers: {nodeCriticalComponents: {enabled: true, concurrentSyncs: 0}}}]",
			`classes[0].controllers.nodeCriticalComponents.concurrentSyncs: Invalid value: 0: must be between 1 and 100`,
		},
		"NODE-24 a negative least delay": {
			"[{name: a, target: {type: Namespace}, controllers: {nodeAgentReconciliationDelay: {enabled: true, minDelay: -1s}}}]",
			`classes[0].controllers.nodeAgentReconciliationDelay.minDelay: Invalid value: "-1s": must not be negative`,
		},
		"NODE-24 a negative greatest delay": {
			"[{name: a, target: {type: Namespace}, controllers: {nodeAgentReconciliationDelay: {enabled: true, maxDelay: -1s}}}]",
			`classes[0].controllers.nodeAgentReconciliationDelay.maxDelay: Invalid value: "-1s": must not be negative`,
		},
		"NODE-24 a greatest delay that is less than the least one": {
			"[{name: a, target: {type: Namespace}, controllers: {nodeAgentReconciliationDelay: {enabled: true, minDelay: 6m}}}]",
			`classes[0].controllers.nodeAgentReconciliationDelay.maxDelay: Invalid value: "5m0s": must not be less than minDelay (6m0s)`,
		},
		"NODE-24 a delay that is too long": {
			"[{name: a, target: {type: Namespace}, controllers: {nodeAgentReconciliationDelay: {enabled: true, maxDelay: 31m}}}]",
			`classes[0].controllers.nodeAgentReconciliationDelay.maxDelay: Invalid value: "31m0s": must be at most 30m0s`,
		},
		"D-1 both names of the token invalidator": {
			"[{name: a, target: {type: Namespace}, controllers: {tokenInvalidator: {enabled: true}, tokenValidator: {}}}]",
			`classes[0].controllers.tokenValidator: Duplicate value`,
		},
		"a namespace of stale pods that cannot be": {
			"[{name: a, target: {type: Namespace}, controllers: {stalePods: {enabled: true, namespaces: [a, B]}}}]",
			`classes[0].controllers.stalePods.namespaces[1]: Invalid value: "B": must be the name of a namespace`,
		},
		"passes for stale pods that are too frequent": {
			"[{name: a, target: {type: Namespace}, controllers: {stalePods: {enabled: true, syncPeriod: 1s}}}]",
			`classes[0].controllers.stalePods.syncPeriod: Invalid value: "1s": must be at least 15s`,
		},
		"care that is too frequent": {
			"[{name: a, target: {type: Namespace}, controllers: {care: {enabled: true, syncPeriod: 1s}}}]",
			`classes[0].controllers.care.syncPeriod: Invalid value: "1s": must be at least 15s`,
		},
		"a controller that is misspelt": {
			"[{name: a, target: {type: Namespace}, controllers: {garbagecollector: {enabled: true}}}]",
			`the nearest known one is "garbageCollector"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(withoutClasses + "classes: " + test.classes))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.fault)))
		})
	}
}

func TestClassesWhoseControllersAreAccepted(t *testing.T) {
	for name, classes := range map[string]string{
		"the namespace of the registration": "[{name: a, target: {type: Registration, namespace: garden, name: v}, " +
			"namespaceSelector: {}, controllers: {csrApprover: {enabled: true, machineNamespace: garden}}}]",
		"the source without Machines": "[{name: a, target: {type: Source}, namespaceSelector: {}, " +
			"controllers: {csrApprover: {enabled: true, withoutMachines: true}}}]",
		"one of two classes of the source": "[{name: a, target: {type: Source}, namespaceSelector: {}}, " +
			"{name: b, target: {type: Source}, namespaceSelector: {}, controllers: {garbageCollector: {enabled: true}}}]",
		"each class of registrations": "[{name: a, target: {type: Namespace}, controllers: {garbageCollector: {enabled: true}}}, " +
			"{name: b, target: {type: Namespace}, controllers: {garbageCollector: {enabled: true}}}]",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(withoutClasses + "classes: " + classes))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
		})
	}
}
