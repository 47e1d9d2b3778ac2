package tracker_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
)

// typicalPod is a pod of a Deployment as a cluster returns it, ready.
func typicalPod(b testing.TB, namespace, app string, i int) *unstructured.Unstructured {
	pod := parsed(b, "v1", "Pod", fmt.Sprintf("%s-7d9f8c6b5-%05d", app, i), "100", `
metadata:
  generateName: app-7d9f8c6b5-
  creationTimestamp: '2026-01-01T00:00:00Z'
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: app-7d9f8c6b5, uid: u, controller: true, blockOwnerDeletion: true}]
  annotations: {checksum/configmap: 0123456789abcdef0123456789abcdef, checksum/secret: 0123456789abcdef0123456789abcdef}
spec:
  containers:
  - name: c
    image: example.com/c:v1
    args: [--verbose, --port=8080]
    env: [{name: A, value: b}, {name: C, value: d}]
    resources: {limits: {memory: 100Mi}, requests: {cpu: 10m, memory: 50Mi}}
    volumeMounts: [{name: config, mountPath: /etc/c}, {name: token, mountPath: /var/run/secrets}]
  volumes: [{name: config, configMap: {name: c}}, {name: token, projected: {sources: [{serviceAccountToken: {path: token}}]}}]
  nodeName: node-1
status:
  phase: Running
  podIP: 10.0.0.1
  conditions:
  - {type: PodReadyToStartContainers, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}
  - {type: Initialized, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}
  - {type: Ready, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}
  - {type: ContainersReady, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}
  - {type: PodScheduled, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}
  containerStatuses: [{name: c, ready: true, restartCount: 0, started: true, image: example.com/c:v1, state: {running: {startedAt: '2026-01-01T00:00:00Z'}}}]
`)
	pod.SetNamespace(namespace)
	pod.SetLabels(map[string]string{
		"app": app, "role": "server", "app.kubernetes.io/part-of": "system", "pod-template-hash": "7d9f8c6b5",
		"resources.gardener.cloud/managed-by": "gardener", "networking.gardener.cloud/to-dns": "allowed",
	})
	kubelet := managed("kubelet", metav1.ManagedFieldsOperationUpdate, `{"f:status":{"f:conditions":{`+strings.Repeat(`"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}},`, 5)+`"f:x":{}}}}`)
	kubelet.Subresource = "status"
	pod.SetManagedFields([]metav1.ManagedFieldsEntry{
		managed("kube-controller-manager", metav1.ManagedFieldsOperationUpdate, `{"f:metadata":{"f:annotations":{".":{},"f:checksum/configmap":{},"f:checksum/secret":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:role":{},"f:pod-template-hash":{},"f:resources.gardener.cloud/managed-by":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"u\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:args":{},"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{".":{},"f:limits":{".":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{},"f:volumeMounts":{".":{},"k:{\"mountPath\":\"/etc/c\"}":{".":{},"f:mountPath":{},"f:name":{}}}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:volumes":{".":{},"k:{\"name\":\"config\"}":{".":{},"f:configMap":{".":{},"f:name":{}},"f:name":{}}}}}`),
		kubelet,
	})
	return pod
}

// typicalDeployment is one that the hub applied, rolled out.
func typicalDeployment(b testing.TB, namespace, app string) *unstructured.Unstructured {
	deployment := parsed(b, "apps/v1", "Deployment", app, "100", `
spec:
  progressDeadlineSeconds: 600
  replicas: 2
  selector: {matchLabels: {app: `+app+`, role: server}}
  template:
    metadata: {labels: {app: `+app+`, role: server}}
    spec:
      containers: [{name: c, image: 'example.com/c:v1', args: [--verbose], env: [{name: A, value: b}]}]
status:
  observedGeneration: 2
  readyReplicas: 2
  replicas: 2
  updatedReplicas: 2
  conditions:
  - {type: Available, status: 'True', reason: MinimumReplicasAvailable, message: available}
  - {type: Progressing, status: 'True', reason: NewReplicaSetAvailable, message: rolled out}
`)
	deployment.SetNamespace(namespace)
	status := managed("kube-controller-manager", metav1.ManagedFieldsOperationUpdate, `{"f:status":{"f:conditions":{},"f:replicas":{}}}`)
	status.Subresource = "status"
	deployment.SetManagedFields([]metav1.ManagedFieldsEntry{
		managed("trellis", metav1.ManagedFieldsOperationApply, `{"f:metadata":{"f:labels":{"f:resources.gardener.cloud/managed-by":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{},"f:role":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:args":{},"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{}}}}}}}`),
		status,
	})
	return deployment
}

// BenchmarkTransform is what an event costs before the subscribers are notified of it.
func BenchmarkTransform(b *testing.B) {
	s := newSetup()
	thing := ref("Thing", "default", "a")
	thing.APIVersion = "example.com/v1"
	deployment := ref("Deployment", "default", "a")
	deployment.APIVersion = "apps/v1"
	refs := []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a"), deployment, thing}
	if err := s.Track(b.Context(), mr1, cluster, refs, tracker.Exact{}); err != nil {
		b.Fatal(err)
	}
	watches := s.clusters.Watches(cluster)
	failing := typicalPod(b, "default", "a", 1)
	failing.Object["status"] = parsed(b, "v1", "Pod", "a", "1", `
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: 'True'}, {type: Ready, status: 'False', reason: ContainersNotReady}]
  containerStatuses: [{name: c, ready: false, restartCount: 0, state: {waiting: {reason: ImagePullBackOff, message: 'Back-off pulling image "x": ErrImagePull: not found'}}}]`).Object["status"]
	for _, c := range []struct {
		name, watch string
		object      client.Object
	}{
		{"Pod", podsWatch, typicalPod(b, "default", "a", 0)},
		{"Pod that fails", podsWatch, failing},
		{"Deployment", deployments, typicalDeployment(b, "default", "a")},
		{"ConfigMap", watch, configMap("10", "")},
		{"custom resource", things, parsed(b, "example.com/v1", "Thing", "a", "10", "status: {observedGeneration: 2, conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}")},
	} {
		transform := watches[c.watch].Transform
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				transform(c.object)
			}
		})
	}
}

// decoded is an object as it comes from a server: it shares no text with others.
func decoded(b *testing.B, obj *unstructured.Unstructured) *unstructured.Unstructured {
	raw, err := obj.MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	result := &unstructured.Unstructured{}
	if err := result.UnmarshalJSON(raw); err != nil {
		b.Fatal(err)
	}
	return result
}

// BenchmarkKept is the memory that a watched object takes for as long as it is watched, map of the watch included.
func BenchmarkKept(b *testing.B) {
	const objects = 5000
	for _, c := range []struct {
		name, watch string
		object      func(i int) client.Object
	}{
		{"Pod", podsWatch, func(i int) client.Object { return decoded(b, typicalPod(b, "default", "a", i)) }},
		{"Deployment", deployments, func(i int) client.Object { return decoded(b, typicalDeployment(b, "default", fmt.Sprint("app", i))) }},
		{"ConfigMap", watch, func(i int) client.Object {
			obj := configMap(fmt.Sprint(i), "")
			obj.Name, obj.UID = fmt.Sprint("a", i), types.UID(fmt.Sprint("01234567-89ab-cdef-0123-", i))
			return obj
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				s := newSetup()
				deployment := ref("Deployment", "default", "a")
				deployment.APIVersion = "apps/v1"
				refs := []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a"), deployment}
				if err := s.Track(b.Context(), mr1, cluster, refs, tracker.Exact{}); err != nil {
					b.Fatal(err)
				}
				before := heap()
				for i := range objects {
					s.clusters.Put(cluster, c.watch, c.object(i))
				}
				b.ReportMetric(float64(heap()-before)/objects, "kept-B/object")
				runtime.KeepAlive(s)
			}
		})
	}
}

// busyTarget has many Deployments with two pods each, in a few namespaces.
func busyTarget(b *testing.B, namespaces, deploymentsIn int) *setup {
	s := newSetup()
	var refs []resourcesv1alpha1.ObjectReference
	for n := range namespaces {
		for d := range deploymentsIn {
			r := ref("Deployment", fmt.Sprint("ns", n), fmt.Sprint("app", d))
			r.APIVersion = "apps/v1"
			refs = append(refs, r)
		}
	}
	if err := s.Track(b.Context(), mr1, cluster, refs, tracker.Exact{}); err != nil {
		b.Fatal(err)
	}
	s.clusters.Sync(cluster, deployments, true)
	s.clusters.Sync(cluster, podsWatch, true)
	for _, r := range refs {
		s.clusters.Put(cluster, deployments, typicalDeployment(b, r.Namespace, r.Name))
		for i := range 2 {
			s.clusters.Put(cluster, podsWatch, typicalPod(b, r.Namespace, r.Name, i))
		}
	}
	return s
}

// BenchmarkPodEvent is a pod that comes and goes in a target of many workloads: once in each of ten namespaces, once in
// a single one.
func BenchmarkPodEvent(b *testing.B) {
	for _, shape := range [][2]int{{10, 10}, {10, 50}, {1, 100}} {
		b.Run(fmt.Sprintf("%d namespaces with %d Deployments", shape[0], shape[1]), func(b *testing.B) {
			s := busyTarget(b, shape[0], shape[1])
			pod := typicalPod(b, "ns0", "app0", 3)
			s.causes()
			b.ReportAllocs()
			for b.Loop() {
				s.clusters.Put(cluster, podsWatch, pod)
				s.clusters.Delete(cluster, podsWatch, client.ObjectKeyFromObject(pod))
			}
		})
	}
}

// BenchmarkPods is what a judgement of all Deployments of a target spends on finding their pods.
func BenchmarkPods(b *testing.B) {
	for _, shape := range [][2]int{{10, 10}, {10, 50}, {1, 1000}} {
		b.Run(fmt.Sprintf("%d namespaces with %d Deployments", shape[0], shape[1]), func(b *testing.B) {
			s := busyTarget(b, shape[0], shape[1])
			var selectors []labels.Selector
			for d := range shape[1] {
				selectors = append(selectors, labels.SelectorFromValidatedSet(labels.Set{"app": fmt.Sprint("app", d)}))
			}
			b.ReportAllocs()
			for b.Loop() {
				pods, _ := s.Pods(cluster)
				for n := range shape[0] {
					for d := range shape[1] {
						for range pods.Of(fmt.Sprint("ns", n), selectors[d]) {
						}
					}
				}
			}
		})
	}
}

// BenchmarkTrackAgain is what each look at a ManagedResource begins with, whose inventory is as it was.
func BenchmarkTrackAgain(b *testing.B) {
	s := newSetup()
	var refs []resourcesv1alpha1.ObjectReference
	for i := range 15 {
		refs = append(refs, ref([]string{"ConfigMap", "Secret", "Service", "ServiceAccount"}[i%4], "default", fmt.Sprint(i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Track(b.Context(), mr1, cluster, refs, tracker.Exact{}); err != nil {
			b.Fatal(err)
		}
	}
}
