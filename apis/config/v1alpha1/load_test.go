package v1alpha1_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"

	. "github.com/trellis-hub/trellis/apis/config/v1alpha1"
)

const exampleFile = "../../../docs/reference/config/example.yaml"

// minimal is the shortest valid configuration. Tests add to it.
const minimal = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
classes:
- name: ""
  target: {type: Namespace}
`

const withNamespace = minimal + `
leaderElection: {resourceNamespace: trellis}
`

func TestLoadSetsDefaults(t *testing.T) {
	g := NewWithT(t)

	config, err := Load([]byte(withNamespace))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config).To(Equal(&HubConfiguration{
		TypeMeta:               metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		SourceClientConnection: SourceClientConnection{QPS: -1},
		TargetClientConnection: TargetClientConnection{QPS: 500, Burst: 1000, MaxInFlight: 40, Timeout: duration(10 * time.Second)},
		LeaderElection: LeaderElection{
			LeaderElect:       ptr.To(true),
			LeaseDuration:     duration(15 * time.Second),
			RenewDeadline:     duration(10 * time.Second),
			RetryPeriod:       duration(2 * time.Second),
			ResourceLock:      "leases",
			ResourceName:      "trellis",
			ResourceNamespace: "trellis",
		},
		Server:    Server{HealthProbes: Endpoint{Port: 8081}, Metrics: Endpoint{Port: 8080}},
		LogLevel:  "info",
		LogFormat: "json",
		Classes:   []Class{{Target: ClassTarget{Type: TargetNamespace}, ConcurrentSyncs: 20, ClusterID: ptr.To("")}},
		Controllers: Controllers{
			ClusterID:       ptr.To(""),
			ManagedResource: ManagedResourceController{SyncPeriod: duration(10 * time.Minute), ManagedByLabelValue: "gardener", MaxConcurrentObjects: 16},
			TargetCluster:   TargetClusterController{ConcurrentSyncs: 20, SyncPeriod: duration(30 * time.Second)},
			Care: Care{ConditionThresholds: []ConditionThreshold{
				{Type: "APIServerAvailable", Duration: duration(time.Minute)},
				{Type: "ControlPlaneHealthy", Duration: duration(time.Minute)},
				{Type: "EveryNodeReady", Duration: duration(5 * time.Minute)},
				{Type: "ObservabilityComponentsHealthy", Duration: duration(time.Minute)},
				{Type: "SystemComponentsHealthy", Duration: duration(time.Minute)},
			}},
			Heartbeat: Heartbeat{
				RenewInterval: duration(10 * time.Second), MonitorPeriod: duration(40 * time.Second),
				TargetMonitorPeriod: duration(200 * time.Second), LivenessStuckAfter: duration(2 * time.Minute),
			},
		},
		ClusterCache: ClusterCache{
			ProbeInterval:         duration(5 * time.Second),
			ProbeTimeout:          duration(4 * time.Second),
			FailureThreshold:      2,
			ConnectConcurrency:    64,
			DisconnectGrace:       duration(10 * time.Second),
			MassDisconnectPercent: 20,
			MassDisconnectLimit:   duration(5 * time.Minute),
			MaxObjectsPerTarget:   50_000,

			MaxRegistrationsPerNamespace: 1000,
			DrainTimeout:                 duration(5 * time.Minute),
		},
	}))
}

func TestLoadReadsTheDocumentedExample(t *testing.T) {
	g := NewWithT(t)

	data, err := os.ReadFile(exampleFile)
	g.Expect(err).NotTo(HaveOccurred())
	config, err := Load(data)
	g.Expect(err).NotTo(HaveOccurred())

	byDefault, err := Load([]byte(withNamespace))
	g.Expect(err).NotTo(HaveOccurred())
	byDefault.Classes = config.Classes
	byDefault.SourceIdentity = config.SourceIdentity
	byDefault.ClusterCache.AllowedProxyURLs = []string{}
	byDefault.ClusterCache.AllowedNetworks = []string{}
	byDefault.ClusterCache.RegistrationSelector = &metav1.LabelSelector{}
	g.Expect(config).To(Equal(byDefault), "the example claims to show the defaults")

	g.Expect(config.Classes[1].NamespaceSelector.MatchLabels).To(Equal(map[string]string{"gardener.cloud/role": "shoot"}))
	g.Expect(config.Classes[1].ClusterID).To(HaveValue(Equal("seed-a")))
	g.Expect(config.Classes[2].ConcurrentSyncs).To(Equal(5))
}

func TestBUG10_BothSpellingsOfManagedResourceAreAccepted(t *testing.T) {
	for _, key := range []string{"managedResource", "managedResources"} {
		t.Run(key, func(t *testing.T) {
			g := NewWithT(t)
			config, err := Load([]byte(withNamespace + "controllers: {" + key + ": {syncPeriod: 42m}}"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(config.Controllers.ManagedResource.SyncPeriod.Duration).To(Equal(42 * time.Minute))
		})
	}
}

func TestThresholdsThatAreNotListedHaveTheirDefaults(t *testing.T) {
	g := NewWithT(t)
	config, err := Load([]byte(withNamespace + "controllers: {care: {conditionThresholds: [{type: EveryNodeReady, duration: 0s}, {type: Backup, duration: 10m}]}}"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Controllers.Care.ConditionThresholds).To(ConsistOf(
		ConditionThreshold{Type: "EveryNodeReady"},
		ConditionThreshold{Type: "Backup", Duration: duration(10 * time.Minute)},
		ConditionThreshold{Type: "APIServerAvailable", Duration: duration(time.Minute)},
		ConditionThreshold{Type: "ControlPlaneHealthy", Duration: duration(time.Minute)},
		ConditionThreshold{Type: "ObservabilityComponentsHealthy", Duration: duration(time.Minute)},
		ConditionThreshold{Type: "SystemComponentsHealthy", Duration: duration(time.Minute)},
	))
}

func TestClassesInheritTheClusterID(t *testing.T) {
	g := NewWithT(t)
	config, err := Load([]byte(withNamespace + `controllers: {clusterID: <default>}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Classes[0].ClusterID).To(HaveValue(Equal(ClusterIDDefault)))
}

func TestLoadRejects(t *testing.T) {
	tests := map[string]struct {
		config string
		faults []string // each a part of one fault; there are no others
	}{
		"an empty file":          {"", []string{"it is empty"}},
		"only comments":          {"# nothing\n", []string{"it is empty"}},
		"a list":                 {"- a", []string{"but is a list"}},
		"two documents":          {withNamespace + "---\na: b", []string{"more than one document"}},
		"something else as YAML": {"a: [", []string{"cannot be read"}},

		"a misspelt key": {
			withNamespace + "sourceClientConection: {}",
			[]string{`sourceClientConection: Forbidden: unknown key (line 9); the nearest known one is "sourceClientConnection"`},
		},
		"a misspelt key far down": {
			strings.Replace(withNamespace, "target:", "dryrun: true\n  target:", 1),
			[]string{`classes[0].dryrun: Forbidden: unknown key (line 6); the nearest known one is "dryRun"`},
		},
		"a misspelt key in a type of Kubernetes": {
			strings.Replace(withNamespace, "target:", "namespaceSelector: {matchLabel: {}}\n  target:", 1),
			[]string{`classes[0].namespaceSelector.matchLabel: Forbidden: unknown key (line 6); the nearest known one is "matchLabels"`},
		},
		"a key that is there twice": {
			withNamespace + "logLevel: debug\nlogLevel: info",
			[]string{`logLevel: Duplicate value: "logLevel": the key is there more than once (line 10)`},
		},
		"a selector of registrations that is none": {
			withNamespace + "clusterCache: {registrationSelector: {matchLabels: {\"not a label\": a}}}",
			[]string{`clusterCache.registrationSelector.matchLabels: Invalid value: "not a label"`},
		},
		"a certificate for metrics without authentication": {
			withNamespace + "server: {metricsAuthentication: {certificateDirectory: /certificates}}",
			[]string{`server.metricsAuthentication.certificateDirectory: Invalid value: "/certificates": it is only used ` +
				`with enabled: true`},
		},
		"both spellings of one key": {
			withNamespace + "controllers: {managedResource: {}, managedResources: {}}",
			[]string{`controllers.managedResources: Duplicate value`},
		},
		"values of the wrong type": {
			withNamespace + "logLevel: 5\nserver: []\ndebugging: {enableProfiling: yes please}\nclusterCache: {probeInterval: 5, drainTimeout: soon, failureThreshold: 1.5}\ntargetClientConnection: {qps: {}}",
			[]string{
				"logLevel: Invalid value: \"5\": must be a string",
				"server: Invalid value: \"a list\": must be keys and values",
				"debugging.enableProfiling: Invalid value: \"yes please\": must be true or false",
				"clusterCache.probeInterval: Invalid value: \"5\": must be a duration",
				"clusterCache.drainTimeout: Invalid value: \"soon\": must be a duration",
				"clusterCache.failureThreshold: Invalid value: \"1.5\": must be a whole number",
				"targetClientConnection.qps: Invalid value: \"a mapping\": must be a single value",
			},
		},
		"an anchor": {
			withNamespace + "server: &a {}",
			[]string{"server: Forbidden: anchors and aliases are not supported (line 9)"},
		},
		"a merge key": {
			withNamespace + "server: {<<: {metrics: {}}}",
			[]string{"server: Forbidden: keys have to be plain words"},
		},

		"a configuration of gardener-resource-manager": {
			"apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: ResourceManagerConfiguration\ncontrollers: {resourceClass: seed}",
			[]string{
				"apiVersion: Invalid value: \"resourcemanager.config.gardener.cloud/v1alpha1\": this is a configuration of gardener-resource-manager",
				`kind: Unsupported value: "ResourceManagerConfiguration"`,
				"controllers.resourceClass: Forbidden: this key of gardener-resource-manager is not supported (line 3): a hub can have several classes",
				"classes: Required value",
				"leaderElection.resourceNamespace: Required value",
			},
		},
		"the old name of a key of gardener-resource-manager": {
			withNamespace + "controllers: {node: {backoff: 10s}, nodeAgentReconciliationDelay: {enabled: true}}",
			[]string{
				"controllers.node: Forbidden: this key of gardener-resource-manager is not supported (line 9): the key is called nodeCriticalComponents now",
				"controllers.nodeAgentReconciliationDelay: Forbidden: this key of gardener-resource-manager is not supported (line 9): each class says",
			},
		},
		"keys of gardener-resource-manager that the hub does not have": {
			withNamespace + "controllers: {garbageCollector: {enabled: true}, managedResources: {concurrentSyncs: 5}}\n" +
				"targetClientConnection: {kubeconfig: x, namespaces: [a]}\nwebhooks: {}",
			[]string{
				"controllers.garbageCollector: Forbidden: this key of gardener-resource-manager is not supported (line 9): each class says what works in its targets, see classes[].controllers",
				"controllers.managedResources.concurrentSyncs: Forbidden: this key of gardener-resource-manager is not supported (line 9): each class has its own workers",
				"targetClientConnection.kubeconfig: Forbidden: this key of gardener-resource-manager is not supported (line 10): a target is registered by",
				"targetClientConnection.namespaces: Forbidden",
				"webhooks: Forbidden",
			},
		},

		"no version and no kind": {
			"classes: [{name: a, target: {type: Namespace}}]\nleaderElection: {leaderElect: false}",
			[]string{"apiVersion: Required value", "kind: Required value"},
		},
		"no class": {
			"apiVersion: config.hub.gardener.cloud/v1alpha1\nkind: HubConfiguration\nleaderElection: {leaderElect: false}",
			[]string{"classes: Required value"},
		},
		"leader election without a namespace": {minimal, []string{"leaderElection.resourceNamespace: Required value"}},
		"leases in the wrong order": {
			minimal + "leaderElection: {resourceNamespace: a, leaseDuration: 5s, renewDeadline: 6s, retryPeriod: 5s, resourceLock: configmaps}",
			[]string{
				`leaderElection.leaseDuration: Invalid value: "5s": must be more than renewDeadline (6s)`,
				`leaderElection.renewDeadline: Invalid value: "6s": must be more than 1.2 times retryPeriod (5s)`,
				`leaderElection.resourceLock: Unsupported value`,
			},
		},
		"a Lease of a part of a second": {
			minimal + "leaderElection: {resourceNamespace: a, leaseDuration: 1900ms, renewDeadline: 1500ms, retryPeriod: 500ms}",
			[]string{`leaderElection.leaseDuration: Invalid value: "1.9s": must be whole seconds`},
		},
		"classes that break every rule": {
			`
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection: {leaderElect: false}
sourceIdentity: {serviceAccount: {name: "Not A Name"}}
classes:
- {name: a, target: {type: Source}}
- {name: a, target: {type: Registration, name: garden}, namespaceSelector: {matchLabels: {"not valid": a}}}
- {name: resources, target: {type: Namespace, namespace: a, name: b}}
- {name: "*", target: {}, concurrentSyncs: -1, clusterID: "a:b"}
- {name: "-", target: {type: Nowhere}}
- {name: a-class-whose-name-is-a-label-but-too-long-for-a-finalizer, target: {type: Namespace}}
`,
			[]string{
				`sourceIdentity.serviceAccount.namespace: Required value`,
				`sourceIdentity.serviceAccount.name: Invalid value`,
				`classes[0].namespaceSelector: Required value`,
				`classes[1].name: Duplicate value: "a"`,
				`classes[1].target.namespace: Required value`,
				`classes[1].namespaceSelector.matchLabels: Invalid value: "not valid"`,
				`classes[2].name: Invalid value: "resources"`,
				`classes[2].target.namespace: Forbidden`,
				`classes[2].target.name: Forbidden`,
				`classes[3].name: Invalid value: "*"`,
				`classes[3].target.type: Required value`,
				`classes[3].concurrentSyncs: Invalid value: -1`,
				`classes[3].clusterID: Invalid value: "a:b"`,
				`classes[4].name: Invalid value: "-"`,
				`classes[4].target.type: Unsupported value: "Nowhere"`,
				`classes[5].name: Invalid value`,
			},
		},
		"a source class without an identity": {
			strings.Replace(withNamespace, "{type: Namespace}", "{type: Source}\n  namespaceSelector: {}", 1),
			[]string{"sourceIdentity: Required value: a class has the target type Source, which is never served with the hub's own rights"},
		},
		"thresholds and a heartbeat that cannot work": {
			withNamespace + `
controllers:
  care:
    conditionThresholds: [{duration: 1m}, {type: Connected}, {type: A, duration: -1s}, {type: A}, {type: a b}]
    managedResourceProgressingThreshold: -1s
  heartbeat: {renewInterval: 10ms, monitorPeriod: 15ms, targetMonitorPeriod: -1s, livenessStuckAfter: 1s}
`,
			[]string{
				"controllers.care.conditionThresholds[0].type: Required value",
				`controllers.care.conditionThresholds[1].type: Invalid value: "Connected": this condition has no threshold`,
				"controllers.care.conditionThresholds[2].duration: Invalid value",
				`controllers.care.conditionThresholds[3].type: Duplicate value: "A"`,
				`controllers.care.conditionThresholds[4].type: Invalid value: "a b"`,
				"controllers.care.managedResourceProgressingThreshold: Invalid value",
				"controllers.heartbeat.renewInterval: Invalid value",
				`controllers.heartbeat.monitorPeriod: Invalid value: "15ms": must be at least twice renewInterval (10ms)`,
				"controllers.heartbeat.targetMonitorPeriod: Invalid value",
				"controllers.heartbeat.livenessStuckAfter: Invalid value",
				`controllers.heartbeat.monitorPeriod: Invalid value: "15ms": must be at least twice clusterCache.probeInterval`,
			},
		},
		"probes that are too rare for the monitor period": {
			withNamespace + "clusterCache: {probeInterval: 18001ms}\n",
			[]string{
				`controllers.heartbeat.monitorPeriod: Invalid value: "40s": must be at least twice clusterCache.probeInterval and clusterCache.probeTimeout together (40.002s)`,
			},
		},
		"numbers out of range": {
			withNamespace + `
logLevel: trace
logFormat: xml
sourceClientConnection: {qps: .inf, burst: -1}
targetClientConnection: {qps: -1, burst: -1, maxInFlight: -1, timeout: -1s}
server: {healthProbes: {port: 70000, bindAddress: localhost}, metrics: {port: 70000}}
controllers:
  clusterID: <custer>
  managedResource: {syncPeriod: 1s, managedByLabelValue: "a b", maxConcurrentObjects: -1}
  targetCluster: {syncPeriod: 1s, concurrentSyncs: -1}
clusterCache:
  probeInterval: 1s
  failureThreshold: -1
  connectConcurrency: -1
  maxObjectsPerTarget: -1
  maxRegistrationsPerNamespace: -1
  disconnectGrace: -1s
  massDisconnectPercent: 101
  massDisconnectLimit: -1s
  drainTimeout: -1s
  allowedProxyURLs: ["not a url", "ftp://user:secret@proxy"]
  allowedNetworks: [127.0.0.0/8, 127.0.0.1, 127.0.0.1/8, 10.0.0.0/8, "::1/128"]
`,
			[]string{
				"logLevel: Unsupported value",
				"logFormat: Unsupported value",
				"sourceClientConnection.qps: Invalid value",
				"sourceClientConnection.burst: Invalid value",
				"targetClientConnection.qps: Invalid value",
				"targetClientConnection.burst: Invalid value",
				"targetClientConnection.maxInFlight: Invalid value",
				"targetClientConnection.timeout: Invalid value",
				"server.healthProbes.port: Invalid value",
				"server.healthProbes.bindAddress: Invalid value",
				"server.metrics.port: Invalid value: 70000: must be between",
				"server.metrics.port: Invalid value: 70000: must differ",
				`controllers.clusterID: Unsupported value: "<custer>"`,
				"controllers.managedResource.syncPeriod: Invalid value",
				"controllers.managedResource.managedByLabelValue: Invalid value",
				"controllers.managedResource.maxConcurrentObjects: Invalid value",
				"controllers.targetCluster.syncPeriod: Invalid value",
				"controllers.targetCluster.concurrentSyncs: Invalid value",
				`clusterCache.probeTimeout: Invalid value: "4s": must not be more than probeInterval (1s)`,
				"clusterCache.failureThreshold: Invalid value",
				"clusterCache.connectConcurrency: Invalid value",
				"clusterCache.maxObjectsPerTarget: Invalid value",
				"clusterCache.maxRegistrationsPerNamespace: Invalid value",
				"clusterCache.disconnectGrace: Invalid value",
				"clusterCache.massDisconnectPercent: Invalid value",
				"clusterCache.massDisconnectLimit: Invalid value",
				"clusterCache.drainTimeout: Invalid value",
				"clusterCache.allowedProxyURLs[0]: Invalid value",
				"clusterCache.allowedProxyURLs[1]: Invalid value",
				`clusterCache.allowedNetworks[1]: Invalid value: "127.0.0.1": must be a network such as 127.0.0.0/8`,
				`clusterCache.allowedNetworks[2]: Invalid value: "127.0.0.1/8": has bits beyond`,
				`clusterCache.allowedNetworks[3]: Invalid value: "10.0.0.0/8": contains no loopback`,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config, err := Load([]byte(test.config))
			g.Expect(config).To(BeNil())
			g.Expect(err).To(HaveOccurred())

			faults := []error{err}
			var aggregate utilerrors.Aggregate
			if errors.As(err, &aggregate) {
				faults = aggregate.Errors()
			}
			var messages []string
			for _, fault := range faults {
				messages = append(messages, fault.Error())
			}
			expected := make([]any, 0, len(test.faults))
			for _, fault := range test.faults {
				expected = append(expected, ContainSubstring(fault))
			}
			g.Expect(messages).To(ConsistOf(expected...))
			g.Expect(err.Error()).NotTo(ContainSubstring("secret"))
		})
	}
}

// FuzzLoad shows that no input makes Load panic or hang, and that what it returns is valid.
func FuzzLoad(f *testing.F) {
	example, err := os.ReadFile(exampleFile)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(example), minimal, withNamespace, "", "---", "null", "a: &a [*a]", "? [a]\n: b", "<<: *x", "{a: {a: {a: {}}}}",
		"classes: [{name: 1, target: 2}]", "apiVersion: !!binary YQ==", "logLevel: 2001-01-01", "classes: [null]",
		"sourceClientConnection: {qps: .nan}", "targetClientConnection: {timeout: 9999999999h}", "\xff\xfe", "a: !!set {a}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := Load(data)
		switch {
		case err != nil && config != nil:
			t.Fatalf("both a configuration and an error: %v", err)
		case err == nil && len(Validate(config)) > 0:
			t.Fatalf("invalid configuration: %v", Validate(config))
		}
	})
}

func duration(d time.Duration) metav1.Duration {
	return metav1.Duration{Duration: d}
}
