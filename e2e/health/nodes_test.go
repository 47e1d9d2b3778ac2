package health

import (
	"context"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// A node that joins gets no workload before the pod of a critical DaemonSet runs there, with the controllers and the
// scheduler of Kubernetes: NODE-3, NODE-15.
func TestNODE3_NodeThatJoins(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const notReady, critical = "node.gardener.cloud/critical-components-not-ready", "node.gardener.cloud/critical-component"
	// Only what belongs to this test gets onto its node.
	own := map[string]string{"example.org/test": p.ns}
	create := func(object client.Object) {
		p.Expect(p.target.Client.Create(p.ctx, object)).To(Succeed())
		t.Cleanup(func() {
			ctx, options := context.Background(), []client.DeleteOption{client.GracePeriodSeconds(0)}
			options = append(options, client.PropagationPolicy(metav1.DeletePropagationBackground))
			p.Expect(client.IgnoreNotFound(p.target.Client.Delete(ctx, object, options...))).To(Succeed())
		})
	}
	containers := []corev1.Container{{Name: "main", Image: image1}}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "joins-" + p.ns, Labels: own},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "example.org/test", Effect: corev1.TaintEffectNoSchedule},
			{Key: notReady, Effect: corev1.TaintEffectNoSchedule},
		}},
	}
	selector := map[string]string{"app": p.ns}
	// Its pods are scheduled when the test says so.
	network := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: p.ns, Labels: map[string]string{critical: "true"},
		},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": p.ns, critical: "true"}},
				Spec: corev1.PodSpec{
					SchedulerName: "no-scheduler", NodeSelector: own, Containers: containers,
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				},
			},
		},
	}
	workload := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "workload"},
		Spec: corev1.PodSpec{
			NodeSelector: own, Containers: containers,
			Tolerations: []corev1.Toleration{{Key: "example.org/test", Operator: corev1.TolerationOpExists}},
		},
	}
	create(node)
	create(network)
	create(workload)
	on := client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"controllers":{"nodeCriticalComponents":{"enabled":true,"backoff":"1s"}}}}`))
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "a"}}
	p.Eventually(func() error { return source.Client.Patch(p.ctx, tc, on) }).Should(Succeed())

	t.Log("the pod of the DaemonSet is not scheduled")
	said := func() (reasons []string) {
		list := &eventsv1.EventList{}
		p.Expect(p.target.Client.List(p.ctx, list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
		for _, event := range list.Items {
			if event.Regarding.UID == node.UID {
				reasons = append(reasons, event.Reason)
			}
		}
		return reasons
	}
	p.Eventually(said).Should(ContainElement("UnscheduledNodeCriticalDaemonSets"))
	waits := func() bool {
		p.Expect(p.target.Client.Get(p.ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
		return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == notReady })
	}
	p.Expect(waits()).To(BeTrue())
	runs := func() corev1.PodPhase {
		p.Expect(p.target.Client.Get(p.ctx, client.ObjectKeyFromObject(workload), workload)).To(Succeed())
		return workload.Status.Phase
	}
	p.Expect(runs()).To(Equal(corev1.PodPending))

	t.Log("the pod is scheduled")
	pods := &corev1.PodList{}
	p.Eventually(func() []corev1.Pod {
		p.Expect(p.target.Client.List(p.ctx, pods, client.InNamespace(metav1.NamespaceSystem),
			client.MatchingLabels(selector))).To(Succeed())
		return pods.Items
	}).Should(HaveLen(1))
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}
	p.Expect(p.target.Client.SubResource("binding").Create(p.ctx, &pods.Items[0], binding)).To(Succeed())
	p.Eventually(waits).Should(BeFalse())
	p.Eventually(runs).Should(Equal(corev1.PodRunning))
	p.Expect(workload.Spec.NodeName).To(Equal(node.Name))
	p.Expect(said()).To(ContainElement("NodeCriticalComponentsReady"))
}
