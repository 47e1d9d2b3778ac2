package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// space is a namespace of one test, in the source and in all targets, and what the test does there.
type space struct {
	*WithT
	t    *testing.T
	ctx  context.Context
	name string
}

// newSpace makes a namespace. At the end of the test nothing is left in it that a hub would work on.
func newSpace(t *testing.T, labels map[string]string) *space {
	t.Helper()
	s := &space{WithT: NewWithT(t), t: t, ctx: context.Background()}
	s.name = testbed.Namespace(t, labels, source, east, west)
	t.Cleanup(s.clear)
	return s
}

func (s *space) clear() {
	mrs := &resourcesv1alpha1.ManagedResourceList{}
	s.Expect(source.Client.List(s.ctx, mrs, client.InNamespace(s.name))).To(Succeed())
	for i := range mrs.Items {
		mr := &mrs.Items[i]
		s.Expect(client.IgnoreNotFound(source.Client.Patch(s.ctx, mr, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
		s.Expect(client.IgnoreNotFound(source.Client.Delete(s.ctx, mr))).To(Succeed())
	}
	for _, kind := range []client.Object{&corev1.Secret{}, &hubv1alpha1.TargetCluster{}} {
		s.Expect(source.Client.DeleteAllOf(s.ctx, kind, client.InNamespace(s.name))).To(Succeed())
	}
}

// key names something in the space.
func (s *space) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.name, Name: name}
}

// register registers a target by the access of its administrator.
func (s *space) register(name string, cluster *testbed.Cluster) {
	s.t.Helper()
	s.registerBy(name, cluster.Kubeconfig())
}

func (s *space) registerBy(name string, kubeconfig []byte) {
	s.t.Helper()
	s.Expect(source.Client.Create(s.ctx, testbed.Registration(s.name, name, kubeconfig))).To(Succeed())
}

// unregister removes a registration.
func (s *space) unregister(name string) {
	s.t.Helper()
	s.Expect(source.Client.Delete(s.ctx, testbed.Registration(s.name, name, nil))).To(Succeed())
}

// manage creates a ManagedResource and a Secret of the same name with manifests.
func (s *space) manage(name string, manifests ...string) {
	s.t.Helper()
	s.manageWith(testbed.ManagedResource(s.name, name, name), testbed.Content(s.name, name, "objects.yaml", manifests...))
}

func (s *space) manageWith(mr *resourcesv1alpha1.ManagedResource, content *corev1.Secret) {
	s.t.Helper()
	s.Expect(source.Client.Create(s.ctx, content)).To(Succeed())
	s.Expect(source.Client.Create(s.ctx, mr)).To(Succeed())
}

// configMap is the manifest of a ConfigMap in the space.
func (s *space) configMap(name, value string) string { return testbed.ConfigMap(s.name, name, value) }

// patchMR changes a ManagedResource by a merge patch.
func (s *space) patchMR(name, patch string) {
	s.t.Helper()
	s.Expect(source.Client.Patch(s.ctx, testbed.ManagedResource(s.name, name), client.RawPatch(
		types.MergePatchType, []byte(patch)))).To(Succeed())
}

// deleteMR asks for the deletion of a ManagedResource.
func (s *space) deleteMR(name string) {
	s.t.Helper()
	s.Expect(source.Client.Delete(s.ctx, testbed.ManagedResource(s.name, name))).To(Succeed())
}

// mr returns a ManagedResource.
func (s *space) mr(name string) *resourcesv1alpha1.ManagedResource {
	s.t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	s.Expect(source.Client.Get(s.ctx, s.key(name), mr)).To(Succeed())
	return mr
}

// condition returns a condition of a ManagedResource as "status/reason".
func (s *space) condition(name string, t resourcesv1alpha1.ConditionType) string {
	s.t.Helper()
	return conditionOf(s.mr(name), t)
}

func conditionOf(mr *resourcesv1alpha1.ManagedResource, t resourcesv1alpha1.ConditionType) string {
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, t)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason
}

// target returns a TargetCluster, an empty one if there is none.
func (s *space) target(name string) *hubv1alpha1.TargetCluster {
	s.t.Helper()
	tc := &hubv1alpha1.TargetCluster{}
	s.Expect(client.IgnoreNotFound(source.Client.Get(s.ctx, s.key(name), tc))).To(Succeed())
	return tc
}

// targetReady returns the condition Ready of a TargetCluster, an empty one if there is none.
func (s *space) targetReady(name string) metav1.Condition {
	s.t.Helper()
	if c := meta.FindStatusCondition(s.target(name).Status.Conditions, hubv1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// targetCondition returns the condition Ready of a TargetCluster as "status/reason", "/" if there is none.
func (s *space) targetCondition(name string) string {
	s.t.Helper()
	c := s.targetReady(name)
	return string(c.Status) + "/" + c.Reason
}

// eventuallyTargetGone waits until a TargetCluster does not exist any longer.
func (s *space) eventuallyTargetGone(name string) {
	s.t.Helper()
	s.Eventually(func() bool {
		return apierrors.IsNotFound(source.Client.Get(s.ctx, s.key(name), &hubv1alpha1.TargetCluster{}))
	}).Should(BeTrue(), func() string { return fmt.Sprintf("%+v", s.targetReady(name)) })
}

// eventuallyReady waits until ManagedResources are Ready as they are written now.
func (s *space) eventuallyReady(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.Eventually(func() string {
			mr := s.mr(name)
			if mr.Status.ObservedGeneration != mr.Generation {
				return "an older generation is observed"
			}
			return conditionOf(mr, resourcesv1alpha1.ConditionReady)
		}).Should(Equal("True/Ready"), func() string { return fmt.Sprintf("%s: %+v", name, s.mr(name).Status.Conditions) })
	}
}

// eventuallyNoted waits until the hub has written down that ManagedResources are applied, a moment after they are.
func (s *space) eventuallyNoted(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.Eventually(func() map[string]string { return s.mr(name).Annotations }).Should(HaveKey(hubv1alpha1.AppliedAnnotation), name)
	}
}

// eventuallyCondition waits for a condition of a ManagedResource, given as "status/reason".
func (s *space) eventuallyCondition(name string, t resourcesv1alpha1.ConditionType, want string) {
	s.t.Helper()
	s.Eventually(func() string { return s.condition(name, t) }).Should(Equal(want), func() string { return fmt.Sprintf("%s: %+v", name, s.mr(name).Status.Conditions) })
}

// eventuallyGone waits until a ManagedResource does not exist any longer.
func (s *space) eventuallyGone(name string) {
	s.t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	s.Eventually(func() bool { return source.Client.Get(s.ctx, s.key(name), mr) != nil }).Should(BeTrue(), func() string { return fmt.Sprintf("%+v", mr.Status.Conditions) })
	s.Expect(client.IgnoreNotFound(source.Client.Get(s.ctx, s.key(name), mr))).To(Succeed())
}

// value returns what a ConfigMap of a cluster has under its key, empty if it does not exist.
func (s *space) value(cluster *testbed.Cluster, name string) string {
	s.t.Helper()
	cm := &corev1.ConfigMap{}
	if err := cluster.Client.Get(s.ctx, s.key(name), cm); err != nil {
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return ""
	}
	return cm.Data["key"]
}

// uid returns the UID of a ConfigMap of a cluster, empty if it does not exist.
func (s *space) uid(cluster *testbed.Cluster, name string) types.UID {
	s.t.Helper()
	cm := &corev1.ConfigMap{}
	if err := cluster.Client.Get(s.ctx, s.key(name), cm); err != nil {
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return ""
	}
	return cm.UID
}

// eventuallyValue waits until a ConfigMap of a cluster has a value under its key; empty: until it is gone.
func (s *space) eventuallyValue(cluster *testbed.Cluster, name, want string) {
	s.t.Helper()
	s.Eventually(func() string { return s.value(cluster, name) }).Should(Equal(want), name)
}

// edit changes a ConfigMap of a cluster behind the hub's back.
func (s *space) edit(cluster *testbed.Cluster, name, value string) {
	s.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"key":%q}}`, value))
	s.Expect(cluster.Client.Patch(s.ctx, cm, patch, client.FieldOwner("another-client"))).To(Succeed())
}

// remove deletes a ConfigMap of a cluster behind the hub's back.
func (s *space) remove(cluster *testbed.Cluster, name string) {
	s.t.Helper()
	s.Expect(cluster.Client.Delete(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}})).To(Succeed())
}

// eventuallyEvent waits for an event about a ManagedResource.
func (s *space) eventuallyEvent(name, reason, text string) {
	s.t.Helper()
	s.Eventually(func() []string {
		events := &corev1.EventList{}
		s.Expect(source.Client.List(s.ctx, events, client.InNamespace(s.name))).To(Succeed())
		var found []string
		for _, e := range events.Items {
			if e.InvolvedObject.Name == name && e.Reason == reason {
				found = append(found, e.Message)
			}
		}
		return found
	}).Should(ContainElement(ContainSubstring(text)))
}

// startHub starts a hub that ends with the test.
func (s *space) startHub() *testbed.Hub {
	s.t.Helper()
	return testbed.StartHubForTest(s.t, source, testbed.HubOptions{Config: func(c *configv1alpha1.HubConfiguration) {
		// How soon a TargetCluster is removed that is not needed.
		c.Controllers.TargetCluster.SyncPeriod.Duration = 5 * time.Second
	}})
}

// stopHub ends a hub and insists that it ended in order.
func (s *space) stopHub(h *testbed.Hub) {
	s.t.Helper()
	h.Stop()
	s.Expect(h.Err()).NotTo(HaveOccurred(), "%s", h.Log)
}

// watchStatus collects the changes of all conditions of the space's ManagedResources from now on. The returned function
// ends the collection.
func (s *space) watchStatus() (changes func() []string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	watcher, err := client.NewWithWatch(source.RESTConfig(), client.Options{Scheme: testbed.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	list := &resourcesv1alpha1.ManagedResourceList{}
	s.Expect(source.Client.List(s.ctx, list, client.InNamespace(s.name))).To(Succeed())
	conditions := map[string]string{}
	for i := range list.Items {
		conditions[list.Items[i].Name] = describeConditions(&list.Items[i])
	}
	stream, err := watcher.Watch(ctx, &resourcesv1alpha1.ManagedResourceList{}, client.InNamespace(s.name),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	s.Expect(err).NotTo(HaveOccurred())
	done := make(chan []string, 1)
	go func() {
		var seen []string
		for event := range stream.ResultChan() {
			mr, ok := event.Object.(*resourcesv1alpha1.ManagedResource)
			if !ok && ctx.Err() != nil {
				continue // how a watch says that it was ended
			}
			if !ok {
				seen = append(seen, fmt.Sprintf("%s: %v", event.Type, event.Object))
				continue
			}
			if now := describeConditions(mr); now != conditions[mr.Name] {
				seen = append(seen, fmt.Sprintf("%s %s %s: %s -> %s", time.Now().Format(time.TimeOnly), event.Type, mr.Name, conditions[mr.Name], now))
				conditions[mr.Name] = now
			}
		}
		done <- seen
	}()
	var seen []string
	ended := false
	end := func() []string {
		if !ended {
			ended = true
			cancel()
			stream.Stop()
			seen = <-done
		}
		return seen
	}
	s.t.Cleanup(func() { end() })
	return end
}

// changesOf are those of one ManagedResource.
func changesOf(changes []string, name string) []string {
	return slices.DeleteFunc(changes, func(c string) bool { return !strings.Contains(c, " "+name+": ") })
}

func describeConditions(mr *resourcesv1alpha1.ManagedResource) string {
	text := ""
	for _, c := range mr.Status.Conditions {
		text += fmt.Sprintf("%s=%s/%s@%s ", c.Type, c.Status, c.Reason, c.LastTransitionTime.Format(time.TimeOnly))
	}
	return text
}

// hold adds a finalizer of another controller to a ManagedResource's ConfigMap in a cluster, or removes it.
func (s *space) hold(cluster *testbed.Cluster, name string, yes bool) {
	s.t.Helper()
	finalizers := "null"
	if yes {
		finalizers = `["example.com/held"]`
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}}
	s.Expect(cluster.Client.Patch(s.ctx, cm, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`)))).To(Succeed())
}

// clusterUID is the UID of a cluster's kube-system namespace.
func clusterUID(s *space, cluster *testbed.Cluster) string {
	s.t.Helper()
	ns := &corev1.Namespace{}
	s.Expect(cluster.Client.Get(s.ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, ns)).To(Succeed())
	return string(ns.UID)
}
