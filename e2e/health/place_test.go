package health

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const (
	applied     = resourcesv1alpha1.ConditionResourcesApplied
	healthy     = resourcesv1alpha1.ConditionResourcesHealthy
	progressing = resourcesv1alpha1.ConditionResourcesProgressing
	ready       = resourcesv1alpha1.ConditionReady

	isHealthy   = "True/ResourcesHealthy"
	isRolledOut = "False/ResourcesRolledOut"
	isReady     = "True/Ready"
)

// place is where a test works: a namespace of its own in the source and in a target, which is registered there.
type place struct {
	*WithT
	t      *testing.T
	ctx    context.Context
	ns     string
	target *testbed.Cluster
}

// newPlace is a place in east.
func newPlace(t *testing.T) place {
	t.Helper()
	return newPlaceIn(t, east, east.Kubeconfig())
}

// newPlaceIn is a place in a target that the hub reaches by a kubeconfig.
func newPlaceIn(t *testing.T, target *testbed.Cluster, kubeconfig []byte) place {
	t.Helper()
	p := place{WithT: NewWithT(t), t: t, ctx: context.Background(), ns: testbed.Namespace(t, nil, source, target),
		target: target}
	t.Cleanup(p.abandon)
	p.Expect(source.Client.Create(p.ctx, testbed.Registration(p.ns, "a", kubeconfig))).To(Succeed())
	p.Eventually(func() error { // without it no pod can be made
		return target.Client.Get(p.ctx, types.NamespacedName{Namespace: p.ns, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed())
	return p
}

// abandon leaves nothing for the hub to work on: what is in the target stays.
func (p place) abandon() {
	list := &resourcesv1alpha1.ManagedResourceList{}
	p.Expect(source.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
	for i := range list.Items {
		mr := &list.Items[i]
		if p.t.Failed() {
			p.t.Logf("history of %s:\n%s", mr.Name, history(seen.Of(client.ObjectKeyFromObject(mr))))
		}
		if mr.DeletionTimestamp == nil {
			p.Expect(client.IgnoreNotFound(source.Client.Patch(p.ctx, mr, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"keepObjects":true}}`))))).To(Succeed())
		}
	}
	if p.t.Failed() {
		p.t.Logf("log of the hub about it:\n%s", hub.Log.About(p.ns))
	}
	p.Expect(source.Client.DeleteAllOf(p.ctx, &resourcesv1alpha1.ManagedResource{}, client.InNamespace(p.ns))).To(Succeed())
	if !p.t.Failed() {
		p.Eventually(func() int {
			p.Expect(source.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
			return len(list.Items)
		}).Should(BeZero())
	}
	p.Expect(source.Client.DeleteAllOf(p.ctx, &corev1.Secret{}, client.InNamespace(p.ns))).To(Succeed())
}

// objects parses YAML documents in which $ns stands for the namespace of the test.
func (p place) objects(documents string) (out []*unstructured.Unstructured) {
	p.t.Helper()
	for document := range strings.SplitSeq(strings.ReplaceAll(documents, "$ns", p.ns), "\n---\n") {
		obj := &unstructured.Unstructured{}
		p.Expect(yaml.Unmarshal([]byte(document), &obj.Object)).To(Succeed(), document)
		out = append(out, obj)
	}
	return out
}

// manage has objects kept by a ManagedResource, new or not, whose Secret has its name.
func (p place) manage(name, documents string) []*unstructured.Unstructured {
	p.t.Helper()
	objects := p.objects(documents)
	p.content(name, objects)
	if err := source.Client.Create(p.ctx, testbed.ManagedResource(p.ns, name, name)); !apierrors.IsAlreadyExists(err) {
		p.Expect(err).NotTo(HaveOccurred())
	}
	return objects
}

// content makes or changes a Secret.
func (p place) content(name string, objects []*unstructured.Unstructured) {
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

func message(mr *resourcesv1alpha1.ManagedResource, t resourcesv1alpha1.ConditionType) string {
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, t)
	if c == nil {
		return ""
	}
	return c.Message
}

// await waits until a ManagedResource is applied as it is written now, with these conditions of health and progress,
// and returns it.
func (p place) await(name string, health, progress any) *resourcesv1alpha1.ManagedResource {
	p.t.Helper()
	var mr *resourcesv1alpha1.ManagedResource
	p.Eventually(func(g Gomega) {
		mr = p.mr(name)
		g.Expect(condition(mr, applied)).To(Equal("True/ApplySucceeded"))
		g.Expect(mr.Status.ObservedGeneration).To(Equal(mr.Generation))
		g.Expect(condition(mr, healthy)).To(match(health))
		g.Expect(condition(mr, progressing)).To(match(progress))
	}).Should(Succeed(), func() string { return history(seen.Of(types.NamespacedName{Namespace: p.ns, Name: name})) })
	return mr
}

func match(want any) OmegaMatcher {
	if matcher, ok := want.(OmegaMatcher); ok {
		return matcher
	}
	return Equal(want)
}

// awaitReady waits until a ManagedResource is applied, healthy and rolled out.
func (p place) awaitReady(name string) *resourcesv1alpha1.ManagedResource {
	p.t.Helper()
	mr := p.await(name, isHealthy, isRolledOut)
	p.Expect(condition(mr, ready)).To(Equal(isReady))
	return mr
}

// awaitMessage waits until a condition has a status and reason, and a message that fits.
func (p place) awaitMessage(name string, t resourcesv1alpha1.ConditionType, want string, fits OmegaMatcher) {
	p.t.Helper()
	p.Eventually(func(g Gomega) {
		mr := p.mr(name)
		g.Expect(condition(mr, t)).To(Equal(want), message(mr, t))
		g.Expect(message(mr, t)).To(fits)
	}).Should(Succeed(), func() string { return history(seen.Of(types.NamespacedName{Namespace: p.ns, Name: name})) })
}

// live reads an object of the target.
func (p place) live(obj *unstructured.Unstructured) *unstructured.Unstructured {
	p.t.Helper()
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(obj.GroupVersionKind())
	p.Expect(p.target.Client.Get(p.ctx, client.ObjectKeyFromObject(obj), out)).To(Succeed())
	return out
}

// number reads a number of an object, 0 if there is none.
func number(obj *unstructured.Unstructured, path ...string) int {
	n, _, _ := unstructured.NestedInt64(obj.Object, path...)
	return int(n)
}

// patch writes to an object of the target as another client.
func (p place) patch(obj *unstructured.Unstructured, patch string) {
	p.t.Helper()
	p.Expect(p.target.Client.Patch(p.ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)),
		client.FieldOwner("another-client"))).To(Succeed())
}

// patchStatus writes the status of an object of the target as its controller.
func (p place) patchStatus(obj *unstructured.Unstructured, patch string) {
	p.t.Helper()
	p.Expect(p.tryPatchStatus(obj, patch)).To(Succeed())
}

func (p place) tryPatchStatus(obj *unstructured.Unstructured, patch string) error {
	return p.target.Client.Status().Patch(p.ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("controller"))
}
