package health

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// A pod whose readiness comes and goes makes its Deployment available and unavailable. Each change is reported at most
// once, and one that keeps repeating is reported less and less often.
func TestFlapping(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.manage("mr", workload(kind, "app", image1, ""))
			p.awaitReady("mr")
			pod := p.pods(image1)[0]
			from := p.mark("mr")
			const flips = 2
			for range flips {
				p.say(pod, running(pod, false, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}))
				p.await("mr", "False/"+kind+"Unhealthy", ContainSubstring("/"))
				p.start(pod)
				p.await("mr", isHealthy, isRolledOut)
			}
			paced := p.between("mr", from, p.mark("mr"))
			t.Logf("%d writes for %d flips", len(paced), 2*flips)
			p.Expect(len(paced)).To(BeNumerically("<=", 2*2*flips), history(paced))

			// As fast as the API server takes it.
			from = p.mark("mr")
			const fastFlips = 40
			for range fastFlips {
				p.say(pod, running(pod, false, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}))
				p.start(pod)
			}
			p.awaitReady("mr")
			fast := p.between("mr", from, p.mark("mr"))
			t.Logf("%d writes for %d fast flips", len(fast), 2*fastFlips)
			p.Expect(len(fast)).To(BeNumerically("<=", 15), history(fast))
			for _, v := range append(paced, fast...) {
				p.Expect(saysReady(v.ManagedResource)).To(
					Equal(saysHealthy(v.ManagedResource) && saysRolledOut(v.ManagedResource)), history([]testbed.Version{v}))
			}
		})
	}
}
