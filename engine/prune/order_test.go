package prune_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// world is a set of objects in the target, by short names, whose names are all the test's own.
type world struct {
	*WithT
	ctx context.Context
	ns  string
	// group is that of the custom resources.
	group string
	refs  map[string]resourcesv1alpha1.ObjectReference
}

// manifests are the objects that tests choose from. NS and GROUP are replaced.
var manifests = map[string]string{
	"webhook":         `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: NS}}`,
	"crd":             `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.GROUP}, spec: {group: GROUP, scope: Namespaced, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`,
	"other crd":       `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: others.GROUP}, spec: {group: GROUP, scope: Cluster, names: {plural: others, kind: Other}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`,
	"thing":           `{apiVersion: GROUP/v1, kind: Thing, metadata: {namespace: NS, name: a}}`,
	"other":           `{apiVersion: GROUP/v1, kind: Other, metadata: {name: a}}`,
	"lease":           `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: NS, name: a}}`,
	"deployment":      `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: NS, name: a}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {serviceAccountName: used, priorityClassName: NS-used, volumes: [{name: a, configMap: {name: used}}, {name: b, projected: {sources: [{secret: {name: projected}}]}}], containers: [{name: a, image: "example.org/a:1", envFrom: [{secretRef: {name: used}}]}]}}}}`,
	"service":         `{apiVersion: v1, kind: Service, metadata: {namespace: NS, name: a}, spec: {ports: [{port: 80}]}}`,
	"account":         `{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: NS, name: used}}`,
	"idle account":    `{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: NS, name: idle}}`,
	"config":          `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: used}}`,
	"idle config":     `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: idle}}`,
	"secret":          `{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: used}}`,
	"projected":       `{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: projected}}`,
	"role":            `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NS}}`,
	"policy":          `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: NS, name: a}, spec: {podSelector: {}}}`,
	"priority":        `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: NS-used}, value: 1}`,
	"idle priority":   `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: NS-idle}, value: 1}`,
	"namespace":       `{apiVersion: v1, kind: Namespace, metadata: {name: NS}}`,
	"empty namespace": `{apiVersion: v1, kind: Namespace, metadata: {name: NS-empty}}`,
}

// newWorld creates objects. Those that are stuck have a finalizer that is never removed.
func newWorld(t *testing.T, objects []string, stuck ...string) *world {
	t.Helper()
	ns := testbed.Namespace(t, nil, cluster)
	w := &world{WithT: NewWithT(t), ctx: context.Background(), ns: ns, group: ns + ".example.com", refs: map[string]resourcesv1alpha1.ObjectReference{}}
	slices.SortFunc(objects, func(a, b string) int { return int(w.stage(a)) - int(w.stage(b)) })
	for _, name := range objects {
		obj := w.object(name)
		obj.SetAnnotations(map[string]string{resourcesv1alpha1.OriginAnnotation: origin})
		if slices.Contains(stuck, name) {
			obj.SetFinalizers([]string{hold})
		}
		w.Eventually(func() error {
			if name == "namespace" { // it is there already
				return cluster.Client.Patch(w.ctx, obj, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, resourcesv1alpha1.OriginAnnotation, origin)))
			}
			return cluster.Client.Create(w.ctx, obj) // its kind may not be served yet
		}).Should(Succeed())
		if obj.GetKind() == "CustomResourceDefinition" {
			testbed.AwaitInstances(t, cluster, obj.GetName())
		}
		w.refs[name] = reference(obj.GetAPIVersion(), obj.GetKind(), obj.GetNamespace(), obj.GetName(), obj.GetUID())
	}
	return w
}

func (w *world) object(name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	w.Expect(manifests).To(HaveKey(name))
	w.Expect(yaml.Unmarshal([]byte(strings.NewReplacer("NS", w.ns, "GROUP", w.group).Replace(manifests[name])), &obj.Object)).To(Succeed())
	return obj
}

func (w *world) stage(name string) inventory.Stage {
	return inventory.StageOf(w.object(name).GroupVersionKind().GroupKind())
}

// prune deletes everything that is left.
func (w *world) prune(p prune.Policy) map[string]prune.Outcome {
	var all []resourcesv1alpha1.ObjectReference
	for _, ref := range w.refs {
		all = append(all, ref)
	}
	out := map[string]prune.Outcome{}
	for _, o := range prune.Objects(w.ctx, access, all, p) {
		for name, ref := range w.refs {
			if inventory.KeyOf(ref) == o.Key {
				out[name] = o
			}
		}
	}
	return out
}

// intact are the objects that were not deleted.
func (w *world) intact() []string {
	var names []string
	for name := range w.refs {
		obj := w.object(name)
		err := cluster.Client.Get(w.ctx, client.ObjectKeyFromObject(obj), obj)
		if meta.IsNoMatchError(err) {
			continue
		}
		w.Expect(client.IgnoreNotFound(err)).To(Succeed())
		if err == nil && obj.GetDeletionTimestamp() == nil {
			names = append(names, name)
		}
	}
	return names
}

func (w *world) unblock(name string) {
	obj := w.object(name)
	err := cluster.Client.Patch(w.ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	w.Expect(client.IgnoreNotFound(err)).To(Succeed())
}

// One stuck object stops only what needs it.
func TestW17_StuckObjectHoldsBackWhatNeedsIt(t *testing.T) {
	all := []string{
		"webhook", "crd", "other crd", "thing", "other", "lease", "deployment", "service", "account", "idle account", "config", "idle config",
		"secret", "projected", "role", "policy", "priority", "idle priority", "namespace", "empty namespace",
	}
	settings := []string{"account", "idle account", "config", "idle config", "secret", "projected", "role", "policy", "priority", "idle priority"}
	for stuck, stay := range map[string][]string{
		"webhook": slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "webhook" }),
		"thing":   slices.Concat(settings, []string{"crd", "deployment", "service", "namespace"}),
		"other":   slices.Concat(settings, []string{"other crd", "deployment", "service", "namespace"}),
		"lease":   {"namespace"},
		// A Deployment is deleted in the foreground, and there is no garbage collector here: it is stuck in any case.
		"deployment":  {"account", "config", "secret", "projected", "role", "policy", "priority", "namespace"},
		"service":     {"namespace"},
		"idle config": {"namespace"},
		"priority":    nil,
	} {
		t.Run(stuck, func(t *testing.T) {
			objects := slices.Clone(all)
			if stuck != "deployment" && !slices.Contains(stay, "deployment") {
				objects = slices.DeleteFunc(objects, func(s string) bool { return s == "deployment" })
			}
			w := newWorld(t, objects, stuck)
			out := w.prune(policy)
			w.Expect(w.intact()).To(ConsistOf(stay))
			waits := "waits for " + inventory.KeyOf(w.refs[stuck]).String()
			for name, o := range out {
				w.Expect(o.Err).NotTo(HaveOccurred())
				switch {
				case slices.Contains(stay, name) && name != "namespace":
					w.Expect(o.Reason).To(Equal(waits), name)
				case slices.Contains(stay, name):
					w.Expect(o.Reason).To(HavePrefix("waits for "))
				case name == stuck:
					w.Expect(o.Reason).To(ContainSubstring(hold))
				}
			}

			// Passes continue until nothing is left but what only a controller manager would finish.
			w.unblock(stuck)
			for range 4 {
				w.prune(policy)
				if slices.Contains(objects, "deployment") {
					w.unblock("deployment")
				}
			}
			w.Expect(w.intact()).To(BeEmpty())
		})
	}
}

// What others have in a namespace or of a kind is theirs, and would go with it.
func TestX05_NamespaceAndDefinitionInUseByOthersWait(t *testing.T) {
	w := newWorld(t, []string{"crd", "other crd", "namespace", "empty namespace"})
	p := policy
	p.HolderIn = func(ns string) string {
		if ns == w.ns {
			return "ManagedResource garden/other"
		}
		return ""
	}
	p.HolderOf = func(gk schema.GroupKind) string {
		if gk == (schema.GroupKind{Group: w.group, Kind: "Thing"}) {
			return "ManagedResource garden/other"
		}
		return ""
	}
	for range 2 {
		out := w.prune(p)
		w.Expect(w.intact()).To(ConsistOf("crd", "namespace"))
		w.Expect(out["namespace"]).To(SatisfyAll(HaveField("Result", prune.Pending), HaveField("Deleted", false),
			HaveField("Reason", "waits for ManagedResource garden/other, which lists objects in it")))
		w.Expect(out["crd"]).To(SatisfyAll(HaveField("Result", prune.Pending), HaveField("Deleted", false),
			HaveField("Reason", "waits for ManagedResource garden/other, which lists objects of kind Thing."+w.group)))
	}
	w.prune(policy)
	w.Expect(w.intact()).To(BeEmpty())
}

// annotate puts an annotation on an object.
func (w *world) annotate(name, key, value string) {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	w.Expect(cluster.Client.Patch(w.ctx, w.object(name), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// An object that stays must not go with its namespace or its definition. Both remain in the inventory, for without its
// entry the next pass would not know of it.
func TestMR17_NamespaceAndDefinitionWaitForWhatIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		key, value, because string
	}{
		"because it asks for it": {resourcesv1alpha1.KeepObjectAnnotation, "true", resourcesv1alpha1.KeepObjectAnnotation},
		"because of another origin": {resourcesv1alpha1.OriginAnnotation, "elsewhere:garden/mr",
			"its origin is elsewhere:garden/mr"},
	} {
		for kept, holds := range map[string][]string{
			"config": {"namespace"}, // beside another object, which goes
			"thing":  {"crd", "namespace"},
			"other":  {"other crd"},
		} {
			t.Run(name+"/"+kept, func(t *testing.T) {
				// The lease is stuck: what is kept must be known when it is the turn of the namespace at last.
				w := newWorld(t, []string{"crd", "other crd", "thing", "other", "lease", "config", "namespace", "empty namespace"}, "lease")
				w.annotate(kept, c.key, c.value)
				for range 2 {
					out := w.prune(policy)
					w.Expect(w.intact()).To(ConsistOf(append([]string{kept, "namespace"}, slices.DeleteFunc(slices.Clone(holds), func(s string) bool { return s == "namespace" })...)))
					w.drop(out)
				}
				w.unblock("lease")
				for range 2 {
					out := w.prune(policy)
					w.Expect(w.intact()).To(ConsistOf(append([]string{kept}, holds...)))
					w.drop(out)
					w.Expect(out[kept]).To(SatisfyAll(HaveField("Result", prune.Pending), HaveField("Deleted", false), HaveField("Reason", ContainSubstring(c.because))))
					for _, held := range holds {
						w.Expect(out[held]).To(SatisfyAll(HaveField("Result", prune.Pending), HaveField("Deleted", false),
							HaveField("Reason", SatisfyAll(ContainSubstring(inventory.KeyOf(w.refs[kept]).String()), ContainSubstring(c.because), ContainSubstring(resourcesv1alpha1.KeepObjectAnnotation+"=true")))), held)
					}
				}
				// The user gives it up.
				w.annotate(kept, resourcesv1alpha1.KeepObjectAnnotation, "false")
				w.annotate(kept, resourcesv1alpha1.OriginAnnotation, origin)
				w.prune(policy)
				w.Expect(w.intact()).To(BeEmpty())
			})
		}
	}
}

// drop forgets what leaves the inventory.
func (w *world) drop(out map[string]prune.Outcome) {
	for name, o := range out {
		if o.Result != prune.Pending {
			delete(w.refs, name)
		}
	}
}

// A user who keeps the namespace, too, has nothing to wait for, and neither has one whose namespace goes already.
func TestMR17_WhatIsKeptHoldsOnlyWhatIsAboutToBeDeleted(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"the namespace is kept, too": func(w *world) { w.annotate("namespace", resourcesv1alpha1.KeepObjectAnnotation, "true") },
		"there is no namespace":      func(w *world) { delete(w.refs, "namespace") },
		"another client deleted the namespace": func(w *world) {
			w.Expect(cluster.Client.Delete(w.ctx, w.object("namespace"))).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []string{"config", "namespace"})
			w.annotate("config", resourcesv1alpha1.KeepObjectAnnotation, "true")
			change(w)
			w.Expect(w.prune(policy)["config"].Result).To(Equal(prune.Kept))
		})
	}
}

// Garbage-collectable objects exist to be deleted, and objects of other clients are deleted with any namespace.
func TestMR19_UnclaimedObjectsAreDeletedWithTheirNamespace(t *testing.T) {
	for name, patch := range map[string]string{
		"a garbage-collectable object": `{"metadata":{"labels":{"` + resourcesv1alpha1.GarbageCollectableReferenceLabel + `":"true"}}}`,
		"an object of another client":  `{"metadata":{"annotations":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []string{"config", "namespace"})
			w.Expect(cluster.Client.Patch(w.ctx, w.object("config"), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
			ref := w.refs["config"]
			if name == "an object of another client" {
				ref.UID = "11111111-1111-1111-1111-111111111111"
			}
			w.refs["config"] = ref
			p := policy
			p.KeepGarbageCollectable = true
			out := w.prune(p)
			w.Expect(out["config"].Result).To(Equal(prune.Kept), out["config"].Reason)
			w.Expect(out["namespace"].Deleted).To(BeTrue(), out["namespace"].Reason)
		})
	}
}

// An object that its manifest asks to release (MR-14) stays, too, and is not in the inventory any longer.
func TestReleasedObjectHoldsItsNamespaceAndItsDefinition(t *testing.T) {
	for released, holds := range map[string][]string{"config": {"namespace"}, "thing": {"crd", "namespace"}, "other": {"other crd"}} {
		t.Run(released, func(t *testing.T) {
			w := newWorld(t, []string{"crd", "other crd", released, "namespace", "empty namespace"})
			p := policy
			ref := w.refs[released]
			p.Released = []resourcesv1alpha1.ObjectReference{ref}
			delete(w.refs, released)
			for range 2 {
				out := w.prune(p)
				w.Expect(w.intact()).To(ConsistOf(holds))
				for _, held := range holds {
					w.Expect(out[held]).To(SatisfyAll(HaveField("Result", prune.Pending), HaveField("Deleted", false),
						HaveField("Reason", SatisfyAll(ContainSubstring(inventory.KeyOf(ref).String()), ContainSubstring(resourcesv1alpha1.ModeAnnotation)))), held)
				}
			}
			w.Expect(cluster.Client.Delete(w.ctx, w.object(released))).To(Succeed())
			w.prune(p)
			w.Expect(w.intact()).To(BeEmpty(), "what is not there holds nothing")
		})
	}
}

// What is kept has nothing to wait for.
func TestX05_NamespaceThatIsKeptDoesNotWait(t *testing.T) {
	w := newWorld(t, []string{"namespace"})
	ns := w.object("namespace")
	w.Expect(cluster.Client.Patch(w.ctx, ns, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"resources.gardener.cloud/keep-object":"true"}}}`)))).To(Succeed())
	p := policy
	p.HolderIn = func(string) string { return "ManagedResource garden/other" }
	w.Expect(w.prune(p)["namespace"].Result).To(Equal(prune.Kept))
}
