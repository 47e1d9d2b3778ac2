package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// MR-24's other half: drift is corrected without a request of a user, and the object stays the same one.

// editor changes an object of the target the way one kind of client does.
type editor func(p place, obj client.Object, change func())

func copied(p place, obj client.Object) client.Object {
	out, ok := obj.DeepCopyObject().(client.Object)
	p.Expect(ok).To(BeTrue())
	return out
}

// editors are all ways to change payload. Each names its field manager.
var editors = map[string]editor{
	"by update": func(p place, obj client.Object, change func()) { p.edit(target, obj, change) },
	"by merge patch": func(p place, obj client.Object, change func()) {
		p.t.Helper()
		read(p, obj)
		base := copied(p, obj)
		change()
		p.Expect(target.Client.Patch(p.ctx, obj, client.MergeFrom(base), client.FieldOwner("other-client"))).To(Succeed())
	},
	"by strategic merge patch": func(p place, obj client.Object, change func()) {
		p.t.Helper()
		read(p, obj)
		base := copied(p, obj)
		change()
		p.Expect(target.Client.Patch(p.ctx, obj, client.StrategicMergeFrom(base),
			client.FieldOwner("other-client"))).To(Succeed())
	},
}

func TestMR24_W15_DriftOfAConfigMapIsCorrected(t *testing.T) {
	t.Parallel()
	edits := map[string]struct {
		change func(cm *corev1.ConfigMap)
		blames string
		// removes is the field that is missing. The client that removed it leaves no name.
		removes string
	}{
		"a value is changed":       {change: func(cm *corev1.ConfigMap) { cm.Data["key"] = "by hand" }, blames: ".data.key"},
		"a key is removed":         {change: func(cm *corev1.ConfigMap) { delete(cm.Data, "key") }, removes: ".data.key"},
		"a key is added":           {change: func(cm *corev1.ConfigMap) { cm.Data["foreign"] = "1" }, blames: ".data.foreign"},
		"binary data is added":     {change: func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"foreign": {1}} }, blames: ".binaryData.foreign"},
		"it is emptied":            {change: func(cm *corev1.ConfigMap) { cm.Data = nil }, removes: ".data.key"},
		"a label is changed":       {change: func(cm *corev1.ConfigMap) { cm.Labels["mine"] = "other" }, blames: ".metadata.labels.mine"},
		"a label is removed":       {change: func(cm *corev1.ConfigMap) { delete(cm.Labels, "mine") }, removes: ".metadata.labels.mine"},
		"managed-by is removed":    {change: func(cm *corev1.ConfigMap) { delete(cm.Labels, resourcesv1alpha1.ManagedByLabel) }, removes: ".metadata.labels." + resourcesv1alpha1.ManagedByLabel},
		"managed-by is changed":    {change: func(cm *corev1.ConfigMap) { cm.Labels[resourcesv1alpha1.ManagedByLabel] = "other" }, blames: ".metadata.labels." + resourcesv1alpha1.ManagedByLabel},
		"all labels are removed":   {change: func(cm *corev1.ConfigMap) { cm.Labels = nil }, removes: ".metadata.labels.mine"},
		"an annotation is changed": {change: func(cm *corev1.ConfigMap) { cm.Annotations["mine"] = "other" }, blames: ".metadata.annotations.mine"},
		"the origin is removed":    {change: func(cm *corev1.ConfigMap) { delete(cm.Annotations, resourcesv1alpha1.OriginAnnotation) }, removes: ".metadata.annotations." + resourcesv1alpha1.OriginAnnotation},
		"an owner is added": {change: func(cm *corev1.ConfigMap) {
			cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: cm.Namespace, UID: "none"}}
		}, blames: ".metadata.ownerReferences"},
		"everything at once": {change: func(cm *corev1.ConfigMap) {
			cm.Labels, cm.Annotations, cm.Data = nil, nil, map[string]string{"foreign": "1"}
		}, blames: ".data.foreign"},
	}
	for how, edit := range editors {
		for name, test := range edits {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				p := registered(t)
				p.content("content", p.configMapWith("one", `{"labels":{"mine":"1"},"annotations":{"mine":"1"}}`))
				p.mr("mr", "content")
				p.awaitReady("mr")
				right := read(p, p.configMap("one"))

				cm := p.configMap("one")
				edit(p, cm, func() { test.change(cm) })
				p.Eventually(func() *corev1.ConfigMap { return read(p, p.configMap("one")) }).Should(SatisfyAll(
					HaveField("UID", right.UID), HaveField("Labels", right.Labels), HaveField("Annotations", right.Annotations),
					HaveField("OwnerReferences", right.OwnerReferences), HaveField("Data", right.Data), HaveField("BinaryData", right.BinaryData)), func() string { return hub.Log.About(p.ns) })
				p.awaitReady("mr")
				if test.blames != "" {
					p.Eventually(p.events).Should(ContainElement(SatisfyAll(HavePrefix("Normal DriftCorrected: "),
						ContainSubstring("one"), ContainSubstring("other-client ("), ContainSubstring(test.blames))))
				}
				if test.removes != "" {
					p.Eventually(p.events).Should(ContainElement(SatisfyAll(HavePrefix("Normal DriftCorrected: "),
						ContainSubstring("one"), ContainSubstring("a client without a name ("), ContainSubstring(test.removes))))
				}
			})
		}
	}
}

func TestMR24_W15_DriftOfADeploymentIsCorrected(t *testing.T) {
	t.Parallel()
	container := func(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }
	edits := map[string]func(d *appsv1.Deployment){
		"an image is changed": func(d *appsv1.Deployment) { container(d).Image = "example.org/other:2" },
		"an env var is added": func(d *appsv1.Deployment) {
			container(d).Env = append(container(d).Env, corev1.EnvVar{Name: "FOREIGN", Value: "1"})
		},
		"an env var is changed":    func(d *appsv1.Deployment) { container(d).Env[0].Value = "wild" },
		"all env vars are removed": func(d *appsv1.Deployment) { container(d).Env = nil },
		"a container is added": func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "example.org/sidecar:1"})
		},
		"a template label is added": func(d *appsv1.Deployment) { d.Spec.Template.Labels["foreign"] = "1" },
		"arguments are added":       func(d *appsv1.Deployment) { container(d).Args = []string{"--foreign"} },
		"a default is changed":      func(d *appsv1.Deployment) { d.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To(int64(1)) },
		"the strategy is changed": func(d *appsv1.Deployment) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		},
		"a node selector is added":     func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector = map[string]string{"foreign": "1"} },
		"replicas are changed":         func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(int32(9)) },
		"the history limit is changed": func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To(int32(1)) },
	}
	for how, edit := range editors {
		for name, change := range edits {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				p := registered(t)
				p.content("content", p.deploymentManifest("app", "{}"))
				p.mr("mr", "content")
				p.awaitApplied("mr")
				right := read(p, p.deployment("app"))

				d := p.deployment("app")
				edit(p, d, func() { change(d) })
				p.Expect(d.Spec).NotTo(Equal(right.Spec), "the edit makes a difference")
				p.Eventually(func() *appsv1.Deployment { return read(p, p.deployment("app")) }).Should(
					SatisfyAll(HaveField("UID", right.UID), HaveField("Spec", right.Spec)), func() string { return hub.Log.About(p.ns) })
			})
		}
	}
}

// Another applier that insists gets into a contest; one that applied once does not keep what it added.
func TestMR24_PayloadOfAnotherApplierIsTakenBack(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.deploymentManifest("app", "{}"))
	p.mr("mr", "content")
	p.awaitApplied("mr")
	right := read(p, p.deployment("app"))

	foreign := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":"app"},
"spec":{"paused":true,"template":{"spec":{"containers":[{"name":"app","env":[{"name":"FOREIGN","value":"1"},{"name":"MODE","value":"wild"}]}]}}}}`, p.ns)
	d := p.deployment("app")
	p.Expect(target.Client.Patch(p.ctx, d, client.RawPatch(types.ApplyPatchType, []byte(foreign)), client.FieldOwner("applier"), client.ForceOwnership)).To(Succeed())
	p.Expect(d.Spec.Template.Spec.Containers[0].Env).To(HaveLen(2))
	p.Eventually(func() *appsv1.Deployment { return read(p, p.deployment("app")) }).Should(
		SatisfyAll(HaveField("UID", right.UID), HaveField("Spec", right.Spec)), func() string { return hub.Log.About(p.ns) })
	p.Eventually(p.events).Should(ContainElement(SatisfyAll(HavePrefix("Normal DriftCorrected: "),
		ContainSubstring("applier"), ContainSubstring("FOREIGN"))))
}

func TestMR24_MR35_DeletedObjectsAreCreatedAgain(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "2"),
		p.deploymentManifest("app", "{}"))
	p.mr("mr", "content")
	p.awaitApplied("mr")
	for _, obj := range []client.Object{p.configMap("one"), p.deployment("app")} {
		read(p, obj)
		uid := obj.GetUID()
		p.Expect(target.Client.Delete(p.ctx, obj, client.PropagationPolicy("Background"))).To(Succeed())
		p.Eventually(func(g Gomega) {
			g.Expect(target.Client.Get(p.ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
			g.Expect(obj.GetUID()).NotTo(Equal(uid))
		}).Should(Succeed(), func() string { return hub.Log.About(p.ns) })
		p.Eventually(func() []resourcesv1alpha1.ObjectReference { return p.get("mr").Status.Resources }).Should(ContainElement(HaveField("UID", obj.GetUID())))
		p.Eventually(p.events).Should(ContainElement(SatisfyAll(HavePrefix("Normal DriftCorrected: "),
			ContainSubstring(obj.GetName()), ContainSubstring("deleted"), ContainSubstring("created again"))))
	}
}

// An object of another client that takes the place of a deleted one becomes ours, as on the first apply.
func TestMR24_ReplacedObjectIsAdopted(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "true")
	p.await("mr", has(applied, yes, resourcesv1alpha1.ReasonManagedResourceIgnored))
	p.Expect(target.Client.Delete(p.ctx, p.configMap("one"))).To(Succeed())
	stranger := p.configMap("one")
	stranger.Data = map[string]string{"foreign": "1"}
	p.inTarget(stranger)
	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		delete(mr.Annotations, resourcesv1alpha1.IgnoreAnnotation)
	})
	p.Eventually(func() *corev1.ConfigMap { return read(p, p.configMap("one")) }).Should(SatisfyAll(
		HaveField("UID", stranger.UID), HaveField("Data", Equal(map[string]string{"key": "1"}))))
	p.await("mr", has(ready, yes, ""), HaveField("Status.Resources", ConsistOf(HaveField("UID", stranger.UID))))
}

// A Secret's stringData is not stored as it is; a key that leaves it must leave the Secret.
func TestMR24_SecretsWithStringData(t *testing.T) {
	t.Parallel()
	p := registered(t)
	manifest := func(data string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"one"},"stringData":%s}`, p.ns, data)
	}
	live := func() map[string][]byte {
		s := &corev1.Secret{}
		p.Expect(target.Client.Get(p.ctx, types.NamespacedName{Namespace: p.ns, Name: "one"}, s)).To(Succeed())
		return s.Data
	}
	p.content("content", manifest(`{"a":"1","b":"2"}`))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.content("content", manifest(`{"a":"3"}`))
	p.Eventually(live).Should(Equal(map[string][]byte{"a": []byte("3")}))
	s := &corev1.Secret{}
	s.Namespace, s.Name = p.ns, "one"
	p.edit(target, s, func() { s.Data = map[string][]byte{"a": []byte("by hand"), "c": []byte("4")} })
	p.Eventually(live).Should(Equal(map[string][]byte{"a": []byte("3")}))
}

// What others add beside the payload is theirs.
func TestForeignMetadataStays(t *testing.T) {
	t.Parallel()
	for how, edit := range editors {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
			p.mr("mr", "content")
			p.awaitReady("mr")
			cm := p.configMap("one")
			edit(p, cm, func() {
				cm.Labels["foreign"], cm.Annotations["foreign"] = "1", "1"
				cm.Finalizers = []string{blocker}
				cm.Data["key"] = "by hand"
			})
			p.awaitValue("one", "1")
			p.content("content", testbed.ConfigMap(p.ns, "one", "2"))
			p.awaitValue("one", "2")
			p.operation("mr", resourcesv1alpha1.OperationReconcile)
			p.Eventually(func() map[string]string { return p.get("mr").Annotations }).ShouldNot(HaveKey(resourcesv1alpha1.OperationAnnotation))
			p.awaitReady("mr")
			live := read(p, p.configMap("one"))
			p.Expect(live.Labels).To(HaveKeyWithValue("foreign", "1"))
			p.Expect(live.Annotations).To(HaveKeyWithValue("foreign", "1"))
			p.Expect(live.Finalizers).To(ConsistOf(blocker))
			p.unblock(live)
		})
	}
}

// MR-24: the operation annotation has everything applied although nothing changed.
func TestMR24_OperationReconcileAppliesAll(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "2"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	patches := func() []string {
		return p.requests(target, func(e controlplane.AuditEntry) bool {
			return p.inNamespace(e) && e.Verb == "patch" && e.Resource == "configmaps"
		})
	}
	p.Expect(patches()).To(HaveLen(2))
	p.operation("mr", resourcesv1alpha1.OperationReconcile)
	p.Eventually(patches).Should(HaveLen(4))
	p.awaitReady("mr")
	p.Expect(p.get("mr").Annotations).NotTo(HaveKey(resourcesv1alpha1.OperationAnnotation))
}

func TestX11_W10_OwnWritesEchoForFree(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), p.deploymentManifest("app", "{}"), p.crd("Namespaced"),
		p.plant("rose", fmt.Sprintf(`,"namespace":%q`, p.ns), 1),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":%q,"name":"svc"},"spec":{"type":"NodePort","selector":{"app":"app"},"ports":[{"port":80}]}}`, p.ns),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":%q,"name":"sa"}}`, p.ns),
		fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"namespace":%q,"name":"cron"},"spec":{"schedule":"* * * * *","suspend":true,"jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"example.org/c:1"}]}}}}}}`, p.ns),
		fmt.Sprintf(`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":%q,"name":"np"},"spec":{"podSelector":{}}}`, p.ns),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"sec"},"stringData":{"a":"1"}}`, p.ns))
	p.mr("mr", "content")
	p.awaitApplied("mr")
	p.fence() // its objects come through the same watches, so the echoes are through when it is ready

	objects := func(e controlplane.AuditEntry) bool {
		return p.inNamespace(e) && e.Verb != "watch" && e.Verb != "list" && e.Name != "" && (e.Resource != "configmaps" || e.Name == "one")
	}
	first := p.requests(target, objects)
	p.Expect(first).To(HaveLen(9), "one request for each object of the namespace, and a look at the Service whose node port would have to stay")
	p.fence()
	p.Expect(p.requests(target, objects)).To(Equal(first))

	// A change of one object is one read of its Secret in the source and one request to each object here; nothing follows.
	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Labels = map[string]string{"some": "label"} })
	p.fence()
	p.Expect(p.requests(target, objects)).To(Equal(first))
}

func TestX12_RestartedAtSurvives(t *testing.T) {
	t.Parallel()
	restarts := map[string]editor{
		"by strategic merge patch": editors["by strategic merge patch"],
		"by update":                editors["by update"],
		"by apply": func(p place, obj client.Object, _ func()) {
			raw := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":"app"},"spec":{"template":{"metadata":{"annotations":{%q:"now"}}}}}`, p.ns, resourcesv1alpha1.RestartedAtAnnotation)
			p.Expect(target.Client.Patch(p.ctx, obj, client.RawPatch(types.ApplyPatchType, []byte(raw)),
				client.FieldOwner("other-client"))).To(Succeed())
		},
	}
	for how, edit := range restarts {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", p.deploymentManifest("app", "{}"))
			p.mr("mr", "content")
			p.awaitApplied("mr")
			d := p.deployment("app")
			edit(p, d, func() {
				d.Spec.Template.Annotations = map[string]string{resourcesv1alpha1.RestartedAtAnnotation: "now"}
			})
			live := read(p, p.deployment("app"))
			p.Expect(live.Spec.Template.Annotations).To(HaveKeyWithValue(resourcesv1alpha1.RestartedAtAnnotation, "now"))

			p.fence()
			p.operation("mr", resourcesv1alpha1.OperationReconcile)
			p.Eventually(func() map[string]string { return p.get("mr").Annotations }).ShouldNot(HaveKey(resourcesv1alpha1.OperationAnnotation))
			p.edit(target, d, func() { d.Spec.Template.Spec.Containers[0].Image = "example.org/other:1" })
			p.Eventually(func() string { return read(p, p.deployment("app")).Spec.Template.Spec.Containers[0].Image }).Should(Equal("example.org/app:1"))
			p.awaitApplied("mr")
			p.Expect(read(p, p.deployment("app")).Spec.Template.Annotations).To(Equal(map[string]string{resourcesv1alpha1.RestartedAtAnnotation: "now"}))
		})
	}
}

// object parses a manifest.
func (p place) object(manifest string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	p.Expect(u.UnmarshalJSON([]byte(manifest))).To(Succeed())
	return u
}

// A source that is busy delays no correction: what was applied is known.
func TestDriftIsCorrectedWithoutReadingTheSecretAgain(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "right"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	reads := func() int {
		return len(p.requests(source, func(e controlplane.AuditEntry) bool {
			return e.Namespace == p.ns && e.Resource == "secrets" && e.Verb == "get" && e.Name == "content"
		}))
	}
	value := func() string { return read(p, p.configMap("one")).Data["key"] }
	disturb := func() {
		cm := p.configMap("one")
		p.edit(target, cm, func() { cm.Data["key"] = "wrong" })
	}
	p.Eventually(reads).ShouldNot(BeZero())
	before := reads()
	for range 3 {
		disturb()
		p.Eventually(value).Should(Equal("right"))
	}
	p.awaitReady("mr")
	p.fence()
	p.Expect(reads()).To(Equal(before))

	// What was applied then is not what counts any longer.
	p.content("content", testbed.ConfigMap(p.ns, "one", "other"))
	p.Eventually(value).Should(Equal("other"))
	disturb()
	p.Eventually(value).Should(Equal("other"))
	p.Expect(reads()).To(BeNumerically(">", before))
}
