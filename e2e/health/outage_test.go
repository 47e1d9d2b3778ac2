package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// takeWest is a place in west, which no other test has meanwhile.
func takeWest(t *testing.T) place {
	t.Helper()
	westTaken.Lock()
	t.Cleanup(westTaken.Unlock)
	return newPlaceIn(t, west, west.Kubeconfig())
}

const isUnreachable = "Unknown/TargetUnreachable"

func saysUnreachable(mr *resourcesv1alpha1.ManagedResource) bool {
	return condition(mr, healthy) == isUnreachable && condition(mr, progressing) == isUnreachable
}

// phases are ManagedResources in each phase of a roll-out. What they say before and after an outage is the truth, and
// nothing but that the target cannot be reached is said in between.
const (
	changing = "changing" // its content changes while the target is away
	applying = "applying" // the target is lost in the middle of an apply
	unseen   = "unseen"   // applied, and not observed by a controller
	halfway  = "halfway"  // one new pod, two old ones
	ending   = "ending"   // all pods are new, and an old one is still ending
	done     = "done"
	sick     = "sick" // rolled out, and a pod is not ready
)

var phases = []string{changing, applying, unseen, halfway, ending, done, sick}

func TestOutageInEachPhaseOfARollout(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct {
		lose  func(p place)
		bring func(p place)
	}{
		"API server killed": {
			func(p place) { p.target.KillAPIServer() },
			func(p place) { p.Expect(p.target.StartAPIServer(p.ctx)).To(Succeed()) },
		},
		"API server hangs": {
			func(p place) { p.Expect(p.target.Freeze()).To(Succeed()) },
			func(p place) { p.Expect(p.target.Thaw()).To(Succeed()) },
		},
		"etcd hangs": {
			func(p place) { p.Expect(p.target.Suspend(controlplane.Etcd)).To(Succeed()) },
			func(p place) { p.Expect(p.target.Resume(controlplane.Etcd)).To(Succeed()) },
		},
		"etcd killed": {
			func(p place) { p.target.KillEtcd() },
			func(p place) { p.Expect(p.target.StartEtcd(p.ctx)).To(Succeed()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := takeWest(t)
			p.intoPhases()
			back := false
			bring := func() {
				if !back {
					back = true
					outage.bring(p)
				}
			}
			t.Cleanup(bring)

			from := p.mark(applying)
			p.manage(applying, many(image2))
			p.Eventually(func() bool { // it is short: polling may miss it
				return slices.ContainsFunc(p.since(applying, from), func(v testbed.Version) bool {
					return condition(v.ManagedResource, applied) == "Progressing/ApplyProgressing"
				})
			}).WithPolling(time.Millisecond).Should(BeTrue())
			marks := map[string]mark{}
			for _, name := range phases {
				marks[name] = p.mark(name)
			}
			outage.lose(p)
			lost := time.Now()
			p.Eventually(func(g Gomega) {
				for _, name := range phases {
					g.Expect(saysUnreachable(p.mr(name))).To(BeTrue(), name)
				}
			}).Should(Succeed())
			t.Logf("all said to be unreachable %s after the loss", p.latest(lost, phases, marks, saysUnreachable))

			p.manage(changing, workload("Deployment", changing, image2, noScheduler))
			_ = p.target.Resume(controlplane.ControllerManager) // what waits in the target continues with it
			for _, name := range phases {
				versions := p.between(name, marks[name], p.mark(name))
				known := false
				for _, v := range versions {
					known = known || saysUnreachable(v.ManagedResource)
					p.Expect(saysUnreachable(v.ManagedResource)).To(Equal(known), "%s says more than can be known:\n%s", name, history(versions))
					p.Expect(condition(v.ManagedResource, applied)).NotTo(Equal("False/ApplyFailed"), history(versions))
				}
			}

			for _, name := range phases {
				marks[name] = p.mark(name)
			}
			bring()
			returned := time.Now()
			// A controller manager that is back before the API server knows its rights cannot create a ReplicaSet, and the
			// Deployment says so until its roll-out continues. These two do not continue.
			healthyOrRefused := func(name string) OmegaMatcher {
				return Or(Equal(isHealthy), Satisfy(func(string) bool {
					return strings.Contains(message(p.mr(name), healthy), "(ReplicaSetCreateError)")
				}))
			}
			for name, want := range map[string][2]any{
				changing: {healthyOrRefused(changing), "True/DeploymentProgressing"},
				halfway:  {isHealthy, "True/DeploymentProgressing"},
				ending:   {isHealthy, "True/DeploymentProgressing"},
				done:     {isHealthy, isRolledOut},
				sick:     {"False/DeploymentUnhealthy", isRolledOut},
			} {
				p.await(name, want[0], want[1])
			}
			p.await(unseen, healthyOrRefused(unseen), "True/DeploymentProgressing") // it is observed by now, and its new pods do not start
			p.awaitReady(applying)
			t.Logf("all say how they are %s after the return", p.latest(returned, []string{done, sick, ending, halfway}, marks, func(mr *resourcesv1alpha1.ManagedResource) bool {
				return strings.HasPrefix(condition(mr, healthy), "True/") || strings.HasPrefix(condition(mr, healthy), "False/")
			}))
			for _, name := range []string{changing, unseen, halfway, ending, sick} {
				for _, v := range p.between(name, marks[name], p.mark(name)) {
					p.Expect(saysReady(v.ManagedResource)).To(BeFalse(), "%s is not ready: %s", name, history([]testbed.Version{v}))
				}
			}
			p.Expect(p.mr(done).Status.Conditions).To(HaveLen(4))

			// And everything comes to its end.
			for _, name := range []string{changing, unseen, halfway} {
				p.Eventually(func(g Gomega) {
					for _, pod := range p.pods(image2) {
						if pod.Labels["app"] == name && !podIsReady(pod) {
							p.start(pod)
						}
					}
					g.Expect(condition(p.mr(name), ready)).To(Equal(isReady))
				}).Should(Succeed())
			}
			for _, pod := range p.pods(image1) {
				p.release(pod)
				if pod.Labels["app"] == sick {
					p.start(pod)
				}
			}
			for _, name := range phases {
				p.awaitReady(name)
			}
		})
	}
}

// many is a content that takes a while to be applied.
func many(image string) string {
	documents := []string{workload("Deployment", applying, image, "")}
	for i := range 100 {
		documents = append(documents, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: $ns, name: %s-%d}\ndata: {image: %q}", applying, i, image))
	}
	return strings.Join(documents, "\n---\n")
}

// intoPhases brings a ManagedResource into each phase but those that begin with the outage.
func (p place) intoPhases() {
	p.t.Helper()
	for _, name := range phases {
		if name == applying {
			p.manage(name, many(image1))
		} else {
			p.manage(name, workload("Deployment", name, image1, ""))
		}
	}
	for _, name := range phases {
		p.awaitReady(name)
	}
	p.hold(p.podsOf(ending, image1)[0])

	for _, name := range []string{halfway, ending} {
		p.manage(name, workload("Deployment", name, image2, noScheduler))
		p.Eventually(func() int { return len(p.podsOf(name, image2)) }).Should(Equal(1))
	}
	for range 2 {
		p.Eventually(func(g Gomega) {
			pods := p.podsOf(ending, image2)
			for _, pod := range pods {
				if !podIsReady(pod) {
					p.start(pod)
				}
			}
			g.Expect(pods).To(HaveLen(2))
		}).Should(Succeed())
	}
	ill := p.podsOf(sick, image1)[0]
	p.say(ill, running(ill, false, waiting(ill, "CrashLoopBackOff", "back-off").ContainerStatuses[0].State))
	p.await(sick, "False/DeploymentUnhealthy", isRolledOut)
	p.await(halfway, isHealthy, "True/DeploymentProgressing")
	p.awaitMessage(ending, progressing, "True/DeploymentProgressing", ContainSubstring("old pods remain"))

	p.Expect(p.target.Suspend(controlplane.ControllerManager)).To(Succeed())
	p.t.Cleanup(func() { _ = p.target.Resume(controlplane.ControllerManager) })
	p.manage(unseen, workload("Deployment", unseen, image2, noScheduler))
	p.await(unseen, "False/DeploymentUnhealthy", "True/DeploymentProgressing")
}

// latest is how long after a time the last of some ManagedResources said something first.
func (p place) latest(since time.Time, names []string, from map[string]mark, said func(*resourcesv1alpha1.ManagedResource) bool) (longest time.Duration) {
	for _, name := range names {
		versions := seen.Of(types.NamespacedName{Namespace: p.ns, Name: name})[from[name]:]
		for _, v := range versions {
			if said(v.ManagedResource) {
				longest = max(longest, v.At.Sub(since))
				break
			}
		}
	}
	return longest.Round(10 * time.Millisecond)
}
