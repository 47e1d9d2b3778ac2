package health

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// lonely is a pod without an owner.
func (p place) lonely(name string, labels map[string]string) corev1.Pod {
	p.t.Helper()
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name, Labels: labels},
		Spec: corev1.PodSpec{SchedulerName: "no-scheduler",
			Containers: []corev1.Container{{Name: "main", Image: image1}}},
	}
	p.Expect(p.target.Client.Create(p.ctx, &pod)).To(Succeed())
	return pod
}

func TestH11_SurplusPod(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.manage("mr", workload("Deployment", "app", image1, ""))
	p.awaitReady("mr")
	// H-18: pods that do not match, or are in another namespace, do not count.
	p.lonely("stranger", map[string]string{"app": "stranger", resourcesv1alpha1.ManagedByLabel: resourcesv1alpha1.ManagedByDefault})
	elsewhere := newPlace(t)
	elsewhere.lonely("elsewhere", map[string]string{"app": "app", resourcesv1alpha1.ManagedByLabel: resourcesv1alpha1.ManagedByDefault})

	surplus := p.lonely("surplus", map[string]string{"app": "app", resourcesv1alpha1.ManagedByLabel: resourcesv1alpha1.ManagedByDefault})
	p.awaitMessage("mr", progressing, "True/DeploymentProgressing", ContainSubstring("old pods remain: there are 3 pods instead of 2"))
	p.Expect(condition(p.mr("mr"), healthy)).To(Equal(isHealthy))
	p.Expect(p.target.Client.Delete(p.ctx, &surplus)).To(Succeed())
	p.awaitReady("mr")
}

// The pods of a Deployment that others made bear no label of ours, and some of them may still be ending when its new
// pods run.
func TestH11_OldPodsOfAnAdoptedDeployment(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	foreign := p.objects(workload("Deployment", "app", image1, ""))[0]
	p.Expect(p.target.Client.Create(p.ctx, foreign.DeepCopy())).To(Succeed())
	old := p.awaitPods(image1, 2)
	p.hold(old...)
	p.manage("mr", workload("Deployment", "app", image2, ""))
	p.awaitMessage("mr", progressing, "True/DeploymentProgressing", ContainSubstring("old pods remain: 2 more terminating"))
	p.release(old[0])
	p.awaitMessage("mr", progressing, "True/DeploymentProgressing", ContainSubstring("old pods remain: 1 more terminating"))
	for _, v := range p.between("mr", 0, p.mark("mr")) {
		p.Expect(saysReady(v.ManagedResource)).To(BeFalse(), history([]testbed.Version{v}))
	}
	p.release(old[1])
	p.awaitReady("mr")
}

// The pods of an ignored Deployment get no label of the hub, whether the hub or another client created the Deployment.
func TestH11_IgnoredDeployment(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]bool{"made by the hub": false, "made by another client": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			manifest := strings.Replace(workload("Deployment", "app", image1, ""), "name: app}", "name: app, annotations: {"+resourcesv1alpha1.IgnoreAnnotation+`: "true"}}`, 1)
			if made {
				p.Expect(p.target.Client.Create(p.ctx, p.objects(manifest)[0])).To(Succeed())
			}
			d := p.manage("mr", manifest)[0]
			p.awaitReady("mr")
			old := p.pods(image1)
			p.hold(old...)
			// A roll-out by a user, whose new pods cannot be scheduled.
			p.patch(d, fmt.Sprintf(`{"spec":{"template":{"spec":{"schedulerName":"no-scheduler",
				"containers":[{"name":"main","image":%q}]}}}}`, image2))
			p.await("mr", Not(HavePrefix("Unknown/")), "True/DeploymentProgressing")
			p.start(p.awaitPods(image2, 1)...)
			p.start(p.awaitPods(image2, 2)...)
			p.awaitMessage("mr", progressing, "True/DeploymentProgressing", ContainSubstring("terminating"))
			p.release(old...)
			p.awaitReady("mr")
		})
	}
}

func TestH21_PodsThatDoNotCount(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]func(corev1.Pod) corev1.PodStatus{
		"evicted": func(corev1.Pod) corev1.PodStatus {
			return corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}
		},
		"rejected by its node": func(corev1.Pod) corev1.PodStatus {
			return corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}
		},
		"ended": func(corev1.Pod) corev1.PodStatus { return corev1.PodStatus{Phase: corev1.PodSucceeded} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			d := p.manage("mr", workload("Deployment", "app", image1, ""))[0]
			p.awaitReady("mr")
			lost := p.pods(image1)[0]
			p.say(lost, status(lost))
			p.Eventually(func() []corev1.Pod { return p.pods(image1) }).Should(HaveLen(3), "it is replaced")
			p.Eventually(func() int { return number(p.live(d), "status", "availableReplicas") }).Should(Equal(2))
			p.awaitReady("mr")
			// A roll-out later it is still there, of the old version, and still does not count.
			p.hold(lost)
			p.manage("mr", workload("Deployment", "app", image2, ""))
			p.awaitPods(image2, 2)
			p.awaitReady("mr")
			p.Expect(p.pod(lost.Name, image1).UID).To(Equal(lost.UID))
			p.release(lost)
		})
	}
}
