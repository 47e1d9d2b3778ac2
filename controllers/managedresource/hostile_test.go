package managedresource_test

import (
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// uidOfTarget is the UID of the cluster that all places register.
func (p place) uidOfTarget() types.UID {
	system := &corev1.Namespace{}
	p.Expect(target.Client.Get(p.ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system)).To(Succeed())
	return system.UID
}

// claims are the ways in which a hostile namespace says that its ManagedResources are bound to where those of a victim
// are. Each registers what it needs, and returns what the mark says.
func claims() map[string]func(victim, hostile place) (mark string) {
	return map[string]func(victim, hostile place) string{
		"by annotation and status alone": func(victim, _ place) string { return string(victim.uidOfTarget()) },
		"by the literal form of what is not bound": func(victim, _ place) string {
			return "unbound/" + victim.ns + "/" + resourcesv1alpha1.FinalizerBase
		},
		"by a server that claims the UID": func(victim, hostile place) string {
			impostor, err := testbed.StartImpostor(target.RESTConfig())
			victim.Expect(err).NotTo(HaveOccurred())
			victim.t.Cleanup(impostor.Stop)
			impostor.Claim(victim.uidOfTarget())
			hostile.inSource(testbed.Registration(hostile.ns, "a", impostor.Kubeconfig))
			hostile.awaitTarget("a", hubv1alpha1.ConditionConnected, metav1.ConditionTrue, hubv1alpha1.ReasonConnected)
			return string(victim.uidOfTarget())
		},
		"by the address of the victim without an account there": func(victim, hostile place) string {
			impostor, err := testbed.StartImpostor(target.RESTConfig())
			victim.Expect(err).NotTo(HaveOccurred())
			impostor.Stop()
			hostile.inSource(testbed.Registration(hostile.ns, "a", impostor.Intruder))
			hostile.awaitTarget("a", hubv1alpha1.ConditionConnected, metav1.ConditionFalse, "")
			hostile.Eventually(func() error { // the hub writes it, too
				tc := hostile.targetCluster("a")
				tc.Status.ClusterUID = victim.uidOfTarget()
				return source.Client.Status().Update(hostile.ctx, tc)
			}).Should(Succeed())
			return string(victim.uidOfTarget())
		},
	}
}

// forge has a hostile ManagedResource list objects where the mark says. It is ignored, so that the hub leaves its
// status.
func (p place) forge(mark string, refs ...resourcesv1alpha1.ObjectReference) {
	p.t.Helper()
	mr := testbed.ManagedResource(p.ns, "hostile", "none")
	mr.Finalizers = []string{blocker, resourcesv1alpha1.FinalizerBase}
	mr.Annotations = map[string]string{
		hubv1alpha1.TargetUIDAnnotation: mark, resourcesv1alpha1.IgnoreAnnotation: "true",
		resourcesv1alpha1.OriginAnnotation: p.ns + "/hostile",
	}
	p.inSource(mr)
	p.Eventually(func() error {
		now := p.get("hostile")
		now.Status.Resources = refs
		return source.Client.Status().Update(p.ctx, now)
	}).Should(Succeed())
}

func ref(apiVersion, kind, namespace, name string, uid types.UID) resourcesv1alpha1.ObjectReference {
	return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
		APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name, UID: uid,
	}}
}

// expectNoNames looks through all that the hub says in a place.
func (p place) expectNoNames(of place) {
	p.t.Helper()
	texts := p.events()
	for _, mr := range p.all() {
		raw, err := json.Marshal(mr.Status.Conditions)
		p.Expect(err).NotTo(HaveOccurred())
		texts = append(texts, string(raw))
	}
	list := &hubv1alpha1.TargetClusterList{}
	p.Expect(source.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
	for _, tc := range list.Items {
		raw, err := json.Marshal(tc.Status.Conditions)
		p.Expect(err).NotTo(HaveOccurred())
		texts = append(texts, string(raw))
	}
	p.Expect(texts).NotTo(ContainElement(ContainSubstring(of.ns)))
}

// What a hostile namespace says of itself neither keeps what a victim removes, nor its Namespaces and definitions, nor
// does it show in the victim's namespace; and nothing of the victim shows in the hostile one.
func TestForgedBindingsDecideNothing(t *testing.T) {
	t.Parallel()
	for name, claim := range claims() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			victim := registered(t)
			hostile := unregistered(t, nil)
			group := victim.ns + ".example.com"
			extra := victim.ns + "-extra"
			definition := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",`+
				`"metadata":{"name":"things.%[1]s"},"spec":{"group":"%[1]s","scope":"Namespaced",`+
				`"names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},`+
				`"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":`+
				`{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, group)
			namespace := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, extra)
			victim.content("mr", testbed.ConfigMap(victim.ns, "one", "1"), testbed.ConfigMap(victim.ns, "two", "1"),
				namespace, definition)
			victim.mr("mr", "mr")
			victim.awaitReady("mr")
			one := read(victim, victim.configMap("one"))
			hostile.forge(claim(victim, hostile),
				ref("v1", "ConfigMap", victim.ns, "one", one.UID), ref("v1", "ConfigMap", extra, "any", ""),
				ref(group+"/v1", "Thing", extra, "any", ""))
			victim.fence() // the hub has seen that

			testbed.AwaitInstances(t, target, "things."+group)
			victim.content("mr", testbed.ConfigMap(victim.ns, "two", "2"))
			victim.awaitAbsent(one)
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things." + group}}
			victim.awaitAbsent(crd)
			victim.Eventually(func() (*metav1.Time, error) { // no controller finishes Namespaces here
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: extra}}
				err := target.Client.Get(victim.ctx, client.ObjectKeyFromObject(ns), ns)
				return ns.DeletionTimestamp, err
			}).ShouldNot(BeNil())
			victim.expectNoNames(hostile)
			hostile.expectNoNames(victim)
		})
	}
}

// An object that the victim writes is not left to a hostile namespace, whatever its origin says.
func TestForgedBindingOwnsNothing(t *testing.T) {
	t.Parallel()
	victim := registered(t)
	hostile := unregistered(t, nil)
	victim.content("mr", testbed.ConfigMap(victim.ns, "one", "1"))
	victim.mr("mr", "mr")
	victim.awaitReady("mr")
	one := read(victim, victim.configMap("one"))
	hostile.forge(string(victim.uidOfTarget()), ref("v1", "ConfigMap", victim.ns, "one", one.UID))
	victim.fence()

	victim.edit(target, one, func() { one.Annotations[resourcesv1alpha1.OriginAnnotation] = hostile.ns + "/hostile" })
	victim.Eventually(func() string {
		return read(victim, one).Annotations[resourcesv1alpha1.OriginAnnotation]
	}).Should(Equal(victim.ns + "/mr"))
	victim.content("mr", testbed.ConfigMap(victim.ns, "one", "2"))
	victim.awaitValue("one", "2")
	victim.await("mr", has(ready, yes, ""))
	victim.deleteMR("mr")
	victim.awaitGone("mr")
	victim.expectAbsent(victim.configMap("one"))
}

// Two namespaces that register one server, each with an account there, share what they list as two ManagedResources of
// one namespace do. Neither gets the name of the other but by the origins in their cluster.
func TestNamespacesThatRegisterOneServerShareObjects(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(last place){
		"the last one drops it": func(last place) {
			last.content("mr", testbed.ConfigMap(last.ns, "own", "2"))
			last.awaitReady("mr")
		},
		"the last one is deleted": func(last place) { last.deleteMR("mr"); last.awaitGone("mr") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, last := registered(t), registered(t)
			first.content("mr", testbed.ConfigMap(first.ns, "one", "1"))
			first.mr("mr", "mr")
			first.awaitReady("mr")
			last.content("mr", testbed.ConfigMap(first.ns, "one", "2"))
			last.mr("mr", "mr")
			last.awaitReady("mr")
			first.await("mr", has(applied, no, resourcesv1alpha1.ReasonOwnedByOther))
			uid := read(first, first.configMap("one")).UID

			give(last)
			first.awaitValue("one", "1")
			first.awaitReady("mr")
			first.Expect(read(first, first.configMap("one")).UID).To(Equal(uid), "it was never deleted")
		})
	}
}

// A Namespace of which another namespace still has objects in the same cluster waits, and does not say whose they are.
func TestHoldersOfOtherNamespacesAreNotNamed(t *testing.T) {
	t.Parallel()
	owner, other := registered(t), registered(t)
	extra := owner.ns + "-extra"
	namespace := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, extra)
	owner.content("mr", namespace)
	owner.mr("mr", "mr")
	owner.awaitReady("mr")
	other.content("mr", testbed.ConfigMap(extra, "one", "1"))
	other.mr("mr", "mr")
	other.awaitReady("mr")
	owner.deleteMR("mr")
	owner.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending,
		"a ManagedResource of another namespace"))
	owner.expectNoNames(other)
	other.deleteMR("mr")
	other.awaitGone("mr")
	owner.Eventually(func() (*metav1.Time, error) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: extra}}
		err := target.Client.Get(owner.ctx, client.ObjectKeyFromObject(ns), ns)
		return ns.DeletionTimestamp, err
	}).ShouldNot(BeNil())
}
