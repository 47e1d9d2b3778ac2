package writers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const (
	// blocker is a finalizer that only the test removes.
	blocker = "test.trellis/blocker"
	// nudged is a label of every manifest, which tests disturb to have the hub look at an object.
	nudged, steady = "test.trellis/nudged", "never"
)

// place is where a test works: a namespace of its own in the source and in the target, which is registered there.
type place struct {
	*WithT
	t   *testing.T
	ctx context.Context
	ns  string
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{WithT: NewWithT(t), t: t, ctx: context.Background(), ns: testbed.Namespace(t, nil, source, target)}
	t.Cleanup(p.abandon)
	p.Expect(source.Client.Create(p.ctx, testbed.Registration(p.ns, "a", target.Kubeconfig()))).To(Succeed())
	return p
}

// abandon leaves nothing for the hub to work on: what is in the target stays.
func (p place) abandon() {
	if p.t.Failed() {
		for _, mr := range p.all() {
			p.t.Logf("%s: %+v", mr.Name, mr.Status.Conditions)
		}
		p.t.Logf("log of the hub about it:\n%s", hub.Log.About(p.ns))
	}
	for _, mr := range p.all() {
		if mr.DeletionTimestamp == nil {
			mr.Spec.KeepObjects = new(true)
			p.Expect(client.IgnoreNotFound(source.Client.Patch(p.ctx, &mr, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"keepObjects":true}}`))))).To(Succeed())
		}
	}
	p.Expect(source.Client.DeleteAllOf(p.ctx, &resourcesv1alpha1.ManagedResource{}, client.InNamespace(p.ns))).To(Succeed())
	if !p.t.Failed() {
		p.Eventually(p.all).Should(BeEmpty())
	}
	p.Expect(source.Client.DeleteAllOf(p.ctx, &corev1.Secret{}, client.InNamespace(p.ns))).To(Succeed())
}

// dismiss deletes a ManagedResource with all it keeps. Tests do that whose objects would disturb others: while an
// aggregated API does not answer, no namespace can be deleted.
func (p place) dismiss(name string) {
	p.t.Helper()
	for _, ref := range p.mr(name).Status.Resources {
		if ref.Kind == "CustomResourceDefinition" {
			testbed.AwaitInstances(p.t, target, ref.Name)
		}
	}
	p.Expect(source.Client.Delete(p.ctx, testbed.ManagedResource(p.ns, name))).To(Succeed())
	p.Eventually(p.all).Should(BeEmpty())
}

func (p place) all() []resourcesv1alpha1.ManagedResource {
	list := &resourcesv1alpha1.ManagedResourceList{}
	p.Expect(source.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
	return list.Items
}

// objects parses YAML documents in which $ns stands for the namespace of the test. All get the label for nudges.
func (p place) objects(documents string) (out []*unstructured.Unstructured) {
	p.t.Helper()
	for document := range strings.SplitSeq(strings.ReplaceAll(documents, "$ns", p.ns), "\n---\n") {
		obj := &unstructured.Unstructured{}
		p.Expect(yaml.Unmarshal([]byte(document), &obj.Object)).To(Succeed(), document)
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[nudged] = steady
		obj.SetLabels(labels)
		out = append(out, obj)
	}
	return out
}

// manage has objects kept by a ManagedResource, new or not. change is applied to it.
func (p place) manage(name string, objects []*unstructured.Unstructured, change ...func(*resourcesv1alpha1.ManagedResource)) {
	p.t.Helper()
	var manifests []string
	for _, obj := range objects {
		raw, err := json.Marshal(obj.Object)
		p.Expect(err).NotTo(HaveOccurred())
		manifests = append(manifests, string(raw))
	}
	content := testbed.Content(p.ns, name, "objects.yaml", manifests...)
	if err := source.Client.Create(p.ctx, content); apierrors.IsAlreadyExists(err) {
		p.Expect(source.Client.Update(p.ctx, content)).To(Succeed())
	} else {
		p.Expect(err).NotTo(HaveOccurred())
	}
	mr := testbed.ManagedResource(p.ns, name, name)
	for _, c := range change {
		c(mr)
	}
	if err := source.Client.Create(p.ctx, mr); !apierrors.IsAlreadyExists(err) {
		p.Expect(err).NotTo(HaveOccurred())
	}
}

// mr reads a ManagedResource.
func (p place) mr(name string) *resourcesv1alpha1.ManagedResource {
	p.t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	p.Expect(source.Client.Get(p.ctx, types.NamespacedName{Namespace: p.ns, Name: name}, mr)).To(Succeed())
	return mr
}

// condition renders one as status/reason.
func condition(mr *resourcesv1alpha1.ManagedResource, t resourcesv1alpha1.ConditionType) string {
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, t)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s/%s", c.Status, c.Reason)
}

func appliedCondition(mr *resourcesv1alpha1.ManagedResource) string {
	return condition(mr, resourcesv1alpha1.ConditionResourcesApplied)
}

// awaitApplied waits until the present generation is applied.
func (p place) awaitApplied(name string) {
	p.t.Helper()
	p.Eventually(func(g Gomega) {
		mr := p.mr(name)
		c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
		g.Expect(appliedCondition(mr)).To(Equal("True/ApplySucceeded"), "%+v", c)
		g.Expect(mr.Status.ObservedGeneration).To(Equal(mr.Generation))
	}).Should(Succeed(), func() string { return hub.Log.About(p.ns) })
}

// awaitReady waits until it is applied, healthy and rolled out.
func (p place) awaitReady(name string) {
	p.t.Helper()
	p.awaitApplied(name)
	p.Eventually(func() string { return condition(p.mr(name), resourcesv1alpha1.ConditionReady) }).Should(Equal("True/Ready"),
		func() string { return fmt.Sprintf("%+v", p.mr(name).Status.Conditions) })
}

// reapply has everything of a ManagedResource applied although nothing changed, and waits until that is done.
func (p place) reapply(name string) {
	p.t.Helper()
	raw := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, resourcesv1alpha1.OperationAnnotation, resourcesv1alpha1.OperationReconcile)
	p.Expect(source.Client.Patch(p.ctx, testbed.ManagedResource(p.ns, name), client.RawPatch(
		types.MergePatchType, []byte(raw)))).To(Succeed())
	p.Eventually(func() map[string]string { return p.mr(name).Annotations }).ShouldNot(HaveKey(resourcesv1alpha1.OperationAnnotation))
}

// create creates objects in the target as a given user.
func (p place) create(objects ...*unstructured.Unstructured) {
	p.t.Helper()
	for _, obj := range objects {
		p.Expect(target.Client.Create(p.ctx, obj.DeepCopy(), client.FieldOwner("another-client"))).To(Succeed(),
			obj.GetName())
	}
}

// live reads an object of the target.
func (p place) live(obj *unstructured.Unstructured) *unstructured.Unstructured {
	p.t.Helper()
	out, err := p.get(obj)
	p.Expect(err).NotTo(HaveOccurred())
	return out
}

func (p place) get(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(obj.GroupVersionKind())
	return out, target.Client.Get(p.ctx, client.ObjectKeyFromObject(obj), out)
}

// value reads one field of an object of the target.
func (p place) value(obj *unstructured.Unstructured, path string) any {
	p.t.Helper()
	return at(p.live(obj).Object, path)
}

// mergePatch patches an object of the target as a given user.
func (p place) mergePatch(obj *unstructured.Unstructured, manager, patch string) {
	p.t.Helper()
	p.Expect(target.Client.Patch(p.ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager))).To(Succeed())
}

// update reads an object of the target, changes it and writes it back, and retries on conflicts.
func (p place) update(obj *unstructured.Unstructured, manager string, change func(content map[string]any)) *unstructured.Unstructured {
	p.t.Helper()
	var live *unstructured.Unstructured
	p.Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		if live, err = p.get(obj); err != nil {
			return err
		}
		change(live.Object)
		return target.Client.Update(p.ctx, live, client.FieldOwner(manager))
	})).To(Succeed())
	return live
}

// nudge disturbs the label of an object and waits until the hub has put it right: it has seen all that was written
// before.
func (p place) nudge(obj *unstructured.Unstructured) {
	p.t.Helper()
	p.mergePatch(obj, "nudger", fmt.Sprintf(`{"metadata":{"labels":{%q:"now"}}}`, nudged))
	p.Eventually(func() string { return p.live(obj).GetLabels()[nudged] }).Should(Equal(steady), func() string { return hub.Log.About(p.ns) })
}

// writes lists what the hub wrote to an object so far.
func (p place) writes(obj *unstructured.Unstructured) []string {
	p.t.Helper()
	mapping, err := target.Client.RESTMapper().RESTMapping(obj.GroupVersionKind().GroupKind(), obj.GroupVersionKind().Version)
	p.Expect(err).NotTo(HaveOccurred())
	out := []string{}
	for _, e := range p.audit() {
		if isWrite(e) && e.Code < 300 && e.APIGroup == mapping.Resource.Group && e.Resource == mapping.Resource.Resource &&
			(e.Namespace == obj.GetNamespace() || e.Resource == "namespaces") && e.Name == obj.GetName() {
			out = append(out, e.String())
		}
	}
	return out
}

// awaitPatches waits until the audit log holds as many patches of an object by the hub, and no more updates of it than
// there may be: one goes before a patch that may bring another manifest. The log holds them a moment after they were
// answered; more than wanted never become less.
func (p place) awaitPatches(obj *unstructured.Unstructured, patches, updates int) {
	p.t.Helper()
	of := func(verb string) (out []string) {
		for _, write := range p.writes(obj) {
			if strings.HasPrefix(write, verb+" ") {
				out = append(out, write)
			}
		}
		return out
	}
	p.Eventually(func() []string { return of("patch") }).WithPolling(500*time.Millisecond).Should(HaveLen(patches),
		func() string { return hub.Log.About(p.ns) })
	p.Expect(len(of("update"))).To(BeNumerically("<=", updates), "%v", p.writes(obj))
	p.Expect(p.writes(obj)).To(HaveLen(patches + len(of("update"))))
}

// audit lists what the hub asked of the target.
func (p place) audit() []controlplane.AuditEntry {
	p.t.Helper()
	entries, err := target.AuditEntries()
	p.Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(entries, func(e controlplane.AuditEntry) bool { return e.UserAgent != "trellis" })
}

func isWrite(e controlplane.AuditEntry) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// corrections are the events about drift of the namespace's ManagedResources.
func (p place) corrections() (out []string) {
	p.t.Helper()
	list := &eventsv1.EventList{}
	p.Expect(source.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
	for _, e := range list.Items {
		if e.Reason == "DriftCorrected" {
			out = append(out, e.Note)
		}
	}
	return out
}

// managers lists who wrote to an object.
func managers(obj metav1.Object) []string {
	found := map[string]bool{}
	for _, e := range obj.GetManagedFields() {
		found[e.Manager] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// at returns the value at a path of names and positions; \. stands for a dot in a name.
func at(value any, path string) any {
	const escaped = "\x00"
	for part := range strings.SplitSeq(strings.ReplaceAll(path, `\.`, escaped), ".") {
		part = strings.ReplaceAll(part, escaped, ".")
		switch v := value.(type) {
		case map[string]any:
			value = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// put sets the value at a path of names and positions, all but the last of which exist or are names.
func put(content map[string]any, path string, value any) {
	parts := strings.Split(path, ".")
	var node any = content
	for i, part := range parts {
		switch v := node.(type) {
		case map[string]any:
			if i == len(parts)-1 {
				v[part] = value
				return
			}
			if v[part] == nil {
				v[part] = map[string]any{}
			}
			node = v[part]
		case []any:
			position, err := strconv.Atoi(part)
			if err != nil || position >= len(v) {
				panic("no such item: " + path)
			}
			node = v[position]
		default:
			panic("no such place: " + path)
		}
	}
}

// pods lists the UIDs of all pods of the namespace in the target.
func (p place) pods() []types.UID {
	p.t.Helper()
	list := &corev1.PodList{}
	p.Expect(target.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
	uids := []types.UID{}
	for _, pod := range list.Items {
		uids = append(uids, pod.UID)
	}
	slices.Sort(uids)
	return uids
}

// running lists the UIDs of the pods that run.
func (p place) running() []types.UID {
	p.t.Helper()
	list := &corev1.PodList{}
	p.Expect(target.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
	uids := []types.UID{}
	for _, pod := range list.Items {
		if pod.Status.Phase == corev1.PodRunning {
			uids = append(uids, pod.UID)
		}
	}
	return uids
}
