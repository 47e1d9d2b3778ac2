package health

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

// typicalDeployment is a Deployment as a cluster returns it, rolled out.
const typicalDeployment = deployment + `
spec:
  progressDeadlineSeconds: 600
  replicas: 2
  revisionHistoryLimit: 10
  selector: {matchLabels: {app: a, role: server}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
  template:
    metadata: {labels: {app: a, role: server}}
    spec:
      containers:
      - name: c
        image: example.com/c:v1
        args: [--verbose, --port=8080]
        env: [{name: A, value: b}, {name: C, value: d}]
        resources: {limits: {memory: 100Mi}, requests: {cpu: 10m, memory: 50Mi}}
        livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 10}
      dnsPolicy: ClusterFirst
      serviceAccountName: a
status:
  availableReplicas: 2
  observedGeneration: 2
  readyReplicas: 2
  replicas: 2
  updatedReplicas: 2
  conditions:
  - {type: Available, status: 'True', reason: MinimumReplicasAvailable, message: available, lastUpdateTime: '2026-01-01T00:00:00Z'}
  - {type: Progressing, status: 'True', reason: NewReplicaSetAvailable, message: rolled out, lastUpdateTime: '2026-01-01T00:00:00Z'}
`

// well is a healthy object of each kind.
var well = map[string]string{
	"APIService":               "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.a}\nstatus: {conditions: [{type: Available, status: 'True'}]}",
	"Deployment":               typicalDeployment,
	"StatefulSet":              statefulSet + "spec: {replicas: 2}\nstatus: {observedGeneration: 2, readyReplicas: 2, updatedReplicas: 2}",
	"DaemonSet":                daemonSet + "status: {observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2}",
	"ReplicaSet":               replicaSet + "spec: {replicas: 2}\nstatus: {observedGeneration: 2, readyReplicas: 2}",
	"ReplicationController":    controller + "spec: {replicas: 2}\nstatus: {observedGeneration: 2, readyReplicas: 2}",
	"Job":                      job + "status: {conditions: [{type: Complete, status: 'True'}]}",
	"Pod":                      pod + "status: {phase: Running}",
	"Service":                  service + "spec: {type: LoadBalancer}\nstatus: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}",
	"CustomResourceDefinition": crd + "status: {conditions: [{type: NamesAccepted, status: 'True'}, {type: Established, status: 'True'}]}",
	"VerticalPodAutoscaler":    autoscaler + "status: {conditions: [{type: RecommendationProvided, status: 'True'}]}",
	"Prometheus":               prometheus + "status: {availableReplicas: 1, updatedReplicas: 1, conditions: [{type: Reconciled, status: 'True', observedGeneration: 2}, {type: Available, status: 'True', observedGeneration: 2}]}",
	"Alertmanager":             alertmanager + "status: {availableReplicas: 1, updatedReplicas: 1, conditions: [{type: Reconciled, status: 'True', observedGeneration: 2}, {type: Available, status: 'True', observedGeneration: 2}]}",
	"Certificate":              certificate + "status: {observedGeneration: 2, state: Ready, conditions: [{type: Ready, status: 'True'}]}",
	"Issuer":                   issuer + "status: {observedGeneration: 2, state: Ready}",
	"custom resource":          custom + "status: {observedGeneration: 2, conditions: [{type: Ready, status: 'True', observedGeneration: 2}, {type: Synced, status: 'True'}]}",
	"ConfigMap":                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}",
}

func BenchmarkCheck(b *testing.B) {
	for _, name := range slices.Sorted(maps.Keys(well)) {
		live := object(b, well[name])
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !Check(live).Healthy {
					b.Fatal(Check(live))
				}
			}
		})
	}
}

// BenchmarkExplain looks for the one to blame among the pods of a namespace.
func BenchmarkExplain(b *testing.B) {
	all := make([]*Pod, 100)
	for i := range all {
		all[i] = &Pod{
			Name: fmt.Sprint("pod-", i), Created: int64(i), Relevant: true,
			Labels:  LabelsOf(map[string]string{"app": fmt.Sprint(i % 10), "pod-template-hash": fmt.Sprint(i / 50)}),
			Problem: waiting("container c is not ready"),
		}
	}
	selector := labels.ValidatedSetSelector{"app": "3"}
	b.ReportAllocs()
	for b.Loop() {
		if Explain(selector, slices.Values(all), Fine).Message != "pod pod-53: container c is not ready" {
			b.Fatal(Explain(selector, slices.Values(all), Fine))
		}
	}
}

func BenchmarkProgress(b *testing.B) {
	live := object(b, typicalDeployment)
	all := make([]*Pod, 100)
	for i := range all {
		all[i] = &Pod{Labels: LabelsOf(map[string]string{"app": "b", "role": "server"}), Relevant: true}
	}
	for _, i := range []int{10, 90} {
		all[i].Labels = LabelsOf(map[string]string{"app": "a", "role": "server"})
	}

	b.Run("Deployment", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Progress(live)
		}
	})
	b.Run("Deployment with 100 pods", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if done, message := PodsRolledOut(Progress(live), slices.Values(all)); !done {
				b.Fatal(message)
			}
		}
	})
}
