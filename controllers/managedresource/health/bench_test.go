package health

import (
	"slices"
	"testing"
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

func BenchmarkCheck(b *testing.B) {
	for name, text := range map[string]string{
		"Deployment": typicalDeployment,
		"DaemonSet":  daemonSet + "status: {observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2}",
		"ConfigMap":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}",
	} {
		live := object(b, text)
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
