package health

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The images of the two versions of all workloads.
const (
	image1 = "example.org/app:1"
	image2 = "example.org/app:2"
)

// noScheduler names a scheduler that does not exist: the test plays the kubelet of its pods.
const noScheduler = "\n      schedulerName: no-scheduler"

// workload is a manifest of a kind with two replicas. extra goes into the specification of its pods.
func workload(kind, name, image, extra string) string {
	more := "\n  replicas: 2"
	switch kind {
	case "StatefulSet":
		more += "\n  serviceName: " + name
	case "DaemonSet":
		more = ""
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata: {namespace: $ns, name: %s}
spec:%s
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %s}}
    spec:%s
      containers: [{name: main, image: %q}]`, kind, name, more, name, name, extra, image)
}

// What a ManagedResource may say.
func saysHealthy(mr *resourcesv1alpha1.ManagedResource) bool {
	return strings.HasPrefix(condition(mr, healthy), "True/")
}

func saysRolledOut(mr *resourcesv1alpha1.ManagedResource) bool {
	return strings.HasPrefix(condition(mr, progressing), "False/")
}

func saysReady(mr *resourcesv1alpha1.ManagedResource) bool {
	return strings.HasPrefix(condition(mr, ready), "True/")
}

// rollout is the change of the content of a ManagedResource, and what is said from then on.
type rollout struct {
	place
	name   string
	before *resourcesv1alpha1.ManagedResource
	from   mark
}

// roll changes the content of a ManagedResource.
func (p place) roll(name, documents string) rollout {
	p.t.Helper()
	r := rollout{p, name, p.mr(name), p.mark(name)}
	p.manage(name, documents)
	return r
}

// refute fails if anything was reported about the new content that the test has not made true yet.
func (r rollout) refute(claims ...func(*resourcesv1alpha1.ManagedResource) bool) {
	r.t.Helper()
	versions := ofNewContent(r.before, r.between(r.name, r.from, r.mark(r.name)))
	r.Expect(versions).NotTo(BeEmpty(), "nothing was said of the new content")
	for _, v := range versions {
		for i, claim := range claims {
			r.Expect(claim(v.ManagedResource)).To(BeFalse(), "claim %d of version %s is not true:\n%s", i, v.ResourceVersion, history(versions))
		}
	}
}

func TestEveryStepOfTheRolloutOfADeployment(t *testing.T) {
	t.Parallel()
	p := takeWest(t)
	d := p.manage("mr", workload("Deployment", "app", image1, ""))[0]
	p.awaitReady("mr")
	old := p.awaitPods(image1, 2)
	p.hold(old...)

	// H-22: the new generation was not observed yet, and the status is about the old one.
	p.Expect(p.target.Suspend(controlplane.ControllerManager)).To(Succeed())
	t.Cleanup(func() { _ = p.target.Resume(controlplane.ControllerManager) })
	r := p.roll("mr", workload("Deployment", "app", image2, noScheduler))
	p.await("mr", "False/DeploymentUnhealthy", "True/DeploymentProgressing")
	p.Expect(number(p.live(d), "status", "observedGeneration")).To(BeNumerically("<", p.live(d).GetGeneration()))
	r.refute(saysHealthy, saysRolledOut, saysReady)

	// The old pods serve while the first new one does not start.
	p.Expect(p.target.Resume(controlplane.ControllerManager)).To(Succeed())
	first := p.awaitPods(image2, 1)
	p.await("mr", isHealthy, "True/DeploymentProgressing")
	r.refute(saysRolledOut, saysReady)

	p.start(first...)
	both := p.awaitPods(image2, 2)
	r.refute(saysRolledOut, saysReady)

	// H-21: the Deployment is done, and the old pods are still ending.
	for _, pod := range both {
		if pod.Name != first[0].Name {
			p.start(pod)
		}
	}
	p.Eventually(func() string { return fmt.Sprint(p.live(d).Object["status"]) }).Should(ContainSubstring("NewReplicaSetAvailable"))
	p.awaitMessage("mr", progressing, "True/DeploymentProgressing", ContainSubstring("old pods remain: there are 4 pods instead of 2"))
	r.refute(saysRolledOut, saysReady)
	p.release(old[0])
	p.awaitMessage("mr", progressing, "True/DeploymentProgressing", ContainSubstring("there are 3 pods instead of 2"))
	r.refute(saysRolledOut, saysReady)

	p.release(old[1])
	p.awaitReady("mr")
}

func TestEveryStepOfTheRolloutOfAStatefulSet(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.manage("mr", workload("StatefulSet", "app", image1, ""))
	p.awaitReady("mr")
	old := p.pods(image1)
	p.hold(old...)

	r := p.roll("mr", workload("StatefulSet", "app", image2, noScheduler))
	for i, step := range []struct{ whileItEnds, beforeItStarts string }{
		{isHealthy, "True/StatefulSetProgressing"},
		{isHealthy, isRolledOut}, // as much as the status says: all pods are of the new revision
	} {
		ordinal := fmt.Sprintf("app-%d", 1-i)
		p.Eventually(func() bool { return p.pod(ordinal, image1).DeletionTimestamp != nil }).Should(BeTrue())
		p.await("mr", step.whileItEnds, "True/StatefulSetProgressing")
		r.refute(saysRolledOut, saysReady)

		p.release(p.pod(ordinal, image1))
		p.await("mr", "False/StatefulSetUnhealthy", step.beforeItStarts)
		r.refute(saysReady)
		p.start(p.pod(ordinal, image2))
	}
	p.awaitReady("mr")
}

func TestEveryStepOfTheRolloutOfADaemonSet(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.manage("mr", workload("DaemonSet", "app", image1, ""))
	p.awaitReady("mr")
	old := p.pods(image1)
	p.hold(old...)

	r := p.roll("mr", workload("DaemonSet", "app", image2, noScheduler))
	p.Eventually(func() bool { return p.pods(image1)[0].DeletionTimestamp != nil }).Should(BeTrue())
	p.await("mr", isHealthy, "True/DaemonSetProgressing")
	r.refute(saysRolledOut, saysReady)

	p.release(old...)
	p.awaitPods(image2, 1)
	p.await("mr", "False/DaemonSetUnhealthy", isRolledOut)
	r.refute(saysReady)
	p.start(p.pods(image2)...)
	p.awaitReady("mr")
}

// pod waits for a pod of a name and an image.
func (p place) pod(name, image string) (out corev1.Pod) {
	p.t.Helper()
	p.Eventually(func() string {
		for _, pod := range p.pods(image) {
			if pod.Name == name {
				out = pod
				return name
			}
		}
		return ""
	}).Should(Equal(name))
	return out
}

// Whatever is said of new content is compared with the target at the moment when it is said. Nothing holds the
// roll-outs up, and the ways to change content are those of producers: another Secret, and the same one.
func TestH09_RolloutsInOneGo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	kinds := []string{"Deployment", "StatefulSet", "DaemonSet"}
	documents := func(image string) string {
		var all []string
		for _, kind := range kinds {
			all = append(all, workload(kind, strings.ToLower(kind), image, ""))
		}
		return strings.Join(all, "\n---\n")
	}
	objects := p.manage("mr", documents(image1))
	p.awaitReady("mr")
	for i, change := range []struct {
		how   string
		image string
		to    func(documents string)
	}{
		{"another Secret", image2, func(documents string) {
			p.content("other", p.objects(documents))
			p.Expect(source.Client.Patch(p.ctx, testbed.ManagedResource(p.ns, "mr"), client.RawPatch(
				types.MergePatchType, []byte(`{"spec":{"secretRefs":[{"name":"other"}]}}`)))).To(Succeed())
		}},
		{"the same Secret", image1, func(documents string) { p.content("other", p.objects(documents)) }},
		{"the same Secret again", image2, func(documents string) { p.content("other", p.objects(documents)) }},
	} {
		before := p.mr("mr")
		end := p.compare("mr", before, objects, change.image)
		change.to(documents(change.image))
		p.Eventually(func() string { return checksum(p.mr("mr")) }).ShouldNot(Equal(checksum(before)), change.how)
		p.awaitReady("mr")
		for _, obj := range objects {
			p.Expect(notRolledOut(p, obj, change.image)).To(BeEmpty(), "change %d", i)
		}
		claims, lies := end()
		p.Expect(claims).To(BeNumerically(">", 0))
		p.Expect(lies).To(BeEmpty(), change.how)
	}
}

// compare has every claim about new content compared with the target as soon as it is seen, until the returned function
// is called. All that is claimed stays true once it is, so what is not true at that moment was not true before.
func (p place) compare(name string, before *resourcesv1alpha1.ManagedResource, objects []*unstructured.Unstructured, image string) (end func() (claims int, lies []string)) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.ctx)
	c, err := client.NewWithWatch(source.RESTConfig(), client.Options{Scheme: testbed.Scheme()})
	p.Expect(err).NotTo(HaveOccurred())
	w, err := c.Watch(ctx, &resourcesv1alpha1.ManagedResourceList{}, client.InNamespace(p.ns))
	p.Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	var claims int
	var found []string
	var last atomic.Value
	go func() {
		defer close(done)
		var versions []testbed.Version
		for event := range w.ResultChan() {
			mr, ok := event.Object.(*resourcesv1alpha1.ManagedResource)
			if !ok || mr.Name != name {
				continue
			}
			versions = append(versions, testbed.Version{ManagedResource: mr})
			if len(ofNewContent(before, versions)) == 0 {
				last.Store(mr.ResourceVersion)
				continue
			}
			for _, obj := range objects {
				if saysRolledOut(mr) || saysReady(mr) {
					claims++
					if why := notRolledOut(p, obj, image); why != "" {
						found = append(found, fmt.Sprintf("version %s says that %s is rolled out: %s", mr.ResourceVersion, obj.GetName(), why))
					}
				}
				if saysReady(mr) && notReady(p, obj) {
					found = append(found, fmt.Sprintf("version %s says that %s is ready, and not all of its pods are", mr.ResourceVersion, obj.GetName()))
				}
				if live := p.live(obj); saysHealthy(mr) && number(live, "status", "observedGeneration") < int(live.GetGeneration()) {
					found = append(found, fmt.Sprintf("version %s says that %s is healthy, whose last change was not observed", mr.ResourceVersion, obj.GetName()))
				}
			}
			last.Store(mr.ResourceVersion)
		}
	}()
	return func() (int, []string) {
		p.t.Helper()
		p.Eventually(last.Load).Should(Equal(p.mr(name).ResourceVersion))
		cancel()
		w.Stop()
		<-done
		return claims, found
	}
}

// notReady reports whether a pod of an object is not ready.
func notReady(p place, obj *unstructured.Unstructured) bool {
	for _, pod := range append(p.pods(image1), p.pods(image2)...) {
		if pod.Labels["app"] == obj.GetName() && !podIsReady(pod) {
			return true
		}
	}
	return false
}

// notRolledOut returns which parts of a live object do not have an image yet.
func notRolledOut(p place, obj *unstructured.Unstructured, image string) string {
	live := p.live(obj)
	containers, _, _ := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "containers")
	container, ok := containers[0].(map[string]any)
	if !ok || container["image"] != image {
		return "it has another image"
	}
	if number(live, "status", "observedGeneration") < int(live.GetGeneration()) {
		return "its last change was not observed"
	}
	labels, _, _ := unstructured.NestedStringMap(live.Object, "spec", "selector", "matchLabels")
	var former, current int
	for _, other := range []string{image1, image2} {
		for _, pod := range p.pods(other) {
			switch {
			case pod.Labels["app"] != labels["app"]:
			case other == image:
				current++
			default:
				former++
			}
		}
	}
	wanted := 2
	if obj.GetKind() == "DaemonSet" {
		wanted = 1
	}
	if former > 0 || current != wanted {
		return fmt.Sprintf("there are %d old pods and %d new ones", former, current)
	}
	return ""
}
