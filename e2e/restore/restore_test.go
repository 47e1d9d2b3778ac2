package restore

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Sections of the page.
const (
	backUp  = "Back up single objects"
	restore = "Restore single objects"
	orphans = "Find objects that no inventory has"
)

// fill registers the target and has two ManagedResources applied.
func (r *reader) fill() {
	r.t.Helper()
	ctx := r.t.Context()
	kubeconfig, err := target.Access(ctx, r.namespace, time.Hour)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(source.Client.Create(ctx, testbed.Registration(r.namespace, "shoot-a", kubeconfig))).To(Succeed())
	r.create("addons", "a", "b")
	r.create("network", "c")
	r.ready("addons", "network")
}

// create creates a ManagedResource with ConfigMaps.
func (r *reader) create(name string, configMaps ...string) {
	r.t.Helper()
	r.Expect(source.Client.Create(r.t.Context(), r.content(name, configMaps...))).To(Succeed())
	r.Expect(source.Client.Create(r.t.Context(), testbed.ManagedResource(r.namespace, name, name))).To(Succeed())
}

func (r *reader) content(name string, configMaps ...string) *corev1.Secret {
	manifests := make([]string, len(configMaps))
	for i, c := range configMaps {
		manifests[i] = testbed.ConfigMap(r.namespace, c, "1")
	}
	return testbed.Content(r.namespace, name, "objects.yaml", manifests...)
}

// ready waits until ManagedResources are ready.
func (r *reader) ready(names ...string) {
	r.t.Helper()
	for _, name := range names {
		r.Eventually(func(g Gomega) {
			mr := &resourcesv1alpha1.ManagedResource{}
			g.Expect(source.Client.Get(context.Background(), r.key(name), mr)).To(Succeed())
			ready := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionReady)
			g.Expect(ready).NotTo(BeNil())
			g.Expect(ready.Status).To(BeEquivalentTo("True"), ready.Message)
			g.Expect(mr.Status.ObservedGeneration).To(Equal(mr.Generation))
		}).Should(Succeed())
	}
}

func (r *reader) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: name}
}

// live are UID and version of the managed objects in the target, by name.
func (r *reader) live() map[string]string {
	r.t.Helper()
	list := &corev1.ConfigMapList{}
	r.Expect(target.Client.List(context.Background(), list, client.InNamespace(r.namespace),
		client.HasLabels{resourcesv1alpha1.ManagedByLabel})).To(Succeed())
	found := map[string]string{}
	for i := range list.Items {
		found[list.Items[i].Name] = string(list.Items[i].UID) + "@" + list.Items[i].ResourceVersion
	}
	return found
}

// works waits until the restored hub corrects drift, so what it wanted to do at its start is done.
func (r *reader) works(name string) {
	r.t.Helper()
	live := &corev1.ConfigMap{}
	r.Eventually(func(g Gomega) { // the hub may write it meanwhile
		g.Expect(target.Client.Get(r.t.Context(), r.key(name), live)).To(Succeed())
		live.Data["key"] = "drift"
		g.Expect(target.Client.Update(r.t.Context(), live)).To(Succeed())
	}).Should(Succeed())
	r.Eventually(func() (string, error) {
		err := target.Client.Get(r.t.Context(), r.key(name), live)
		return live.Data["key"], err
	}).Should(Equal("1"))
}

// TestRestoredSourceChangesNothingInTheTarget: all objects of the source are lost and restored from the backup, and the
// target has the same objects in the same versions.
func TestRestoredSourceChangesNothingInTheTarget(t *testing.T) {
	r := newReader(t)
	r.fill()
	before := r.live()
	r.Expect(before).To(HaveLen(3))
	old := &hubv1alpha1.TargetCluster{}
	r.Expect(source.Client.Get(t.Context(), r.key("shoot-a"), old)).To(Succeed())
	r.follow(backUp)
	r.stop()
	r.lose()

	r.start() // the restore begins with a hub that works on an empty source
	r.Expect(r.live()).To(Equal(before), "a hub without ManagedResources and registrations prunes nothing")
	r.follow(restore)
	r.ready("addons", "network")
	now := &hubv1alpha1.TargetCluster{}
	r.Expect(source.Client.Get(t.Context(), r.key("shoot-a"), now)).To(Succeed())
	r.Expect(now.UID).NotTo(Equal(old.UID), "it was created again")
	r.Expect(now.Status.ClusterUID).To(Equal(old.Status.ClusterUID))
	r.works("c")
	after := r.live()
	delete(before, "c") // which was changed for the test
	delete(after, "c")
	r.Expect(after).To(Equal(before), "deleted, created or written")

	// The restored inventory is the hub's: what leaves the manifest is pruned.
	r.Expect(source.Client.Update(t.Context(), r.content("addons", "a"))).To(Succeed())
	r.Eventually(func() []string { return names(r.live()) }).Should(ConsistOf("a", "c"))
	r.Expect(r.live()).To(HaveKeyWithValue("a", before["a"]))
}

// TestChangesAfterTheBackup: what the page says of each change that the backup does not have.
func TestChangesAfterTheBackup(t *testing.T) {
	r := newReader(t)
	r.fill()
	r.follow(backUp)
	before := r.live()

	// One object is added and one removed, one ManagedResource is created and one deleted.
	r.Expect(source.Client.Update(t.Context(), r.content("addons", "a", "added"))).To(Succeed())
	r.create("new", "of-new")
	r.ready("addons", "new")
	r.Expect(source.Client.Delete(t.Context(), testbed.ManagedResource(r.namespace, "network"))).To(Succeed())
	r.Eventually(func() []string { return names(r.live()) }).Should(ConsistOf("a", "added", "of-new"))
	r.Eventually(func() error {
		return source.Client.Get(t.Context(), r.key("network"), &resourcesv1alpha1.ManagedResource{})
	}).Should(MatchError(apierrors.IsNotFound, "not found"))

	r.stop()
	r.lose()
	r.start()
	r.follow(restore)
	// The status of the backup says ready already, so what counts is what the hub does in the target.
	r.Eventually(func() []string { return names(r.live()) }).Should(ConsistOf("a", "b", "c", "added", "of-new"))
	r.works("b")
	r.ready("addons", "network")
	after := r.live()
	r.Expect(names(after)).To(ConsistOf("a", "b", "c", "added", "of-new"))
	r.Expect(after["a"]).To(Equal(before["a"]), "it is the same in both")
	r.Expect(r.follow(orphans)).To(And(ContainSubstring("added"), ContainSubstring("of-new")))
}

func names(objects map[string]string) []string { return slices.Collect(maps.Keys(objects)) }
