package managedresource_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The hub comes back by itself when the grace is over; nothing else happens then.
func TestMR18_StuckObjectGoesWhenItsGraceIsOver(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(p place){
		"dropped":                  func(p place) { p.content("content", testbed.ConfigMap(p.ns, "one", "1")) },
		"with its ManagedResource": func(p place) { p.deleteMR("mr") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			stuck := func(name, after string) string {
				return p.configMapWith(name, fmt.Sprintf(`{"finalizers":[%q],"annotations":{%q:%q}}`, blocker, resourcesv1alpha1.FinalizeDeletionAfterAnnotation, after))
			}
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"), stuck("soon", "10s"), stuck("later", "1h"),
				stuck("never", "0"), stuck("wrong", "soon"))
			p.mr("mr", "content")
			p.awaitReady("mr")
			remove(p)
			p.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending,
				"v1/ConfigMap/"+p.ns+"/soon", "v1/ConfigMap/"+p.ns+"/later", "v1/ConfigMap/"+p.ns+"/never", "v1/ConfigMap/"+p.ns+"/wrong", `is no duration: "soon"`))
			gone := read(p, p.configMap("soon")).DeletionTimestamp
			p.awaitAbsent(p.configMap("soon"))
			p.Expect(time.Now()).To(BeTemporally(">=", gone.Add(10*time.Second)))
			for _, name := range []string{"later", "never", "wrong"} {
				p.Expect(read(p, p.configMap(name)).Finalizers).To(ConsistOf(blocker))
				p.unblock(p.configMap(name))
			}
			if name == "dropped" {
				p.awaitReady("mr")
			} else {
				p.awaitGone("mr")
			}
		})
	}
}

func TestMR19_GarbageCollectableObjects(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(p place){
		"dropped": func(p place) {
			p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.SecretRefs = mr.Spec.SecretRefs[:0] })
			p.Expect(p.awaitReady("mr").Status.Resources).To(BeEmpty())
		},
		"with its ManagedResource": func(p place) { p.deleteMR("mr"); p.awaitGone("mr") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			labels := fmt.Sprintf(`"labels":{%q:"true"}`, resourcesv1alpha1.GarbageCollectableReferenceLabel)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.ns}}
			p.content("content", p.configMapWith("collectable", "{"+labels+"}"), testbed.ConfigMap(p.ns, "plain", "1"),
				fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,%s}}`, node.Name, labels),
				fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"collectable",%s}}`, p.ns, labels))
			p.mr("mr", "content")
			p.awaitApplied("mr")
			remove(p)
			p.Expect(read(p, p.configMap("collectable")).DeletionTimestamp).To(BeNil())
			p.Expect(read(p, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "collectable"}}).DeletionTimestamp).To(BeNil())
			p.expectAbsent(p.configMap("plain"))
			p.expectAbsent(node)
		})
	}
}

func TestX07_BUG05_ClaimsGoWithTheirStatefulSetIfThatIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]bool{"asked for": true, "not asked for": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", fmt.Sprintf(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {namespace: %s, name: db}, spec: {
selector: {matchExpressions: [{key: app, operator: In, values: [db]}]},
template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: "example.org/db:1"}]}},
volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}`, p.ns))
			mr := testbed.ManagedResource(p.ns, "mr", "content")
			mr.Spec.DeletePersistentVolumeClaims = ptr.To(asked)
			p.inSource(mr)
			p.awaitApplied("mr")
			claim := func(name, app string) *corev1.PersistentVolumeClaim {
				return &corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name, Labels: map[string]string{"app": app}},
					Spec: corev1.PersistentVolumeClaimSpec{
						AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
					},
				}
			}
			p.inTarget(claim("data-db-0", "db"), claim("data-db-1", "db"), claim("data-db-2", "other"), claim("mine", "db"))
			p.deleteMR("mr")
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "db"}}
			p.Eventually(func() *metav1.Time { return read(p, set).DeletionTimestamp }).ShouldNot(BeNil())
			list := &corev1.PersistentVolumeClaimList{}
			p.Expect(target.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
			going := map[string]bool{}
			for _, c := range list.Items {
				going[c.Name] = c.DeletionTimestamp != nil
			}
			p.Expect(going).To(HaveKeyWithValue("mine", false))
			p.Expect(going).To(HaveKeyWithValue("data-db-2", false))
			p.Expect(going["data-db-0"] || !hasKey(going, "data-db-0")).To(Equal(asked))
			p.Expect(going["data-db-1"] || !hasKey(going, "data-db-1")).To(Equal(asked))
			p.unblock(set) // what a garbage collector does
			p.awaitGone("mr")
		})
	}
}

func hasKey(m map[string]bool, key string) bool {
	_, ok := m[key]
	return ok
}

// A namespace and a definition are not deleted while another ManagedResource has objects in them: those would go, too.
func TestX05_WhatOthersHaveObjectsInWaits(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(p place){
		"dropped":                  func(p place) { p.content("first", testbed.ConfigMap(p.ns, "plain", "1")) },
		"with its ManagedResource": func(p place) { p.deleteMR("first") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			group := p.ns + ".example.com"
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things." + group}}
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.ns + "-more"}}
			p.content("first", testbed.ConfigMap(p.ns, "plain", "1"),
				fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, ns.Name),
				strings.ReplaceAll(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.GROUP}, spec: {group: GROUP, scope: Cluster,
names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`, "GROUP", group))
			p.mr("first", "first")
			p.awaitReady("first")
			p.content("second", testbed.ConfigMap(ns.Name, "theirs", "1"),
				fmt.Sprintf(`{apiVersion: %s/v1, kind: Thing, metadata: {name: theirs}}`, group))
			p.mr("second", "second")
			p.awaitReady("second")

			remove(p)
			p.await("first", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "waits for ManagedResource "+p.ns+"/second",
				"apiextensions.k8s.io/v1/CustomResourceDefinition//things."+group, "v1/Namespace//"+ns.Name))
			p.fence()
			p.Expect(read(p, crd).DeletionTimestamp).To(BeNil())
			p.Expect(read(p, ns).DeletionTimestamp).To(BeNil())
			p.Expect(p.get("second")).To(has(ready, yes, ""))

			p.deleteMR("second")
			p.awaitGone("second")
			p.awaitAbsent(crd)
			p.Eventually(func() *metav1.Time { return read(p, ns).DeletionTimestamp }).ShouldNot(BeNil()) // nothing ends it
		})
	}
}

// A bundle that drops a namespace and keeps what is in it says two things at once. The one that loses nothing counts.
func TestNamespaceInWhichSomethingIsToStayWaits(t *testing.T) {
	t.Parallel()
	p := registered(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.ns + "-more"}}
	manifest := fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, ns.Name)
	p.content("content", manifest, testbed.ConfigMap(ns.Name, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.content("content", testbed.ConfigMap(ns.Name, "one", "2"))
	p.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "waits for this ManagedResource, which lists objects in it"))
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "one"}}
	p.Expect(read(p, cm).Data).To(HaveKeyWithValue("key", "2"))
	p.Expect(read(p, ns).DeletionTimestamp).To(BeNil())
	p.content("content", manifest, testbed.ConfigMap(ns.Name, "one", "2"))
	p.awaitReady("mr")
}
