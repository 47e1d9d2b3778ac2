package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// writes lists what the hub wrote to ManagedResources of the namespace since a time. Besides their status these are
// notes of what it has seen, of which a change that it lets pass is one.
func (p place) writes(since time.Time) []string {
	p.t.Helper()
	entries, err := source.AuditEntries()
	p.Expect(err).NotTo(HaveOccurred())
	out := []string{}
	for _, e := range entries {
		if e.Namespace == p.ns && e.Resource == "managedresources" && e.Verb != "get" && e.Verb != "list" && e.Verb != "watch" && e.UserAgent == "trellis" && e.Time.After(since) {
			out = append(out, fmt.Sprintf("%s %s", e.Time.Format("15:04:05.000"), e))
		}
	}
	return out
}

// awaitNoted waits until the hub is done with a ManagedResource: some seconds after all is well it writes down that it
// is.
func (p place) awaitNoted(name string) {
	p.t.Helper()
	p.Eventually(func() map[string]string { return p.mr(name).Annotations }).Should(HaveKey(hubv1alpha1.AppliedAnnotation))
}

// H-15 to H-18: changes by others to live objects, in metadata, status and pods, are checked each time, and nothing is
// written as long as the result is the same. At the end there is a change that is written, and by then all earlier ones
// have been checked.
func TestH15_ChangesThatChangeNoVerdict(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	objects := p.manage("mr", workload("Deployment", "deployment", image1, "")+"\n---\n"+workload("StatefulSet", "statefulset", image1, "")+"\n---\n"+
		workload("DaemonSet", "daemonset", image1, "")+`
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: $ns, name: config}
---
apiVersion: v1
kind: Service
metadata: {namespace: $ns, name: service}
spec: {selector: {app: deployment}, ports: [{port: 80}]}`)
	p.awaitReady("mr")
	p.awaitNoted("mr")
	p.mark("mr")
	since := time.Now()
	for i := range 10 {
		for _, obj := range objects {
			p.patch(obj, fmt.Sprintf(`{"metadata":{"labels":{"example.org/note":"%d"}}}`, i))
			if obj.GetKind() != "Deployment" { // of which annotations make another generation
				p.patch(obj, fmt.Sprintf(`{"metadata":{"annotations":{"example.org/note":"%d"}}}`, i))
			}
			if obj.GetKind() == "Deployment" || obj.GetKind() == "StatefulSet" {
				p.patchStatus(obj, fmt.Sprintf(`{"status":{"collisionCount":%d}}`, i))
			}
		}
		for _, pod := range p.pods(image1) {
			p.say(pod, corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions, Message: fmt.Sprint(i), ContainerStatuses: pod.Status.ContainerStatuses})
		}
		p.lonely(fmt.Sprint("stranger-", i), map[string]string{"app": "stranger", resourcesv1alpha1.ManagedByLabel: resourcesv1alpha1.ManagedByDefault})
	}
	// The last events of all watches that there are: each is sent on its own, and undone.
	for _, obj := range objects[:3] {
		pod := p.ofOwner(obj.GetName())[0]
		p.say(pod, running(pod, false, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}))
		kind := obj.GetKind()
		p.await("mr", "False/"+kind+"Unhealthy", Not(BeEmpty()))
		if kind == "Deployment" { // the first time that anything is said
			first := p.writes(since)
			p.Expect(len(first)).To(BeNumerically("<=", 2), "%v", first)
		}
		p.start(pod)
		p.await("mr", isHealthy, isRolledOut)
	}
	written := p.writes(since)
	t.Logf("%d writes", len(written))
	p.Expect(len(written)).To(BeNumerically("<=", 3*2*2), "%v", written)
}

// ofOwner lists the pods with a label app.
func (p place) ofOwner(app string) (out []corev1.Pod) {
	p.t.Helper()
	for _, pod := range p.pods(image1) {
		if pod.Labels["app"] == app {
			out = append(out, pod)
		}
	}
	p.Expect(out).NotTo(BeEmpty())
	return out
}

func TestH14_SkippedObjects(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			obj := p.manage("mr", workload(kind, "app", image1, noScheduler))[0]
			p.await("mr", "False/"+kind+"Unhealthy", Not(BeEmpty()))
			// The annotation is read from the live object, and only "true" counts.
			p.patch(obj, `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":"1"}}}`)
			p.patch(obj, `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":"true"}}}`)
			p.awaitReady("mr")
			p.awaitNoted("mr")
			since := time.Now()
			for i := range 5 { // a roll-out that goes nowhere, and starts again and again
				p.patch(obj, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"%d"}}}}}`, i))
			}
			p.Eventually(func() bool {
				live := p.live(obj)
				return number(live, "status", "observedGeneration") == int(live.GetGeneration())
			}).Should(BeTrue())
			said := slices.DeleteFunc(p.writes(since), func(w string) bool { return !strings.Contains(w, "/status") })
			p.patch(obj, `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":null}}}`)
			p.await("mr", "False/"+kind+"Unhealthy", Not(BeEmpty()))
			p.Expect(said).To(BeEmpty())
		})
	}
}
