package apply_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/engine/apply"
)

// runMarked applies one manifest with marks of its own, after the entry of an earlier one.
func runMarked(t *testing.T, m apply.Marks, text string, before *apply.Prepared, change func(in *apply.Intent)) (apply.Outcome, *apply.Prepared) {
	t.Helper()
	p, err := apply.Prepare(t.Context(), manifest(t, text), nil, access.Mapper, nil, m)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	if before != nil {
		p.Base = apply.BaseOf(&before.Entry)
	}
	if change != nil {
		change(&p.Intent)
	}
	return applier.Run(t.Context(), access, []apply.Intent{p.Intent}, nil)[0], &p
}

func forced() apply.Marks {
	m := marks
	m.ForceLabels, m.ForceAnnotations = true, true
	return m
}

// change patches an object as another writer.
func change(t *testing.T, obj *unstructured.Unstructured, manager, patch string) {
	t.Helper()
	NewWithT(t).Expect(cluster.Client.Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager))).To(Succeed())
}

// Turning force on sends every object again, each in its own way.
func TestForceIsAPartOfTheDigest(t *testing.T) {
	g := NewWithT(t)
	digests := map[uint64]bool{}
	for _, force := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		m := marks
		m.ForceLabels, m.ForceAnnotations = force[0], force[1]
		p, err := apply.Prepare(t.Context(), manifest(t, configMap("ns", "a", "1")), nil, mapper(), nil, m)
		g.Expect(err).NotTo(HaveOccurred())
		digests[p.Digest] = true
	}
	g.Expect(digests).To(HaveLen(4))
}

func withMetadata(ns, labels, annotations string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: " + ns + ", name: a, labels: {" + labels + "}, annotations: {" + annotations + "}}\ndata: {k: v}\n"
}

// MR-28 for objects that another client wrote: what they were to have is known from the inventory only.
func TestMR28ThreeWayWithoutOwnership(t *testing.T) {
	for name, c := range map[string]struct {
		live, now string
		base      apply.Base
		want      map[string]string
	}{
		"once managed and unchanged": {live: "a: '1', b: '1'", base: apply.Base{Labels: map[string]string{"a": "1", "b": "1"}, Annotations: map[string]string{"a": "1", "b": "1"}}, now: "a: '1'", want: map[string]string{"a": "1"}},
		"once managed and changed":   {live: "b: '2'", base: apply.Base{Labels: map[string]string{"b": "1"}, Annotations: map[string]string{"b": "1"}}, now: "a: '1'", want: map[string]string{"a": "1", "b": "2"}},
		"never managed":              {live: "b: '1'", now: "a: '1'", want: map[string]string{"a": "1", "b": "1"}},
		"changed and still managed":  {live: "a: '2'", base: apply.Base{Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"a": "1"}}, now: "a: '1'", want: map[string]string{"a": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			foreign := manifest(t, withMetadata(ns, c.live, c.live))
			g.Expect(cluster.Client.Create(t.Context(), foreign, client.FieldOwner("gardener-resource-manager"))).To(Succeed())
			out, _ := runMarked(t, marks, withMetadata(ns, c.now, c.now), nil, func(in *apply.Intent) { in.Base = c.base })
			g.Expect(out.Err).NotTo(HaveOccurred())
			obj := live(t, foreign)
			g.Expect(out.ResourceVersion).To(Equal(obj.GetResourceVersion()))
			g.Expect(without(obj.GetLabels())).To(Equal(c.want))
			g.Expect(without(obj.GetAnnotations())).To(Equal(c.want))
			again, _ := runMarked(t, marks, withMetadata(ns, c.now, c.now), nil, func(in *apply.Intent) { in.Base = c.base })
			g.Expect(again.State).To(Equal(out.State))
			g.Expect(again.ResourceVersion).To(Equal(out.ResourceVersion))
		})
	}
}

// without removes our marks.
func without(values map[string]string) map[string]string {
	for _, k := range []string{"managed-by", "origin", "description"} {
		delete(values, "resources.gardener.cloud/"+k)
	}
	return values
}

func TestMR28ThreeWayOfOurOwn(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	first, before := runMarked(t, marks, withMetadata(ns, "a: '1', b: '1', c: '1'", "a: '1', b: '1', c: '1'"), nil, nil)
	g.Expect(first.Err).NotTo(HaveOccurred())
	change(t, before.Object, "someone", `{"metadata":{"labels":{"b":"2","theirs":"1"},"annotations":{"b":"2","theirs":"1"}}}`)
	out, _ := runMarked(t, marks, withMetadata(ns, "a: '1'", "a: '1'"), before, nil)
	g.Expect(out.Err).NotTo(HaveOccurred())
	want := map[string]string{"a": "1", "b": "2", "theirs": "1"}
	g.Expect(without(live(t, before.Object).GetLabels())).To(Equal(want))
	g.Expect(without(live(t, before.Object).GetAnnotations())).To(Equal(want))
}

func TestMR28Force(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	text := withMetadata(ns, "a: '1'", "a: '1'")
	_, before := runMarked(t, marks, text, nil, nil)
	change(t, before.Object, "someone", `{"metadata":{"labels":{"theirs":"1","x/y":"1"},"annotations":{"theirs":"1","x~y":null,"x/y":"1"}}}`)
	change(t, before.Object, "kube-controller-manager", `{"metadata":{"annotations":{"revision":"1"}}}`)
	out, forcedIntent := runMarked(t, forced(), text, before, nil)
	g.Expect(out.Err).NotTo(HaveOccurred())
	g.Expect(forcedIntent.Digest).NotTo(Equal(before.Digest), "turning it on sends everything again")
	obj := live(t, before.Object)
	g.Expect(obj.GetLabels()).To(Equal(map[string]string{"a": "1", "resources.gardener.cloud/managed-by": "gardener"}))
	g.Expect(obj.GetAnnotations()).To(HaveLen(4))
	g.Expect(without(obj.GetAnnotations())).To(Equal(map[string]string{"a": "1", "revision": "1"}))
	g.Expect(out.State.Labels).To(BeZero())
	g.Expect(out.State.Annotations).To(BeZero())
}

// What the API server itself puts on an object must not be fought over.
func TestForceLeavesWhatTheServerAdds(t *testing.T) {
	for name, text := range map[string]func(ns string) string{
		"a Namespace": func(ns string) string { return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + ns + "-x}\n" },
		"a DaemonSet": func(ns string) string {
			return "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {namespace: " + ns + ", name: a}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}}\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, p := runMarked(t, forced(), text(namespace(t)), nil, nil)
			g.Expect(out.Err).NotTo(HaveOccurred())
			again, _ := runMarked(t, forced(), text(p.Key.Namespace), p, func(in *apply.Intent) { in.Object, in.Key = p.Object, p.Key })
			g.Expect(again.Err).NotTo(HaveOccurred())
			g.Expect(again.ResourceVersion).To(Equal(out.ResourceVersion))
			g.Expect(again.State).To(Equal(out.State))
			g.Expect(out.State.Annotations).To(BeZero())
		})
	}
}

func TestMR28StaleReferencesGo(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	text := withMetadata(ns, "", "reference.resources.gardener.cloud/secret-1: wanted")
	_, before := runMarked(t, marks, text, nil, nil)
	change(t, before.Object, "someone", `{"metadata":{"annotations":{"reference.resources.gardener.cloud/secret-2":"stale","other":"1"}}}`)
	out, _ := runMarked(t, marks, text, before, nil)
	g.Expect(out.Err).NotTo(HaveOccurred())
	g.Expect(without(live(t, before.Object).GetAnnotations())).To(Equal(map[string]string{
		"reference.resources.gardener.cloud/secret-1": "wanted", "other": "1",
	}))
}

func TestMR29AnnotationsOfLoadBalancersSurviveForce(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	text := "apiVersion: v1\nkind: Service\nmetadata: {namespace: " + ns + ", name: a}\nspec: {ports: [{port: 80}]}\n"
	_, before := runMarked(t, forced(), text, nil, nil)
	change(t, before.Object, "ccm", `{"metadata":{"annotations":{"loadbalancer.openstack.org/id":"1","other":"1"}}}`)
	_, _ = runMarked(t, forced(), text, before, nil)
	g.Expect(without(live(t, before.Object).GetAnnotations())).To(Equal(map[string]string{"loadbalancer.openstack.org/id": "1"}))
}

func TestMR27OwnerReferencesAreExactlyTheManifests(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	owner := manifest(t, configMap(ns, "owner", "1"))
	other := manifest(t, configMap(ns, "other", "1"))
	for _, o := range []*unstructured.Unstructured{owner, other} {
		g.Expect(cluster.Client.Create(t.Context(), o)).To(Succeed())
	}
	plain := configMap(ns, "a", "1")
	withOwner := "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: " + ns + ", name: a, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: " + string(owner.GetUID()) + "}]}\ndata: {key: '1'}\n"
	refTo := func(o *unstructured.Unstructured) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.GetName(), UID: o.GetUID()}
	}
	foreign := func(t *testing.T, obj *unstructured.Unstructured) {
		obj.SetOwnerReferences(append(obj.GetOwnerReferences(), refTo(other)))
		NewWithT(t).Expect(cluster.Client.Update(t.Context(), obj, client.FieldOwner("someone"))).To(Succeed())
	}
	g.Expect(run1(t, plain).Err).NotTo(HaveOccurred())
	obj := live(t, manifest(t, plain))
	was := owned(t, obj)
	foreign(t, obj)
	out := run1(t, plain)
	g.Expect(out.Err).NotTo(HaveOccurred())
	g.Expect(owned(t, obj)).To(Equal(was))
	g.Expect(live(t, obj).GetOwnerReferences()).To(BeEmpty(), "the manifest has none")

	g.Expect(run1(t, withOwner).Err).NotTo(HaveOccurred())
	was = owned(t, obj)
	foreign(t, live(t, obj))
	out = run1(t, withOwner)
	g.Expect(out.Err).NotTo(HaveOccurred())
	g.Expect(owned(t, obj)).To(Equal(was))
	g.Expect(live(t, obj).GetOwnerReferences()).To(ConsistOf(refTo(owner)))

	g.Expect(run1(t, plain).Err).NotTo(HaveOccurred())
	g.Expect(live(t, obj).GetOwnerReferences()).To(BeEmpty())
}
