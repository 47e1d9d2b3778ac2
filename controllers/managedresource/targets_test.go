package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func (p place) unregister(name string) {
	p.t.Helper()
	p.Expect(source.Client.Delete(p.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name + "-kubeconfig"}})).To(Succeed())
}

func (p place) awaitTargetClusterGone(name string) {
	p.t.Helper()
	p.Eventually(func() string { return p.targetCluster(name).Name }).Should(BeEmpty(), func() string { return hub.Log.About(p.ns) })
}

func TestTwoRegistrationsAreAmbiguous(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		resolve func(p place)
	}{
		"a label picks one": {resolve: func(p place) {
			p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) {
				mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: "b"}
			})
		}},
		"one goes": {resolve: func(p place) { p.unregister("a") }},
		"one is for another class": {resolve: func(p place) {
			s := testbed.Registration(p.ns, "a", nil)
			p.edit(source, s, func() { s.Labels[hubv1alpha1.ClassLabel] = "planned" })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.register("b", target.Kubeconfig())
			p.awaitTarget("a", hubv1alpha1.ConditionConnected, metav1.ConditionTrue, hubv1alpha1.ReasonConnected)
			p.awaitTarget("b", hubv1alpha1.ConditionConnected, metav1.ConditionTrue, hubv1alpha1.ReasonConnected)
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
			p.mr("mr", "content")
			const reason = resourcesv1alpha1.ReasonTargetAmbiguous
			p.await("mr", has(applied, no, reason, p.ns, "a, b", hubv1alpha1.ClusterNameLabel), has(healthy, unknown, reason), has(progressing, unknown, reason), has(ready, no, reason))
			p.fence()
			p.expectAbsent(p.configMap("one"))
			p.Expect(p.get("mr").Finalizers).To(BeEmpty())

			test.resolve(p)
			p.awaitReady("mr")
			p.awaitValue("one", "1")
		})
	}
}

// A second registration does not take away what the first one got.
func TestSecondRegistrationLaterDeletesNothing(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	uid := read(p, p.configMap("one")).UID
	p.register("b", target.Kubeconfig())
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonTargetAmbiguous, "a, b"))
	p.fence()
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
	p.unregister("b")
	p.awaitReady("mr")
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
}

func TestLabelThatPicksNothing(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.pick("mr", "a")
	p.awaitReady("mr")
	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Labels[hubv1alpha1.ClusterNameLabel] = "c" })
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonTargetNotFound, `"c"`, "c-kubeconfig", hubv1alpha1.ClusterNameLabel+"=c"))
	p.awaitValue("mr", "1")
	p.register("c", target.Kubeconfig())
	p.awaitReady("mr")
}

func TestRemovedRegistrationReleasesItsObjects(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	before := read(p, p.configMap("one"))

	p.unregister("a")
	const reason = resourcesv1alpha1.ReasonTargetNotFound
	mr := p.await("mr", has(applied, no, reason, p.ns), has(healthy, unknown, reason), has(progressing, unknown, reason), has(ready, no, reason))
	p.Expect(mr.Status.Resources).To(HaveLen(1), "what is in the target is not forgotten")
	p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonRegistrationGone)
	p.Expect(read(p, p.configMap("one"))).To(Equal(before))

	// It comes back, and everything continues with the same objects.
	p.content("content", testbed.ConfigMap(p.ns, "one", "2"))
	p.register("a", target.Kubeconfig())
	p.awaitValue("one", "2")
	p.awaitReady("mr")
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(before.UID))

	// It goes permanently, and the ManagedResource with it: the object stays, and an event reports that.
	p.unregister("a")
	p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonRegistrationGone, "still have their objects")
	p.await("mr", has(applied, no, reason))
	p.deleteMR("mr")
	p.awaitGone("mr")
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(before.UID))
	p.Eventually(p.events).Should(ContainElement(SatisfyAll(HavePrefix("Warning ObjectsReleased: "), ContainSubstring("one"))))
	p.awaitTargetClusterGone("a")
}

// A TargetCluster without ManagedResources goes with its registration, and the next registration starts again.
func TestRemovedRegistrationWithoutManagedResources(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.fence()
	for _, mr := range p.all() {
		p.deleteMR(mr.Name)
		p.awaitGone(mr.Name)
	}
	p.unregister("a")
	p.awaitTargetClusterGone("a")
}

// A deletion that has begun when the registration goes gets its time to end.
func TestDeletionEndsAfterTheRegistrationIsGone(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), p.blocked("stuck"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.deleteMR("mr")
	p.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "stuck"))
	p.unregister("a")
	p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonRegistrationGone)
	p.unblock(p.configMap("stuck"))
	p.awaitGone("mr")
	p.expectAbsent(p.configMap("stuck"))
	p.awaitTargetClusterGone("a")
}

// When the target of a ManagedResource changes, its objects in the old one are deleted.
func TestMovedManagedResourceIsCleanedUpWhereItWas(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"cleaned": false, "kept by keepObjects": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.register("b", source.Kubeconfig()) // any other cluster will do
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
			mr := testbed.ManagedResource(p.ns, "mr", "content")
			mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: "a"}
			mr.Spec.KeepObjects = ptr.To(keep)
			p.inSource(mr)
			first := p.awaitReady("mr")
			p.awaitValue("one", "1")

			p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Labels[hubv1alpha1.ClusterNameLabel] = "b" })
			elsewhere := p.configMap("one")
			p.Eventually(func() error { return source.Client.Get(p.ctx, client.ObjectKeyFromObject(elsewhere), elsewhere) }).Should(Succeed(), func() string { return hub.Log.About(p.ns) })
			second := p.await("mr", has(ready, yes, ""), HaveField("Status.Resources", ConsistOf(HaveField("UID", elsewhere.UID))))
			p.Expect(second.Annotations[hubv1alpha1.TargetUIDAnnotation]).NotTo(Equal(first.Annotations[hubv1alpha1.TargetUIDAnnotation]))
			if keep {
				p.awaitValue("one", "1")
			} else {
				p.expectAbsent(p.configMap("one"))
			}
		})
	}
}

// What a registration says counts, not where its former connection leads: the new content may mean the cluster that has
// the objects.
func TestNothingMovesOverAnOutdatedConnection(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.register("b", source.Kubeconfig())
	p.awaitTarget("b", hubv1alpha1.ConditionConnected, metav1.ConditionTrue, hubv1alpha1.ReasonConnected)
	p.pick("mr", "a")
	p.awaitReady("mr")
	uid := read(p, p.configMap("mr")).UID

	unusable := badRegistrations()["a closed port"]
	p.register("b", unusable.kubeconfig(p))
	p.awaitTarget("b", hubv1alpha1.ConditionCredentialsValid, metav1.ConditionFalse, unusable.reason)
	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Labels[hubv1alpha1.ClusterNameLabel] = "b" })
	p.await("mr", has(ready, unknown, resourcesv1alpha1.ReasonTargetUnreachable, p.ns+"/b", "They stay where they are"),
		has(healthy, unknown, resourcesv1alpha1.ReasonTargetUnreachable))
	p.fence()
	p.Expect(read(p, p.configMap("mr")).UID).To(Equal(uid))
	elsewhere := p.configMap("mr")
	p.Expect(source.Client.Get(p.ctx, client.ObjectKeyFromObject(elsewhere), elsewhere)).To(MatchError(apierrors.IsNotFound, "NotFound"))

	p.register("b", source.Kubeconfig())
	p.Eventually(func() error { return source.Client.Get(p.ctx, client.ObjectKeyFromObject(elsewhere), elsewhere) }).Should(Succeed(), func() string { return hub.Log.About(p.ns) })
	p.awaitReady("mr")
	p.awaitAbsent(p.configMap("mr"))
}

func TestPausedTargetGetsNothing(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "a"}, Spec: hubv1alpha1.TargetClusterSpec{Paused: true}}
	p.inSource(tc, testbed.Registration(p.ns, "a", target.Kubeconfig()))
	p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonPaused, "spec.paused")
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.register("b", target.Kubeconfig()) // a way for the fence
	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: "a"}
	})
	p.fenceThrough("b")
	p.expectAbsent(p.configMap("one"))
	p.Expect(p.get("mr").Finalizers).To(BeEmpty())

	p.edit(source, tc, func() { tc.Spec.Paused = false })
	p.awaitReady("mr")
	p.awaitValue("one", "1")

	// Later it stops corrections, new content and deletion alike.
	p.edit(source, tc, func() { tc.Spec.Paused = true })
	p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonPaused)
	cm := p.configMap("one")
	p.edit(target, cm, func() { cm.Data["key"] = "by hand" })
	p.content("content", testbed.ConfigMap(p.ns, "one", "2"))
	p.fenceThrough("b")
	p.awaitValue("one", "by hand")
	p.deleteMR("mr")
	p.fenceThrough("b")
	p.awaitValue("one", "by hand")
	p.Expect(p.get("mr").DeletionTimestamp).NotTo(BeNil())
	p.edit(source, tc, func() { tc.Spec.Paused = false })
	p.awaitGone("mr")
	p.expectAbsent(p.configMap("one"))
}
