package e2e

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// managedByGRM fills a namespace as Gardener's resource manager leaves it.
func managedByGRM(s *space, lease *coordinationv1.Lease) {
	s.t.Helper()
	create := func(object client.Object) { s.Expect(source.Client.Create(s.ctx, object)).To(Succeed()) }
	create(testbed.Content(s.name, "content", "objects.yaml", s.configMap("one", "1")))
	// What Cluster API stores in addition to a kubeconfig, and a Secret of the token requestor.
	create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "shoot-ca", Labels: map[string]string{hubv1alpha1.ClusterNameLabel: "shoot"}},
		Type:       "cluster.x-k8s.io/secret", Data: map[string][]byte{"tls.crt": []byte("x")},
	})
	create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "shoot-access-x", Labels: map[string]string{"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "shoot"}},
		Data:       map[string][]byte{"kubeconfig": east.Kubeconfig()},
	})
	if lease != nil {
		lease.ObjectMeta = metav1.ObjectMeta{Namespace: s.name, Name: "gardener-resource-manager"}
		create(lease)
	}
	const finalizer = "resources.gardener.cloud/gardener-resource-manager"
	for name, change := range map[string]func(*resourcesv1alpha1.ManagedResource){
		"steady":  func(*resourcesv1alpha1.ManagedResource) {},
		"leaving": func(*resourcesv1alpha1.ManagedResource) {}, // deleted below
		"fresh":   func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = nil },
		"ignored": func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations = map[string]string{"resources.gardener.cloud/ignore": "true"}
		},
		"asked-for": func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations = map[string]string{"gardener.cloud/operation": "reconcile"}
		},
		"seed": func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Spec.Class, mr.Finalizers = new("seed"), []string{finalizer + "-seed"}
		},
		"foreign": func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Spec.Class, mr.Finalizers = new("extension"), []string{finalizer + "-extension"}
		},
	} {
		mr := testbed.ManagedResource(s.name, name, "content")
		mr.Finalizers = []string{finalizer}
		change(mr)
		create(mr)
		if name == "fresh" {
			continue
		}
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		condition := func(t resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus, reason string) resourcesv1alpha1.Condition {
			return resourcesv1alpha1.Condition{Type: t, Status: status, Reason: reason, Message: "Said by another.", LastTransitionTime: now, LastUpdateTime: now}
		}
		mr.Status = resourcesv1alpha1.ManagedResourceStatus{
			ObservedGeneration: mr.Generation, SecretsDataChecksum: new("0123456789abcdef"),
			Conditions: []resourcesv1alpha1.Condition{
				condition(applied, resourcesv1alpha1.ConditionTrue, "ApplySucceeded"),
				condition(healthy, resourcesv1alpha1.ConditionTrue, "ResourcesHealthy"),
				condition(progressing, resourcesv1alpha1.ConditionFalse, "ResourcesRolledOut"),
			},
			Resources: []resourcesv1alpha1.ObjectReference{{ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.name, Name: "one"}}},
		}
		s.Expect(source.Client.Status().Update(s.ctx, mr)).To(Succeed())
		if name == "leaving" {
			s.Expect(source.Client.Delete(s.ctx, mr)).To(Succeed())
		}
	}
}

// snapshot is everything in a namespace of the source that a hub may read, byte for byte.
func snapshot(s *space) map[string]string {
	s.t.Helper()
	found := map[string]string{}
	for _, kind := range []struct{ apiVersion, kind string }{
		{"resources.gardener.cloud/v1alpha1", "ManagedResource"}, {"hub.gardener.cloud/v1alpha1", "TargetCluster"}, {"v1", "Secret"}, {"v1", "ConfigMap"},
		{"v1", "Event"}, {"events.k8s.io/v1", "Event"}, {"coordination.k8s.io/v1", "Lease"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(kind.apiVersion)
		list.SetKind(kind.kind + "List")
		s.Expect(source.Client.List(s.ctx, list, client.InNamespace(s.name))).To(Succeed())
		for i := range list.Items {
			text, err := json.Marshal(list.Items[i].Object)
			s.Expect(err).NotTo(HaveOccurred())
			found[kind.kind+" "+list.Items[i].GetName()] = string(text)
		}
	}
	return found
}

func TestHubWritesNothingWhereGardenersResourceManagerIsAtWork(t *testing.T) {
	held := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("gardener-resource-manager-0"), LeaseDurationSeconds: new(int32(3600)), RenewTime: new(metav1.NowMicro()),
	}}
	given := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new(""), LeaseDurationSeconds: new(int32(15))}}
	spaces := []*space{newSpace(t, nil), newSpace(t, nil), newSpace(t, nil)}
	managedByGRM(spaces[0], held)
	managedByGRM(spaces[1], given) // stopped at the moment
	managedByGRM(spaces[2], nil)
	ours := newSpace(t, nil)
	s := spaces[0]
	var before []map[string]string
	for _, each := range spaces {
		before = append(before, snapshot(each))
	}

	asked := listen(s.WithT, source)
	s.startHub()
	own := func(e request) bool { // its Lease, and the token by which it would apply to the source
		return e.Namespace == testbed.HubNamespace &&
			(e.Resource == "leases" || e.Resource == "serviceaccounts" && e.Subresource == "token")
	}
	leads := func(e request) bool { return e.Resource == "leases" && (e.Verb == "create" || e.Verb == "update") }
	s.Eventually(func() []string { return texts(without(asked(), func(e request) bool { return !leads(e) })) }).ShouldNot(BeEmpty(), "the hub leads")
	s.Consistently(func() []string {
		return texts(without(asked(), own, func(e request) bool { return !isWrite(e) }))
	}, 5*time.Second, time.Second).Should(BeEmpty(), "writes to a source without registrations")

	// The hub works in another namespace.
	ours.register("target", east)
	ours.manage("mr", ours.configMap("one", "1"))
	ours.eventuallyReady("mr")
	elsewhere := func(e request) bool { return e.Namespace == ours.name || !isWrite(e) }
	s.Expect(texts(without(asked(), own, elsewhere))).To(BeEmpty())
	for i, each := range spaces {
		s.Expect(snapshot(each)).To(Equal(before[i]))
	}
}
