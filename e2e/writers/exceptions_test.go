package writers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// exception is a field that another writer sets in an object of the hub, and that has to stay.
type exception struct {
	// manifests is what the hub keeps; the first object is the one in question.
	manifests string
	// change is applied to the ManagedResource.
	change func(*resourcesv1alpha1.ManagedResource)
	// before is in the target before the hub writes anything.
	before string
	// write has the writer write, unless it does so by itself.
	write func(p place, obj *unstructured.Unstructured)
	// written holds when the writer has.
	written func(g Gomega, live map[string]any)
	// stays are the paths whose values may not change from then on.
	stays []string
	// manager is the writer, as it calls itself; empty if it is the API server, which leaves no name.
	manager string
	// ready is set if the ManagedResource has to become healthy and rolled out with it.
	ready bool
	// extra is how many patches the hub needs to create the object, beside the first one.
	extra int
}

func has(path string) func(g Gomega, live map[string]any) {
	return func(g Gomega, live map[string]any) { g.Expect(at(live, path)).NotTo(Or(BeNil(), BeEmpty()), path) }
}

func is(path string, want any) func(g Gomega, live map[string]any) {
	return func(g Gomega, live map[string]any) { g.Expect(at(live, path)).To(Equal(want), path) }
}

const controllerManager = "kube-controller-manager"

// exceptions are written by the control plane itself, except where a comment says why the test simulates the writer.
func exceptions() map[string]exception {
	const token = "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata: {namespace: $ns, name: token, annotations: {kubernetes.io/service-account.name: robot}}\n"
	const robot = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: $ns, name: robot}\n"
	const aggregated = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: $ns-sum}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {sum: $ns}}]}\n"
	const part = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: $ns-part, labels: {sum: $ns}}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n"
	const volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: $ns-volume}\nspec: {storageClassName: $ns, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, persistentVolumeReclaimPolicy: Retain, hostPath: {path: /nowhere}%s}\n"
	const claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {namespace: $ns, name: claim}\nspec: {storageClassName: $ns, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}%s}\n"
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: $ns, name: app}\nspec: {replicas: 1, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: app, image: \"example.org/app:1\"}]}}}\n"
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {namespace: $ns, name: pod}\nspec: {%scontainers: [{name: app, image: \"example.org/app:1\"}]}\n"
	service := func(spec string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {namespace: $ns, name: svc}\nspec: {" + spec + "selector: {app: a}, ports: [{name: http, port: 80}]}\n"
	}
	tokenStays := []string{"data.token", `data.ca\.crt`, "data.namespace", `metadata.annotations.kubernetes\.io/service-account\.uid`}
	volumeStays := []string{"spec.claimRef", "metadata.finalizers"}
	claimStays := []string{"spec.volumeName", `metadata.annotations.pv\.kubernetes\.io/bind-completed`, "metadata.finalizers"}
	bound := func(g Gomega, live map[string]any) { g.Expect(at(live, "status.phase")).To(Equal("Bound")) }
	revision := is(`metadata.annotations.deployment\.kubernetes\.io/revision`, "1")
	return map[string]exception{
		"token of a service account": {
			before: robot, manifests: token, written: has("data.token"), stays: tokenStays, manager: controllerManager,
		},
		"token of a service account whose data the manifest leaves empty": {
			before: robot, manifests: token + "data: {}\n", written: has("data.token"), stays: tokenStays, manager: controllerManager,
		},
		"token of a service account beside data of the manifest": {
			before: robot, manifests: token + "stringData: {mine: \"1\"}\n", written: has("data.token"), stays: append(tokenStays, "data.mine"), manager: controllerManager,
		},
		"token of a service account that the manifest brings": {
			before: robot, manifests: token + "data: {token: b3Vycw==}\n", written: has(`data.ca\.crt`), stays: tokenStays, manager: controllerManager,
		},
		"rules of an aggregated role": {
			before: part, manifests: aggregated, written: has("rules"), stays: []string{"rules"}, manager: "clusterrole-aggregation-controller",
		},
		"rules of an aggregated role whose manifest has an empty list": {
			before: part, manifests: aggregated + "rules: []\n", written: has("rules"), stays: []string{"rules"}, manager: "clusterrole-aggregation-controller",
		},
		"rules of an aggregated role whose manifest has no list": {
			before: part, manifests: aggregated + "rules: null\n", written: has("rules"), stays: []string{"rules"}, manager: "clusterrole-aggregation-controller",
		},
		"rules of an aggregated role that change": {
			before: part, manifests: aggregated, manager: "clusterrole-aggregation-controller",
			write: func(p place, obj *unstructured.Unstructured) {
				p.Eventually(func() any { return p.value(obj, "rules") }).Should(HaveLen(1))
				p.create(p.objects(strings.NewReplacer("-part", "-part2", "pods", "secrets").Replace(part))...)
			},
			written: func(g Gomega, live map[string]any) { g.Expect(at(live, "rules")).To(HaveLen(2)) }, stays: []string{"rules"},
		},
		"volume that a claim is bound to": {
			before: fmt.Sprintf(volume, ""), manifests: fmt.Sprintf(claim, ""), written: bound, stays: claimStays, manager: controllerManager,
		},
		"volume that a claim is bound to, left empty by the manifest": {
			before: fmt.Sprintf(volume, ""), manifests: fmt.Sprintf(claim, `, volumeName: ""`), written: bound, stays: claimStays, manager: controllerManager,
		},
		"volume that a claim names": {
			before: fmt.Sprintf(volume, ""), manifests: fmt.Sprintf(claim, ", volumeName: $ns-volume"), written: bound, stays: claimStays, manager: controllerManager,
		},
		"claim of a volume": {
			before: fmt.Sprintf(claim, ""), manifests: fmt.Sprintf(volume, ""), written: bound, stays: volumeStays, manager: controllerManager,
		},
		"claim of a volume, left empty by the manifest": {
			before: fmt.Sprintf(claim, ""), manifests: fmt.Sprintf(volume, ", claimRef: null"), written: bound, stays: volumeStays, manager: controllerManager,
		},
		"claim that a volume names": {
			before: fmt.Sprintf(claim, ""), manifests: fmt.Sprintf(volume, ", claimRef: {namespace: $ns, name: claim}"),
			written: func(g Gomega, live map[string]any) { bound(g, live); has("spec.claimRef.uid")(g, live) },
			stays:   volumeStays, manager: controllerManager,
		},
		"volume and claim of one ManagedResource": {
			manifests: fmt.Sprintf(claim, "") + "\n---\n" + fmt.Sprintf(volume, ""), written: bound, stays: claimStays, manager: controllerManager, ready: true,
		},
		"finalizers of a namespace": {
			manifests: "apiVersion: v1\nkind: Namespace\nmetadata: {name: $ns-inner}\n",
			written:   has("spec.finalizers"), stays: []string{"spec.finalizers", `metadata.labels.kubernetes\.io/metadata\.name`}, ready: true,
		},
		"finalizers of a namespace whose manifest has an empty list, all labels being the manifest's": {
			manifests: "apiVersion: v1\nkind: Namespace\nmetadata: {name: $ns-inner}\nspec: {finalizers: []}\n",
			change:    func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.ForceOverwriteLabels = new(true) },
			written:   has("spec.finalizers"), stays: []string{"spec.finalizers", `metadata.labels.kubernetes\.io/metadata\.name`}, ready: true,
		},
		"address of a Service": {
			manifests: service(""), written: has("spec.clusterIP"), stays: []string{"spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies"}, ready: true,
		},
		"address of a Service, left empty by the manifest": {
			manifests: service(`clusterIP: "", `), written: has("spec.clusterIP"), stays: []string{"spec.clusterIP", "spec.clusterIPs"}, ready: true,
		},
		"node port of a Service": {
			manifests: service("type: NodePort, "), written: has("spec.clusterIP"), stays: []string{"spec.clusterIP", "spec.ports.0.nodePort"}, ready: true,
		},
		// There is no cloud, so the test simulates its controller: a finalizer, and status.
		"ports and finalizer of a load balancer": {
			manifests: service("type: LoadBalancer, externalTrafficPolicy: Local, "),
			write: func(p place, obj *unstructured.Unstructured) {
				p.mergePatch(obj, "cloud-controller-manager", `{"metadata":{"finalizers":["service.kubernetes.io/load-balancer-cleanup"]}}`)
				p.Expect(target.Client.Status().Patch(p.ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType,
					[]byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)), client.FieldOwner("cloud-controller-manager"))).To(Succeed())
			},
			written: has("status.loadBalancer.ingress"), ready: true, manager: "cloud-controller-manager",
			stays: []string{"spec.clusterIP", "spec.ports.0.nodePort", "spec.healthCheckNodePort", "metadata.finalizers", "status.loadBalancer"},
		},
		"revision of a Deployment": {
			manifests: deployment, written: revision, stays: []string{`metadata.annotations.deployment\.kubernetes\.io/revision`, "spec"},
			manager: controllerManager, ready: true,
		},
		"revision of a Deployment all of whose annotations are the manifest's": {
			manifests: deployment, written: revision, stays: []string{`metadata.annotations.deployment\.kubernetes\.io/revision`, "spec"},
			change:  func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.ForceOverwriteAnnotations = new(true) },
			manager: controllerManager, ready: true,
		},
		// What "kubectl rollout restart" does; that the Deployment then has new pods is the controller's doing.
		"restart of a Deployment": {
			manifests: deployment, manager: "kubectl-rollout", ready: true,
			write: func(p place, obj *unstructured.Unstructured) {
				p.Eventually(p.replicaSets).Should(HaveLen(1), "there is something to restart")
				p.send(obj, types.StrategicMergePatchType, []byte(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`), "kubectl-rollout")
				p.Eventually(p.replicaSets).Should(HaveLen(2))
			},
			written: is(`metadata.annotations.deployment\.kubernetes\.io/revision`, "2"),
			stays:   []string{`spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt`, `metadata.annotations.deployment\.kubernetes\.io/revision`, "spec"},
		},
		"revision of a DaemonSet all of whose annotations are the manifest's": {
			manifests: strings.NewReplacer("Deployment", "DaemonSet", "replicas: 1, ", "", "containers", "nodeSelector: {kubernetes.io/hostname: node-0}, containers").Replace(deployment),
			change:    func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.ForceOverwriteAnnotations = new(true) },
			written:   is(`metadata.annotations.deprecated\.daemonset\.template\.generation`, "1"), stays: []string{"spec"},
			manager: controllerManager, ready: true,
		},
		"selector and labels of a Job": {
			manifests: "apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: $ns, name: job}\nspec: {suspend: false, template: {spec: {restartPolicy: Never, containers: [{name: app, image: \"example.org/app:1\"}]}}}\n",
			written: func(g Gomega, live map[string]any) {
				has("spec.selector.matchLabels")(g, live)
				has("status.startTime")(g, live)
			},
			stays:   []string{"spec.selector", "spec.template.metadata.labels"},
			manager: controllerManager, ready: true,
		},
		"defaults in volume claims of a StatefulSet": {
			manifests: "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {namespace: $ns, name: set}\nspec: {replicas: 1, serviceName: set, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: app, image: \"example.org/app:1\", volumeMounts: [{name: data, mountPath: /data}]}]}}, " +
				"volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: $ns, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}\n",
			before:  fmt.Sprintf(volume, ""),
			written: is("status.readyReplicas", int64(1)), stays: []string{"spec.volumeClaimTemplates", "spec.template"}, manager: controllerManager, ready: true,
		},
		"what admission and the scheduler add to a Pod": {
			manifests: fmt.Sprintf(pod, ""),
			written: func(g Gomega, live map[string]any) {
				has("spec.nodeName")(g, live)
				is("status.phase", "Running")(g, live)
			},
			stays: []string{"spec"}, ready: true,
		},
		"what admission and the scheduler add to a Pod whose manifest leaves it empty": {
			manifests: fmt.Sprintf(pod, `nodeName: "", tolerations: [], `),
			written: func(g Gomega, live map[string]any) {
				has("spec.nodeName")(g, live)
				is("status.phase", "Running")(g, live)
			},
			stays: []string{"spec"}, ready: true,
		},
		// What "kubectl debug" does.
		"ephemeral containers of a Pod": {
			manifests: fmt.Sprintf(pod, ""),
			write: func(p place, obj *unstructured.Unstructured) {
				p.Eventually(func() any { return p.value(obj, "status.phase") }).Should(Equal("Running"))
				patch := `{"spec":{"ephemeralContainers":[{"name":"debugger","image":"example.org/debugger:1"}]}}`
				p.Expect(target.Client.SubResource("ephemeralcontainers").Patch(p.ctx, obj.DeepCopy(),
					client.RawPatch(types.StrategicMergePatchType, []byte(patch)), client.FieldOwner("kubectl-debug"))).To(Succeed())
			},
			written: has("spec.ephemeralContainers"), stays: []string{"spec"}, ready: true, manager: "kubectl-debug",
		},
		"taints of a Node": {
			manifests: "apiVersion: v1\nkind: Node\nmetadata: {name: $ns-node, labels: {kubernetes.io/hostname: $ns-node}}\n",
			write: func(p place, obj *unstructured.Unstructured) {
				p.Eventually(func() any { return p.value(obj, "spec.taints") }).Should(BeNil(), "the controller manager takes the first one off")
				p.mergePatch(obj, "kubectl-cordon", `{"spec":{"unschedulable":true}}`)
			},
			written: func(g Gomega, live map[string]any) {
				g.Expect(at(live, "spec.taints.0.key")).To(Equal("node.kubernetes.io/unschedulable"), "the controller manager puts one on")
			},
			stays: []string{"spec"}, manager: controllerManager,
		},
		// No controller of this version fills them any longer.
		"secrets of a ServiceAccount": {
			manifests: robot,
			write: func(p place, obj *unstructured.Unstructured) {
				p.update(obj, "token-controller", func(content map[string]any) {
					content["secrets"] = []any{map[string]any{"name": "robot-token"}}
					content["imagePullSecrets"] = []any{map[string]any{"name": "pull"}}
				})
			},
			written: has("secrets"), stays: []string{"secrets", "imagePullSecrets"}, manager: "token-controller", ready: true,
		},
		"secrets of a ServiceAccount whose manifest has its own": {
			manifests: robot + "secrets: [{name: mine}]\n",
			write: func(p place, obj *unstructured.Unstructured) {
				p.mergePatch(obj, "token-controller", `{"secrets":[{"name":"mine"},{"name":"robot-token"}]}`)
			},
			written: has("secrets.1"), stays: []string{"secrets"}, manager: "token-controller", ready: true, extra: 1,
		},
	}
}

func TestWhatTheControlPlaneOwnsStays(t *testing.T) {
	t.Parallel()
	for name, test := range exceptions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.run(newPlace(t))
		})
	}
}

func (e exception) run(p place) {
	p.t.Helper()
	if e.before != "" {
		p.create(p.objects(e.before)...)
	}
	p.awaitDefaultServiceAccount()
	objects := p.objects(e.manifests)
	obj := objects[0]
	var change []func(*resourcesv1alpha1.ManagedResource)
	if e.change != nil {
		change = append(change, e.change)
	}
	p.manage("mr", objects, change...)
	p.awaitApplied("mr")
	if e.write != nil {
		e.write(p, obj)
	}
	if e.ready {
		p.awaitReady("mr")
	}
	p.Eventually(func(g Gomega) {
		live, err := p.get(obj)
		g.Expect(err).NotTo(HaveOccurred())
		e.written(g, live.Object)
		if e.manager != "" {
			g.Expect(managers(live)).To(ContainElement(e.manager))
		}
	}).Should(Succeed(), func() string { return hub.Log.About(p.ns) })
	first := p.live(obj)
	same := func(when string) {
		p.t.Helper()
		live := p.live(obj)
		for _, path := range e.stays {
			p.Expect(at(live.Object, path)).To(Equal(at(first.Object, path)), path+" "+when)
		}
		p.Expect(live.GetUID()).To(Equal(first.GetUID()), when)
	}

	p.nudge(obj)
	same("after a correction")
	p.nudge(obj)
	p.awaitPatches(obj, 1+e.extra+2, 0)
	same("after two corrections")
	p.reapply("mr")
	p.awaitPatches(obj, 1+e.extra+3, 1)
	same("after all was applied again")
	p.expectUndisturbed("mr")

	obj.SetLabels(map[string]string{nudged: steady, "new": "1"})
	p.manage("mr", objects)
	p.Eventually(func() map[string]string { return p.live(obj).GetLabels() }).Should(HaveKeyWithValue("new", "1"), func() string { return hub.Log.About(p.ns) })
	p.awaitApplied("mr")
	p.nudge(obj)
	same("after new content")
	p.awaitPatches(obj, 1+e.extra+5, 2)
	for _, note := range p.corrections() {
		p.Expect(note).To(ContainSubstring("nudger"), "no other client was corrected")
		for _, manager := range managers(first) {
			if manager != "trellis" && manager != "nudger" {
				p.Expect(note).NotTo(ContainSubstring(manager+" ("), "no other client was corrected")
			}
		}
	}
}

// expectUndisturbed looks at all versions of a ManagedResource: once applied, it stays so.
func (p place) expectUndisturbed(name string) {
	p.t.Helper()
	versions := seen.Of(types.NamespacedName{Namespace: p.ns, Name: name})
	first := slices.IndexFunc(versions, func(
		v testbed.Version) bool {
		return appliedCondition(v.ManagedResource) == "True/ApplySucceeded"
	})
	p.Expect(first).To(BeNumerically(">=", 0))
	for _, v := range versions[first:] {
		p.Expect(appliedCondition(v.ManagedResource)).To(Equal("True/ApplySucceeded"))
		p.Expect(condition(v.ManagedResource, "Contested")).NotTo(HavePrefix("True/"))
	}
}

// awaitDefaultServiceAccount waits until Pods can be created in the namespace.
func (p place) awaitDefaultServiceAccount() {
	p.t.Helper()
	p.Eventually(func() error {
		return target.Client.Get(p.ctx, types.NamespacedName{Namespace: p.ns, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed())
}

// A Job's pods are the controller's; that it finishes shows that it was left to do its work.
func TestJobFinishes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.awaitDefaultServiceAccount()
	job := p.objects("apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: $ns, name: job}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: \"example.org/app:1\"}]}}}\n")
	p.manage("mr", job)
	p.awaitReady("mr")
	p.Eventually(func(g Gomega) {
		live := &batchv1.Job{}
		g.Expect(target.Client.Get(p.ctx, client.ObjectKeyFromObject(job[0]), live)).To(Succeed())
		g.Expect(live.Status.Succeeded).To(BeEquivalentTo(1))
	}).Should(Succeed())
	p.awaitReady("mr")
	p.awaitPatches(job[0], 1, 0)
}
