package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestMR05_OldObjectBlockedByFinalizer(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), p.blocked("stuck"))
	p.mr("mr", "content")
	p.awaitReady("mr")

	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := p.await("mr",
		has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "v1/ConfigMap/"+p.ns+"/stuck", blocker),
		has(healthy, unknown, resourcesv1alpha1.ReasonChecksPending),
		has(progressing, unknown, resourcesv1alpha1.ReasonChecksPending),
		has(ready, no, resourcesv1alpha1.ReasonDeletionPending))
	p.Expect(mr.Status.Resources).To(ConsistOf(HaveField("Name", "one"), HaveField("Name", "stuck")))
	p.Expect(read(p, p.configMap("stuck")).DeletionTimestamp).NotTo(BeNil())

	p.unblock(p.configMap("stuck"))
	mr = p.awaitReady("mr")
	p.Expect(mr.Status.Resources).To(ConsistOf(HaveField("Name", "one")))
	p.expectAbsent(p.configMap("stuck"))
}

func TestX04_StuckOldObjectDoesNotBlockNewContent(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), p.blocked("stuck"))
	p.mr("mr", "content")
	p.awaitReady("mr")

	p.content("content", testbed.ConfigMap(p.ns, "one", "2"), testbed.ConfigMap(p.ns, "two", "2"))
	p.awaitValue("one", "2")
	p.awaitValue("two", "2")
	p.content("content", testbed.ConfigMap(p.ns, "one", "3"))
	p.awaitValue("one", "3")
	p.awaitAbsent(p.configMap("two"))
	p.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "stuck"))
	p.unblock(p.configMap("stuck"))
	p.awaitReady("mr")
}

// An object that is wanted again while it is still going away comes back once it is gone.
func TestX04_StuckOldObjectThatIsWantedAgainIsCreatedAgain(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "stuck", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	stuck := p.configMap("stuck")
	p.edit(target, stuck, func() { stuck.Finalizers = []string{blocker} })
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "stuck"))

	p.content("content", testbed.ConfigMap(p.ns, "one", "2"), testbed.ConfigMap(p.ns, "stuck", "2"))
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "stuck", "is being deleted"))
	p.awaitValue("one", "2")
	p.unblock(p.configMap("stuck"))
	p.awaitValue("stuck", "2")
	p.awaitReady("mr")
	p.Expect(read(p, p.configMap("stuck")).UID).NotTo(Equal(stuck.UID))
}

func TestMR10_DeletionWaitsForForeignFinalizer(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), p.blocked("stuck"))
	p.mr("mr", "content")
	p.awaitReady("mr")

	p.deleteMR("mr")
	mr := p.await("mr",
		has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "v1/ConfigMap/"+p.ns+"/stuck", blocker),
		has(healthy, no, resourcesv1alpha1.ReasonDeletionPending),
		has(progressing, yes, resourcesv1alpha1.ReasonDeletionPending))
	p.Expect(mr.DeletionTimestamp).NotTo(BeNil())
	p.awaitAbsent(p.configMap("one"))

	p.unblock(p.configMap("stuck"))
	p.awaitGone("mr")
	p.expectAbsent(p.configMap("stuck"))
}

func TestMR26_WorkloadsAreDeletedInTheForeground(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), p.deploymentManifest("app", "{}"))
	p.mr("mr", "content")
	p.awaitApplied("mr")

	p.deleteMR("mr")
	p.awaitAbsent(p.configMap("one"))
	p.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "apps/v1/Deployment/"+p.ns+"/app", metav1.FinalizerDeleteDependents))
	p.Expect(read(p, p.deployment("app"))).To(SatisfyAll(
		HaveField("DeletionTimestamp", Not(BeNil())), HaveField("Finalizers", ConsistOf(metav1.FinalizerDeleteDependents))))
	p.unblock(p.deployment("app")) // what a garbage collector does
	p.awaitGone("mr")
}

func TestMR17_KeepObjectSurvivesRemovalAndDeletion(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.configMapWith("one", `{"annotations":{"resources.gardener.cloud/keep-object":"true"}}`),
		testbed.ConfigMap(p.ns, "two", "2"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	uid := read(p, p.configMap("one")).UID

	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.SecretRefs = mr.Spec.SecretRefs[:0] })
	mr := p.awaitReady("mr")
	p.Expect(mr.Status.Resources).To(BeEmpty())
	p.expectAbsent(p.configMap("two"))
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))

	p.deleteMR("mr")
	p.awaitGone("mr")
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
}

func TestMR17_KeepObjectSurvivesDeletionWhileListed(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.configMapWith("one", `{"annotations":{"resources.gardener.cloud/keep-object":"1"}}`),
		testbed.ConfigMap(p.ns, "two", "2"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.deleteMR("mr")
	p.awaitGone("mr")
	p.expectAbsent(p.configMap("two"))
	p.Expect(read(p, p.configMap("one")).DeletionTimestamp).To(BeNil())
}

func TestMR17_KeepObjectsKeepsAllOnDeletionButNotOnRemoval(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "2"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.KeepObjects = ptr.To(true)
	p.inSource(mr)
	p.awaitReady("mr")

	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.awaitAbsent(p.configMap("two"))
	p.awaitReady("mr")

	p.deleteMR("mr")
	p.awaitGone("mr")
	p.Expect(read(p, p.configMap("one"))).To(SatisfyAll(
		HaveField("DeletionTimestamp", BeNil()),
		HaveField("Annotations", HaveKeyWithValue(resourcesv1alpha1.OriginAnnotation, p.ns+"/mr"))))
}

// invalidConfigMap is one that the API server refuses because of its name.
func invalidConfigMap(p place) string { return testbed.ConfigMap(p.ns, "Not_A_Name", "1") }

func TestX03_BUG03_HalfFailedFirstApplyLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), invalidConfigMap(p), testbed.ConfigMap(p.ns, "two", "2"))
	p.mr("mr", "content")
	mr := p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "error during apply of object", "Not_A_Name", "is invalid:"))
	p.awaitValue("one", "1")
	p.awaitValue("two", "2")
	p.Expect(mr.Status.ObservedGeneration).To(BeZero())

	p.deleteMR("mr")
	p.awaitGone("mr")
	p.expectAbsent(p.configMap("one"))
	p.expectAbsent(p.configMap("two"))
}

func TestBUG03_ObjectOfAFailedRunIsDeletedWhenItIsDropped(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), invalidConfigMap(p))
	p.mr("mr", "content")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed))
	p.awaitValue("one", "1")
	p.content("content", testbed.ConfigMap(p.ns, "two", "2"), invalidConfigMap(p))
	p.awaitAbsent(p.configMap("one"))
	p.awaitValue("two", "2")
}

// Before the first write to the target, the inventory names everything.
func TestBUG03_InventoryIsWrittenAhead(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "2"))
	p.mr("mr", "content")
	seen := p.history("mr")
	p.inSource(testbed.Registration(p.ns, "a", target.Kubeconfig()))
	p.awaitReady("mr")
	p.Eventually(seen.versions).Should(ContainElement(SatisfyAll(
		reset(),
		HaveField("Status.Resources", ConsistOf(
			SatisfyAll(HaveField("Name", "one"), HaveField("UID", BeEmpty())),
			SatisfyAll(HaveField("Name", "two"), HaveField("UID", BeEmpty())))))))
}

func TestX05_BUG06_ObjectOfAnotherManagedResourceIsNotDeleted(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(p place){
		"the first one is deleted": func(p place) { p.deleteMR("first"); p.awaitGone("first") },
		"the first one drops it": func(p place) {
			p.content("first", testbed.ConfigMap(p.ns, "two", "2"))
			p.await("first", has(ready, yes, ""), HaveField("Status.Resources", ConsistOf(HaveField("Name", "two"))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("first", testbed.ConfigMap(p.ns, "one", "1"))
			p.content("second", testbed.ConfigMap(p.ns, "one", "1"))
			p.mr("first", "first")
			p.awaitReady("first")
			uid := read(p, p.configMap("one")).UID
			p.mr("second", "second")
			p.await("second", HaveField("Status.Resources", ConsistOf(HaveField("UID", uid))))

			give(p)
			p.awaitReady("second")
			p.Eventually(func() map[string]string { return read(p, p.configMap("one")).Annotations }).
				Should(HaveKeyWithValue(resourcesv1alpha1.OriginAnnotation, p.ns+"/second"))
			p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
		})
	}
}

// While a ManagedResource is ignored, another client may replace its objects. Its deletion must notice that.
func TestBUG06_StrangersAreNotDeleted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		makeStrange func(p place)
		stays       bool
	}{
		"the object has another origin": {stays: true, makeStrange: func(p place) {
			cm := p.configMap("one")
			p.edit(target, cm, func() { cm.Annotations[resourcesv1alpha1.OriginAnnotation] = "elsewhere/other" })
		}},
		"another object has its name": {stays: true, makeStrange: func(p place) {
			p.Expect(target.Client.Delete(p.ctx, p.configMap("one"))).To(Succeed())
			p.inTarget(p.configMap("one"))
		}},
		"only its content is edited": {makeStrange: func(p place) {
			cm := p.configMap("one")
			p.edit(target, cm, func() { cm.Data["key"] = "by hand"; cm.Labels = nil })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
			p.mr("mr", "content")
			p.awaitReady("mr")
			p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "true")
			p.await("mr", has(applied, yes, resourcesv1alpha1.ReasonManagedResourceIgnored))
			test.makeStrange(p)

			p.deleteMR("mr")
			p.awaitGone("mr")
			err := target.Client.Get(p.ctx, client.ObjectKeyFromObject(p.configMap("one")), p.configMap("one"))
			if test.stays {
				p.Expect(err).NotTo(HaveOccurred())
			} else {
				p.Expect(err).To(Satisfy(apierrors.IsNotFound))
			}
		})
	}
}
