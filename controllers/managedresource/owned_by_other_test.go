package managedresource_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// contended has the ConfigMap "one" in two ManagedResources: "first" listed it with the value "1", "last" with "2".
func contended(t *testing.T) place {
	t.Helper()
	p := registered(t)
	p.content("first", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "own", "1"))
	p.mr("first", "first")
	p.awaitReady("first")
	p.content("last", testbed.ConfigMap(p.ns, "one", "2"))
	p.mr("last", "last")
	p.awaitReady("last")
	p.await("first", has(applied, no, resourcesv1alpha1.ReasonOwnedByOther, p.ns+"/last", p.ns+"/one"))
	return p
}

func (p place) expectOrigin(configMap, mr string) {
	p.t.Helper()
	p.Expect(read(p, p.configMap(configMap)).Annotations).To(HaveKeyWithValue(resourcesv1alpha1.OriginAnnotation, p.ns+"/"+mr))
}

func TestObjectOfTwoManagedResourcesIsTheLastOnes(t *testing.T) {
	t.Parallel()
	p := contended(t)
	p.awaitValue("one", "2")
	p.expectOrigin("one", "last")
	p.await("first", has(healthy, yes, ""), has(ready, no, resourcesv1alpha1.ReasonOwnedByOther), observed())
	p.Eventually(p.events).Should(ContainElement(HavePrefix("Warning OwnedByOther: Left some resources to other ManagedResources")))

	// Neither rewrites what the other wrote, whatever else they do.
	uid := read(p, p.configMap("one")).UID
	p.content("first", testbed.ConfigMap(p.ns, "one", "3"), testbed.ConfigMap(p.ns, "own", "2"))
	p.awaitValue("own", "2")
	p.fence()
	p.operation("first", resourcesv1alpha1.OperationReconcile)
	p.fence()
	p.awaitValue("one", "2")
	p.expectOrigin("one", "last")
	p.content("last", testbed.ConfigMap(p.ns, "one", "4"))
	p.awaitValue("one", "4")
	p.fence()
	p.await("first", has(applied, no, resourcesv1alpha1.ReasonOwnedByOther))
	p.expectOrigin("one", "last")

	// The one that has it keeps it right; the one that left it keeps the rest right.
	cm := p.configMap("one")
	p.edit(target, cm, func() { cm.Data["key"] = "by hand" })
	p.awaitValue("one", "4")
	own := p.configMap("own")
	p.edit(target, own, func() { own.Data["key"] = "by hand" })
	p.awaitValue("own", "2")
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))

	quiet := func(e controlplane.AuditEntry) bool {
		return p.writes(e) && e.Resource == "configmaps" && e.Name == "one"
	}
	before := len(p.requests(target, quiet))
	p.fence()
	p.Expect(p.requests(target, quiet)).To(HaveLen(before), "there is no fight")
}

func TestObjectThatItsOwnerGivesUpGoesToTheOtherOne(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(p place){
		"it drops it":   func(p place) { p.content("last", testbed.ConfigMap(p.ns, "two", "2")) },
		"it is deleted": func(p place) { p.deleteMR("last"); p.awaitGone("last") },
		"it is deleted and keeps its objects": func(p place) {
			p.editMR("last", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = new(true) })
			p.deleteMR("last")
			p.awaitGone("last")
		},
		"it goes to another class": func(p place) {
			p.editMR("last", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = ptr.To("other") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := contended(t)
			uid := read(p, p.configMap("one")).UID
			give(p)
			p.awaitValue("one", "1")
			p.awaitReady("first")
			p.expectOrigin("one", "first")
			p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid), "it was never deleted")
		})
	}
}

func TestManagedResourceThatLeftAnObjectToAnotherOneDoesNotDeleteIt(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(p place){
		"it drops it":   func(p place) { p.content("first", testbed.ConfigMap(p.ns, "own", "1")); p.awaitReady("first") },
		"it is deleted": func(p place) { p.deleteMR("first"); p.awaitGone("first") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := contended(t)
			uid := read(p, p.configMap("one")).UID
			give(p)
			p.fence()
			live := read(p, p.configMap("one"))
			p.Expect(live.UID).To(Equal(uid))
			p.Expect(live.Data).To(HaveKeyWithValue("key", "2"))
			p.expectOrigin("one", "last")
			p.deleteMR("last")
			p.awaitGone("last")
			p.expectAbsent(p.configMap("one"))
		})
	}
}

// If another client deletes an object that both list, its owner creates it again, as it was.
func TestSharedObjectThatIsDeletedComesBackAsItsOwnersOne(t *testing.T) {
	t.Parallel()
	p := contended(t)
	p.Expect(target.Client.Delete(p.ctx, p.configMap("one"))).To(Succeed())
	p.awaitValue("one", "2")
	p.fence()
	p.awaitValue("one", "2")
	p.expectOrigin("one", "last")
	p.await("first", has(applied, no, resourcesv1alpha1.ReasonOwnedByOther))
}

// Its owner is ignored and cannot create it again: then the other one does.
func TestSharedObjectWhoseOwnerIsIgnoredIsBroughtBackByTheOther(t *testing.T) {
	t.Parallel()
	p := contended(t)
	p.annotateMR("last", resourcesv1alpha1.IgnoreAnnotation, "true")
	p.await("last", has(applied, yes, resourcesv1alpha1.ReasonManagedResourceIgnored))
	deleted := time.Now()
	p.Expect(target.Client.Delete(p.ctx, p.configMap("one"))).To(Succeed())
	p.operation("first", resourcesv1alpha1.OperationReconcile) // an apply of everything does not take it sooner
	p.awaitValue("one", "1")
	p.awaitReady("first")
	p.Expect(read(p, p.configMap("one")).CreationTimestamp.Time).To(BeTemporally(">", deleted.Add(8*time.Second)), "its owner has time")
}

func TestMovingAnObjectBetweenManagedResources(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("from", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "1"))
	p.mr("from", "from")
	p.content("to", testbed.ConfigMap(p.ns, "three", "1"))
	p.mr("to", "to")
	p.awaitReady("from")
	p.awaitReady("to")
	// It may be deleted and created again, if the first change is seen alone. In the end it is there.
	p.content("from", testbed.ConfigMap(p.ns, "two", "1"))
	p.content("to", testbed.ConfigMap(p.ns, "three", "1"), testbed.ConfigMap(p.ns, "one", "2"))
	p.awaitValue("one", "2")
	p.await("from", has(ready, yes, ""), HaveField("Status.Resources", ConsistOf(HaveField("Name", "two"))))
	p.awaitReady("to")
	p.expectOrigin("one", "to")
}

// Both change at the same moment: what they list comes from one Secret. Neither may leave the objects to the other.
func TestObjectsThatTwoManagedResourcesGiveUpAtOnceAreDeleted(t *testing.T) {
	t.Parallel()
	p := registered(t)
	var all []string
	for i := range 8 {
		all = append(all, testbed.ConfigMap(p.ns, fmt.Sprintf("shared-%d", i), "1"))
	}
	p.content("both", append(all, testbed.ConfigMap(p.ns, "left", "1"))...)
	for _, name := range []string{"a", "b", "c"} {
		p.mr(name, "both")
	}
	p.Eventually(func(g Gomega) {
		var uids int
		for _, name := range []string{"a", "b", "c"} {
			for _, ref := range p.get(name).Status.Resources {
				if ref.UID != "" {
					uids++
				}
			}
		}
		g.Expect(uids).To(Equal(3 * 9))
	}).Should(Succeed())
	p.fence()
	p.content("both", testbed.ConfigMap(p.ns, "left", "1"))
	for _, name := range []string{"a", "b", "c"} {
		p.Eventually(func() int { return len(p.get(name).Status.Resources) }).Should(Equal(1))
	}
	p.fence()
	for i := range all {
		p.expectAbsent(p.configMap(fmt.Sprintf("shared-%d", i)))
	}
	p.Expect(read(p, p.configMap("left")).Data).To(HaveKeyWithValue("key", "1"))
}
