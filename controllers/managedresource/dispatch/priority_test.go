package dispatch

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	clustersfake "github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/sharing"
	"github.com/trellis-hub/trellis/fairqueue"
)

// prioritized is a dispatcher with a ManagedResource in a connected target.
func prioritized(t *testing.T) (*Dispatcher, *added, clustercache.ClusterKey, *resourcesv1alpha1.ManagedResource) {
	t.Helper()
	g := NewWithT(t)
	key := clustercache.ClusterKey{Namespace: "a", Name: "target"}
	scheme := runtime.NewScheme()
	g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "uid"}}
	class, err := assignment.NewClass(configv1alpha1.Class{Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}}, "")
	g.Expect(err).NotTo(HaveOccurred())
	clusters := clustersfake.New(nil)
	clusters.SetStatus(clustercache.Status{Cluster: key, State: clustercache.StateConnected})
	reader, queue := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mr).Build(), &added{}
	d := New(Options{
		Cache: informers{Reader: reader}, Clusters: clusters, Tracker: tracker.New(tracker.Options{}), Shared: sharing.NewIndex(), Clock: clock.RealClock{},
		Assigner: &assignment.Assigner{Classes: map[string]*assignment.Class{class.Name: class}, Reader: reader,
			Clusters: clusters, Clock: clock.RealClock{}},
	})
	d.SetQueue(class.Name, queue)
	return d, queue, key, mr
}

func TestEachEventIsAsUrgentAsItIs(t *testing.T) {
	changed := func(mr *resourcesv1alpha1.ManagedResource) *resourcesv1alpha1.ManagedResource {
		mr = mr.DeepCopy()
		mr.Generation++
		return mr
	}
	target := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "target"}, Status: hubv1alpha1.TargetClusterStatus{ClusterUID: "uid"}}
	paused := target.DeepCopy()
	paused.Spec.Paused = true
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	labelled := namespace.DeepCopy()
	labelled.Labels = map[string]string{"class": "another"}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: assignment.ResourceManagerLease}}

	for what, test := range map[string]struct {
		happens  func(context.Context, *Dispatcher, clustercache.ClusterKey, *resourcesv1alpha1.ManagedResource)
		priority int
	}{
		"a ManagedResource that was there before the hub": {func(ctx context.Context, d *Dispatcher, _ clustercache.ClusterKey, mr *resourcesv1alpha1.ManagedResource) {
			d.managedResourceHandler(ctx).OnAdd(mr, true)
		}, PriorityResync},
		"one that is new": {func(ctx context.Context, d *Dispatcher, _ clustercache.ClusterKey, mr *resourcesv1alpha1.ManagedResource) {
			d.managedResourceHandler(ctx).OnAdd(mr, false)
		}, PriorityUser},
		"one that is changed": {func(ctx context.Context, d *Dispatcher, _ clustercache.ClusterKey, mr *resourcesv1alpha1.ManagedResource) {
			d.managedResourceHandler(ctx).OnUpdate(mr, changed(mr))
		}, PriorityUser},
		"a target that is connected": {func(ctx context.Context, d *Dispatcher, key clustercache.ClusterKey, _ *resourcesv1alpha1.ManagedResource) {
			d.clusterChanged(ctx, clustercache.Event{Cluster: key, Types: []clustercache.EventType{clustercache.EventConnected}},
				map[clustercache.ClusterKey]reported{})
		}, PriorityRetry},
		"a target that is lost": {func(ctx context.Context, d *Dispatcher, key clustercache.ClusterKey, _ *resourcesv1alpha1.ManagedResource) {
			clusters, _ := d.Clusters.(*clustersfake.Cache)
			clusters.SetStatus(clustercache.Status{Cluster: key, State: clustercache.StateDisconnected})
			d.clusterChanged(ctx, clustercache.Event{Cluster: key,
				Types: []clustercache.EventType{clustercache.EventDisconnected}}, map[clustercache.ClusterKey]reported{})
		}, PriorityResync},
		"a target that was there before the hub": {func(ctx context.Context, d *Dispatcher, _ clustercache.ClusterKey, _ *resourcesv1alpha1.ManagedResource) {
			d.targetClusterHandler(ctx).OnAdd(target, true)
		}, PriorityResync},
		"a target that is paused": {func(ctx context.Context, d *Dispatcher, _ clustercache.ClusterKey, _ *resourcesv1alpha1.ManagedResource) {
			d.targetClusterHandler(ctx).OnUpdate(target, paused)
		}, PriorityRetry},
		"a target that goes": {func(ctx context.Context, d *Dispatcher, _ clustercache.ClusterKey, _ *resourcesv1alpha1.ManagedResource) {
			d.targetClusterHandler(ctx).OnDelete(target)
		}, PriorityRetry},
		"a namespace that is known late": {func(ctx context.Context, d *Dispatcher, _ clustercache.ClusterKey, _ *resourcesv1alpha1.ManagedResource) {
			d.namespaceHandler(ctx).OnAdd(namespace, true)
		}, PriorityResync},
		"a namespace with another label": {func(ctx context.Context, d *Dispatcher, _ clustercache.ClusterKey, _ *resourcesv1alpha1.ManagedResource) {
			d.namespaceHandler(ctx).OnUpdate(namespace, labelled)
		}, PriorityRetry},
		"another manager that gives its Lease up": {func(ctx context.Context, d *Dispatcher, _ clustercache.ClusterKey, _ *resourcesv1alpha1.ManagedResource) {
			h := d.leaseHandler(ctx)
			held := lease.DeepCopy()
			now := metav1.NowMicro()
			held.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("other"), LeaseDurationSeconds: new(int32(60)),
				RenewTime: &now}
			h.OnAdd(held, true)
			h.OnDelete(held)
		}, PriorityRetry},
	} {
		t.Run(what, func(t *testing.T) {
			g := NewWithT(t)
			d, queue, key, mr := prioritized(t)
			test.happens(t.Context(), d, key, mr)
			g.Expect(queue.priorities).NotTo(BeEmpty())
			g.Expect(queue.priorities).To(HaveEach(test.priority))
		})
	}
}

// The queue of a class hands out what its events bring in the order of their priorities, whatever comes first.
func TestQueueOfATargetServesUsersFirst(t *testing.T) {
	g := NewWithT(t)
	queue := fairqueue.New("", fairqueue.Options[Request]{Flow: Flow, MaxInFlight: func(string) int { return 10 }})
	defer queue.ShutDown()
	d := New(Options{})
	d.SetQueue("", queue)
	key := clustercache.ClusterKey{Namespace: "a", Name: "target"}
	for _, e := range []struct {
		name     string
		priority int
	}{{"resync", PriorityResync}, {"retry", PriorityRetry}, {"user", PriorityUser}, {"drift", PriorityDrift}} {
		d.Forward(assignment.Decision{Target: key, HasTarget: true}, types.NamespacedName{Namespace: "a", Name: e.name}, e.priority)
	}
	var order []string
	for range 4 {
		request, _ := queue.Get()
		order = append(order, request.Name)
		queue.Done(request)
	}
	g.Expect(order).To(Equal([]string{"user", "drift", "retry", "resync"}))
}
