package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// impatient is a Deployment whose roll-out has failed after two seconds without progress.
func impatient(image, extra string) string {
	return strings.Replace(workload("Deployment", "app", image, extra), "replicas: 2",
		"replicas: 2\n  progressDeadlineSeconds: 2", 1)
}

// awaitBegun waits until the condition Progressing of a Deployment speaks of its present image. Because of a conflict
// the controller of Deployments may not say that it has created a ReplicaSet. Then its condition is that of
// the last roll-out, for which no deadline counts, until there is progress. It creates one that is deleted again, and
// says so.
func (p place) awaitBegun(deployment *unstructured.Unstructured, image string) {
	p.t.Helper()
	p.Eventually(func(g Gomega) {
		d := &appsv1.Deployment{}
		g.Expect(p.target.Client.Get(p.ctx, client.ObjectKeyFromObject(deployment), d)).To(Succeed())
		g.Expect(d.Spec.Template.Spec.Containers[0].Image).To(Equal(image))
		g.Expect(d.Status.ObservedGeneration).To(Equal(d.Generation))
		for _, c := range d.Status.Conditions {
			if c.Type != appsv1.DeploymentProgressing || c.Reason != "NewReplicaSetAvailable" {
				continue
			}
			sets := &appsv1.ReplicaSetList{}
			g.Expect(p.target.Client.List(p.ctx, sets, client.InNamespace(p.ns))).To(Succeed())
			for i := range sets.Items {
				if sets.Items[i].Spec.Template.Spec.Containers[0].Image == image {
					g.Expect(client.IgnoreNotFound(p.target.Client.Delete(p.ctx, &sets.Items[i]))).To(Succeed())
				}
			}
			g.Expect(c.Reason).NotTo(Equal("NewReplicaSetAvailable"))
		}
	}).WithPolling(time.Second).Should(Succeed())
}

// H-10: a new version whose image cannot be pulled. The old pods serve on, and the conditions say what is the matter.
func TestH10_RolloutThatIsStuckForAnImage(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.manage("mr", impatient(image1, noScheduler))[0]
	p.start(p.awaitPods(image1, 2)...)
	p.awaitReady("mr")

	r := p.roll("mr", impatient(image2, noScheduler))
	p.awaitBegun(d, image2)
	stuck := p.awaitPods(image2, 1)[0]
	p.say(stuck, waiting(stuck, "ErrImagePull", "rpc error: not found"))
	p.await("mr", Or(Equal(isHealthy), Equal("False/DeploymentUnhealthy")), "True/DeploymentProgressing")
	p.say(stuck, waiting(stuck, "ImagePullBackOff",
		`Back-off pulling image "example.org/app:2": ErrImagePull: rpc error: not found`))
	p.Eventually(func() string { return fmt.Sprint(p.live(d).Object["status"]) }).Should(
		ContainSubstring("ProgressDeadlineExceeded"))
	because := And(HavePrefix("Deployment.apps "+p.ns+"/app "), ContainSubstring("ImagePullBackOff"),
		ContainSubstring("rpc error: not found"), ContainSubstring(stuck.Name))
	p.awaitMessage("mr", healthy, "False/DeploymentUnhealthy", because)
	p.awaitMessage("mr", progressing, "True/DeploymentProgressing", because)
	p.awaitMessage("mr", ready, "False/DeploymentUnhealthy", ContainSubstring("ImagePullBackOff"))
	r.refute(saysRolledOut, saysReady)

	// The registry is repaired.
	p.start(stuck)
	p.start(p.awaitPods(image2, 2)...)
	p.awaitReady("mr")
}

// No node fits, says the scheduler.
func TestRolloutThatIsStuckForANode(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.manage("mr", workload(kind, "app", image1, "\n      nodeSelector: {no-such: node}"))
			// Other tests add nodes.
			because := And(ContainSubstring("Unschedulable"), MatchRegexp(`\b0/\d+ nodes are available`))
			p.awaitMessage("mr", healthy, "False/"+kind+"Unhealthy", because)
			p.awaitMessage("mr", progressing, "True/"+kind+"Progressing", because)
			p.manage("mr", workload(kind, "app", image2, ""))
			if kind == "StatefulSet" { // its controller does not replace a pod that never ran
				p.Eventually(func() int {
					for _, pod := range p.pods(image1) {
						p.Expect(client.IgnoreNotFound(p.target.Client.Delete(p.ctx, &pod))).To(Succeed())
					}
					return len(p.pods(image2))
				}).Should(Equal(2))
			}
			p.awaitReady("mr")
		})
	}
}

// A pod that crashes repeatedly has another message each time. Only changes that an operator would act on are reported
// again.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.manage("mr", workload(kind, "app", image1, ""))
			p.awaitReady("mr")
			crashing := p.pods(image1)[0]
			from := p.mark("mr")
			const crashes = 20
			for i := range crashes {
				ended := corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", StartedAt: metav1.Now(),
					FinishedAt: metav1.Now(), ContainerID: fmt.Sprint("x://", i)}
				crashed := func(state corev1.ContainerState) corev1.PodStatus {
					s := running(crashing, false, state)
					s.ContainerStatuses[0].RestartCount = int32(i)
					s.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{Terminated: &ended}
					return s
				}
				p.say(crashing, crashed(corev1.ContainerState{Terminated: &ended}))
				p.say(crashing, crashed(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
					Message: fmt.Sprintf("back-off %ds restarting failed container=main pod=%s", 10<<min(i, 5), crashing.Name)}}))
			}
			p.awaitMessage("mr", healthy, "False/"+kind+"Unhealthy",
				And(ContainSubstring("CrashLoopBackOff"), ContainSubstring("137")))
			p.awaitMessage("mr", ready, "False/"+kind+"Unhealthy", ContainSubstring("CrashLoopBackOff"))
			written := p.between("mr", from, p.mark("mr"))
			t.Logf("%d writes for %d crashes", len(written), crashes)
			p.Expect(len(written)).To(BeNumerically("<=", crashes), history(written))
			p.start(crashing)
			p.awaitReady("mr")
		})
	}
}
