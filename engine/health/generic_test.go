package health

import (
	"testing"

	. "github.com/onsi/gomega"
)

// problems are the messages about an object.
type problems struct{ unhealthy, progressing string }

func TestConvention(t *testing.T) {
	status := func(text string) string { return custom + "status: {" + text + "}" }
	const unobserved = "generation 2 has not been observed yet, only 1"
	for name, test := range map[string]struct {
		object string
		problems
	}{
		"ready":               {status("observedGeneration: 2, conditions: [{type: Ready, status: 'True'}]"), problems{}},
		"generation observed": {status("observedGeneration: 2"), problems{}},
		"not ready": {
			status("observedGeneration: 2, conditions: [{type: Ready, status: 'False', reason: R, message: M}]"),
			problems{unhealthy: "condition Ready is False (R): M"},
		},
		"unknown": {
			status("conditions: [{type: Ready, status: Unknown, reason: R}]"),
			problems{unhealthy: "condition Ready is Unknown (R)", progressing: "condition Ready is Unknown (R)"},
		},
		"being worked at": {
			status("conditions: [{type: Ready, status: 'True'}, {type: Reconciling, status: 'True', message: M}]"),
			problems{progressing: "condition Reconciling is True: M"},
		},
		"broken and being worked at": {
			status("conditions: [{type: Reconciling, status: 'True'}, {type: Ready, status: 'False'}]"),
			problems{unhealthy: "condition Ready is False", progressing: "condition Reconciling is True"},
		},
		"no controller works on it": {status("conditions: [{type: Reconciling, status: 'False'}]"), problems{}},
		"stalled": {
			status("conditions: [{type: Stalled, status: 'True', reason: R, message: M}]"),
			problems{unhealthy: "condition Stalled is True (R): M"},
		},
		"stalled counts more than all else, whatever the order": {
			status("conditions: [{type: Reconciling, status: 'True'}, {type: Ready, status: Unknown}, {type: Stalled, status: 'True'}]"),
			problems{unhealthy: "condition Stalled is True"},
		},
		"not stalled": {status("conditions: [{type: Stalled, status: 'False'}]"), problems{}},
		"the status is about another generation": {
			status("observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]"),
			problems{unhealthy: unobserved, progressing: unobserved},
		},
		"so what it says is not repeated": {
			status("observedGeneration: 1, conditions: [{type: Ready, status: 'False'}, {type: Stalled, status: 'True'}]"),
			problems{unhealthy: unobserved, progressing: unobserved},
		},
		"unless the condition knows better": {
			status("observedGeneration: 1, conditions: [{type: Ready, status: 'False', reason: R, observedGeneration: 2}]"),
			problems{unhealthy: "condition Ready is False (R)", progressing: unobserved},
		},
		"stalled in this generation, which therefore was not brought to its end": {
			status("observedGeneration: 1, conditions: [{type: Stalled, status: 'True', observedGeneration: 2}]"),
			problems{unhealthy: "condition Stalled is True"},
		},
		"the condition is about another generation": {
			status("conditions: [{type: Ready, status: 'True', observedGeneration: 1}]"),
			problems{unhealthy: "condition Ready is about generation 1, not about 2",
				progressing: "condition Ready is about generation 1, not about 2"},
		},
		"even though the status is not": {
			status("observedGeneration: 2, conditions: [{type: Ready, status: 'False', observedGeneration: 1}]"),
			problems{unhealthy: "condition Ready is about generation 1, not about 2",
				progressing: "condition Ready is about generation 1, not about 2"},
		},
		"was stalled in another generation": {
			status("conditions: [{type: Ready, status: 'True', observedGeneration: 2}, {type: Stalled, status: 'True', observedGeneration: 1}]"), problems{},
		},
		"never observed": {
			status("observedGeneration: -1"),
			problems{unhealthy: "generation 2 has not been observed yet, only -1",
				progressing: "generation 2 has not been observed yet, only -1"},
		},
		"a generation as text": {status("observedGeneration: '1'"), problems{unhealthy: unobserved, progressing: unobserved}},
		"a later generation":   {status("observedGeneration: 3"), problems{}},
		"being deleted": {
			"apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, generation: 3, deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {observedGeneration: 2, conditions: [{type: Ready, status: 'False'}]}",
			problems{progressing: "it is being deleted"},
		},
		"being deleted, without status": {
			"apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}",
			problems{progressing: "it is being deleted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			live := object(t, test.object)
			result, progress := Check(live), Progress(live)
			g.Expect(result.Checked && progress.Checked).To(BeTrue())
			g.Expect(problems{result.Message, progress.Message}).To(Equal(test.problems))
			g.Expect(result.Healthy).To(Equal(test.unhealthy == ""))
			g.Expect(progress.Progressing).To(Equal(test.progressing != ""))
		})
	}

	for name, text := range map[string]string{
		"without status":      custom,
		"an empty status":     status(""),
		"other conditions":    status("conditions: [{type: Synced, status: 'False'}]"),
		"no status of it":     status("conditions: [{type: Ready}]"),
		"a status of its own": status("conditions: [{type: Ready, status: Perhaps}]"),
		"conditions as a map": status("conditions: {Ready: 'False'}"),
		"an odd generation":   status("observedGeneration: many"),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Check(object(t, text))).To(Equal(Result{Healthy: true}))
			g.Expect(Progress(object(t, text))).To(Equal(ProgressResult{}))
		})
	}
}

// What well-known operators write, and what is made of it. Each case says what the object went through.
func TestKnownCustomResources(t *testing.T) {
	for name, test := range map[string]struct {
		object  string
		checked bool
		problems
	}{
		"cert-manager Certificate, issued": {`
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: a, generation: 1}
spec: {secretName: tls, issuerRef: {name: ca}}
status:
  conditions: [{type: Ready, status: 'True', observedGeneration: 1, reason: Ready, message: Certificate is up to date and has not expired}]
  notAfter: '2026-04-01T00:00:00Z'
  revision: 1`, true, problems{}},
		"cert-manager Certificate, being issued for the first time": {`
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: a, generation: 1}
status:
  conditions:
  - {type: Ready, status: 'False', observedGeneration: 1, reason: DoesNotExist, message: Issuing certificate as Secret does not exist}
  - {type: Issuing, status: 'True', observedGeneration: 1, reason: DoesNotExist}
  nextPrivateKeySecretName: a-x7k`,
			true, problems{unhealthy: "condition Ready is False (DoesNotExist): Issuing certificate as Secret does not exist"}},
		"cert-manager Certificate, changed but not looked at": {`
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: a, generation: 4}
status: {conditions: [{type: Ready, status: 'True', observedGeneration: 3}]}`,
			true, problems{"condition Ready is about generation 3, not about 4",
				"condition Ready is about generation 3, not about 4"}},
		"cert-manager ClusterIssuer, account refused": {`
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: acme, generation: 1}
status:
  acme: {}
  conditions: [{type: Ready, status: 'False', observedGeneration: 1, reason: ErrRegisterACMEAccount, message: 'Failed to register ACME account: 403'}]`,
			true, problems{unhealthy: "condition Ready is False (ErrRegisterACMEAccount): Failed to register ACME account: 403"}},
		"Flux Kustomization, applied": {`
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system, generation: 3}
status:
  conditions: [{type: Ready, status: 'True', observedGeneration: 3, reason: ReconciliationSucceeded, message: 'Applied revision: main@sha1:0a1b'}]
  observedGeneration: 3
  lastAppliedRevision: main@sha1:0a1b`, true, problems{}},
		"Flux Kustomization, at work": {`
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system, generation: 3}
status:
  conditions:
  - {type: Reconciling, status: 'True', observedGeneration: 3, reason: Progressing, message: Detecting drift for revision main@sha1:0a1b}
  - {type: Ready, status: Unknown, observedGeneration: 3, reason: Progressing, message: Reconciliation in progress}
  observedGeneration: 2`,
			true, problems{"condition Ready is Unknown (Progressing): Reconciliation in progress",
				"condition Reconciling is True (Progressing): Detecting drift for revision main@sha1:0a1b"}},
		"Flux HelmRelease, retries exhausted": {`
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: podinfo, generation: 2}
status:
  conditions:
  - {type: Stalled, status: 'True', observedGeneration: 2, reason: RetriesExceeded, message: Failed to install after 3 attempt(s)}
  - {type: Ready, status: 'False', observedGeneration: 2, reason: InstallFailed, message: timed out}
  - {type: Released, status: 'False', observedGeneration: 2, reason: InstallFailed}
  observedGeneration: 2
  installFailures: 3`,
			true, problems{unhealthy: "condition Stalled is True (RetriesExceeded): Failed to install after 3 attempt(s)"}},
		"Flux GitRepository, created a moment ago": {`
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: repo, generation: 1}
status: {observedGeneration: -1}`,
			true, problems{"generation 1 has not been observed yet, only -1",
				"generation 1 has not been observed yet, only -1"}},
		"Argo CD Application, degraded: its health is a field of its own": {`
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: guestbook, generation: 57}
status:
  health: {status: Degraded}
  sync: {status: OutOfSync}
  conditions: [{type: SyncError, message: one or more objects failed to apply}]`, false, problems{}},
		"Argo Rollout, its observedGeneration is text": {`
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, generation: 5}
status: {observedGeneration: '4', phase: Healthy, conditions: [{type: Available, status: 'True'}]}`,
			true, problems{"generation 5 has not been observed yet, only 4", "generation 5 has not been observed yet, only 4"}},
		"Karmada PropagationPolicy, which says nothing": {`
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: nginx, generation: 1}
spec: {resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]}`, false, problems{}},
		"Karmada Cluster, offline": {`
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: member1, generation: 2}
status: {kubernetesVersion: v1.34.1, conditions: [{type: Ready, status: 'False', reason: ClusterNotReachable, message: cluster is not reachable}]}`,
			true, problems{unhealthy: "condition Ready is False (ClusterNotReachable): cluster is not reachable"}},
		"Crossplane Provider is healthy under names of its own": {`
apiVersion: pkg.crossplane.io/v1
kind: Provider
metadata: {name: provider-aws, generation: 1}
status: {conditions: [{type: Healthy, status: 'False', reason: UnhealthyPackageRevision}, {type: Installed, status: 'True'}]}`, false, problems{}},
		"Crossplane managed resource, being made": {`
apiVersion: s3.aws.upbound.io/v1beta1
kind: Bucket
metadata: {name: b, generation: 1}
status: {conditions: [{type: Ready, status: 'False', reason: Creating, observedGeneration: 1}, {type: Synced, status: 'True', reason: ReconcileSuccess, observedGeneration: 1}]}`,
			true, problems{unhealthy: "condition Ready is False (Creating)"}},
		"Cluster API Cluster v1beta1, control plane comes up": {`
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: c, generation: 2}
status:
  phase: Provisioned
  observedGeneration: 2
  infrastructureReady: true
  conditions:
  - {type: Ready, status: 'False', severity: Info, reason: WaitingForControlPlane}
  - {type: InfrastructureReady, status: 'True'}`,
			true, problems{unhealthy: "condition Ready is False (WaitingForControlPlane)"}},
		"Cluster API Cluster v1beta2 has Available instead of Ready": {`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c, generation: 2}
status:
  phase: Provisioned
  observedGeneration: 2
  conditions:
  - {type: Available, status: 'False', observedGeneration: 2, reason: NotAvailable}
  - {type: RollingOut, status: 'False', observedGeneration: 2, reason: NotRollingOut}`, true, problems{}},
		"Cluster API Machine v1beta2, node not healthy": {`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m, generation: 1}
status:
  observedGeneration: 1
  conditions: [{type: Ready, status: Unknown, observedGeneration: 1, reason: ReadyUnknown, message: '* NodeHealthy: Node is not reachable'}]`,
			true, problems{"condition Ready is Unknown (ReadyUnknown): * NodeHealthy: Node is not reachable",
				"condition Ready is Unknown (ReadyUnknown): * NodeHealthy: Node is not reachable"}},
		"Knative Service, revision cannot start": {`
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: hello, generation: 2}
status:
  observedGeneration: 2
  url: http://hello.default.example.com
  conditions:
  - {type: ConfigurationsReady, status: 'False', reason: RevisionFailed}
  - {type: Ready, status: 'False', reason: RevisionFailed, message: Revision "hello-00002" failed}
  - {type: RoutesReady, status: 'True'}`,
			true, problems{unhealthy: `condition Ready is False (RevisionFailed): Revision "hello-00002" failed`}},
		"Knative Service, deploying": {`
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: hello, generation: 1}
status: {observedGeneration: 1, conditions: [{type: Ready, status: Unknown, reason: RevisionMissing}]}`,
			true, problems{"condition Ready is Unknown (RevisionMissing)", "condition Ready is Unknown (RevisionMissing)"}},
		"Gateway API Gateway, not programmed: other names again": {`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g, generation: 1}
status: {conditions: [{type: Accepted, status: 'True', observedGeneration: 1}, {type: Programmed, status: 'False', observedGeneration: 1, reason: AddressNotAssigned}]}`, false, problems{}},
		"Gateway API HTTPRoute has conditions for each parent": {`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, generation: 1}
status: {parents: [{parentRef: {name: g}, controllerName: c, conditions: [{type: Accepted, status: 'False', reason: NoMatchingParent}]}]}`, false, problems{}},
		"Istio VirtualService, generation as text, as its JSON has it": {`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: v, generation: 2}
status: {observedGeneration: '1', conditions: [{type: Reconciled, status: 'False'}]}`,
			true, problems{"generation 2 has not been observed yet, only 1", "generation 2 has not been observed yet, only 1"}},
		"KEDA ScaledObject, trigger cannot be reached": {`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: s, generation: 1}
status:
  hpaName: keda-hpa-s
  conditions:
  - {type: Ready, status: 'False', reason: ScaledObjectCheckFailed, message: Triggers defined in ScaledObject are not working correctly}
  - {type: Active, status: 'False'}
  - {type: Fallback, status: Unknown}
  - {type: Paused, status: Unknown}`,
			true, problems{unhealthy: "condition Ready is False (ScaledObjectCheckFailed): Triggers defined in ScaledObject are not working correctly"}},
		"Strimzi Kafka, ready with a warning": {`
apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
metadata: {name: k, generation: 4}
status: {observedGeneration: 4, conditions: [{type: Warning, status: 'True', reason: DeprecatedFields}, {type: Ready, status: 'True'}]}`, true, problems{}},
		"Strimzi Kafka, failed: it alone has NotReady instead of Ready": {`
apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
metadata: {name: k, generation: 4}
status: {observedGeneration: 4, conditions: [{type: NotReady, status: 'True', reason: InvalidResourceException}]}`, true, problems{}},
		"CloudNativePG Cluster, failing over": {`
apiVersion: postgresql.cnpg.io/v1
kind: Cluster
metadata: {name: pg, generation: 1}
status:
  phase: Failing over
  readyInstances: 2
  conditions: [{type: ContinuousArchiving, status: 'True'}, {type: Ready, status: 'False', reason: ClusterIsNotReady, message: Cluster Is Not Ready}]`,
			true, problems{unhealthy: "condition Ready is False (ClusterIsNotReady): Cluster Is Not Ready"}},
		"Zalando postgresql has a word": {`
apiVersion: acid.zalan.do/v1
kind: postgresql
metadata: {name: pg, generation: 1}
status: {PostgresClusterStatus: CreateFailed}`, false, problems{}},
		"External Secrets ExternalSecret, key not found": {`
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: e, generation: 1}
status: {binding: {name: ''}, conditions: [{type: Ready, status: 'False', reason: SecretSyncedError, message: could not get secret data from provider}]}`,
			true, problems{unhealthy: "condition Ready is False (SecretSyncedError): could not get secret data from provider"}},
		"Gardener DNSEntry, not looked at since its change": {`
apiVersion: dns.gardener.cloud/v1alpha1
kind: DNSEntry
metadata: {name: d, generation: 2}
status: {observedGeneration: 1, state: Ready, provider: default/aws}`,
			true, problems{"generation 2 has not been observed yet, only 1", "generation 2 has not been observed yet, only 1"}},
		"Gardener Extension, last operation failed: that is another convention": {`
apiVersion: extensions.gardener.cloud/v1alpha1
kind: Extension
metadata: {name: e, generation: 1}
status: {observedGeneration: 1, lastOperation: {type: Reconcile, state: Error, progress: 50}, conditions: [{type: ControlPlaneHealthy, status: 'False'}]}`, true, problems{}},
		"Gardener Etcd, quorum lost": {`
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: etcd-main, generation: 3}
status:
  observedGeneration: 3
  ready: false
  conditions:
  - {type: Ready, status: 'False', reason: QuorumLost, message: The majority of ETCD members is not ready}
  - {type: AllMembersReady, status: 'False', reason: NotAllMembersReady}`,
			true, problems{unhealthy: "condition Ready is False (QuorumLost): The majority of ETCD members is not ready"}},
		"VerticalPodAutoscalerCheckpoint says nothing": {`
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscalerCheckpoint
metadata: {name: v, generation: 9}
status: {version: v3, totalSamplesCount: 12}`, false, problems{}},
		"Prometheus operator ThanosRuler follows the generation of its conditions only in words of its own": {`
apiVersion: monitoring.coreos.com/v1
kind: ThanosRuler
metadata: {name: t, generation: 2}
status: {availableReplicas: 0, conditions: [{type: Available, status: 'False', observedGeneration: 2}]}`, false, problems{}},
		"Velero BackupStorageLocation has a phase": {`
apiVersion: velero.io/v1
kind: BackupStorageLocation
metadata: {name: default, generation: 30}
status: {phase: Unavailable, message: no such bucket}`, false, problems{}},
		"Tekton PipelineRun, failed: runs say Succeeded": {`
apiVersion: tekton.dev/v1
kind: PipelineRun
metadata: {name: p, generation: 1}
status: {conditions: [{type: Succeeded, status: 'False', reason: Failed}]}`, false, problems{}},
		"Rook CephCluster, created": {`
apiVersion: ceph.rook.io/v1
kind: CephCluster
metadata: {name: rook-ceph, generation: 2}
status: {observedGeneration: 2, phase: Ready, ceph: {health: HEALTH_WARN}, conditions: [{type: Ready, status: 'True', reason: ClusterCreated, message: Cluster created successfully}]}`, true, problems{}},
		"Cilium network policy, valid": {`
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: n, generation: 1}
status: {conditions: [{type: Valid, status: 'True'}]}`, false, problems{}},
		"Kyverno ClusterPolicy, ready": {`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p, generation: 1}
status: {conditions: [{type: Ready, status: 'True', reason: Succeeded, message: Ready}], autogen: {}}`, true, problems{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			live := object(t, test.object)
			result, progress := Check(live), Progress(live)
			g.Expect(NeedsFullObject(live.GroupVersionKind().GroupKind())).To(BeTrue())
			g.Expect(result.Checked).To(Equal(test.checked))
			g.Expect(progress.Checked).To(Equal(test.checked))
			g.Expect(problems{result.Message, progress.Message}).To(Equal(test.problems))
			g.Expect(result.Healthy).To(Equal(test.unhealthy == ""))
			g.Expect(progress.Progressing).To(Equal(test.progressing != ""))
		})
	}
}
