package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func (p place) jobManifest(name, image string) string {
	return fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {namespace: %s, name: %s}, spec: {ttlSecondsAfterFinished: 0,
template: {spec: {restartPolicy: Never, containers: [{name: job, image: %q}]}}}}`, p.ns, name, image)
}

func (p place) job(name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name}}
}

const (
	succeeded = `{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:01Z","succeeded":1,
"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}`
	gaveUp = `{"startTime":"2026-01-01T00:00:00Z","failed":1,
"conditions":[{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"True"}]}`
)

// end has a Job end and be removed, as the controllers of Jobs and of their time to live do, which do not run here.
func (p place) end(name, status string) {
	p.t.Helper()
	job := read(p, p.job(name))
	p.status(job, status)
	p.Expect(target.Client.Delete(p.ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})).To(Succeed())
}

// A Job that its time to live removed has done what it was for. It does not run again, whatever else happens, until its
// manifest changes.
func TestJobThatSucceededAndIsRemovedIsDone(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.jobManifest("setup", "example.org/setup:1"), testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	before := p.get("mr").Annotations[hubv1alpha1.AppliedAnnotation]
	p.end("setup", succeeded)
	p.await("mr", has(ready, yes, ""), HaveField("Annotations", HaveKeyWithValue(hubv1alpha1.AppliedAnnotation, Not(Equal(before)))))
	p.expectAbsent(p.job("setup"))

	history := p.history("mr")
	one := p.configMap("one")
	p.edit(target, one, func() { one.Data["key"] = "by hand" })
	p.awaitValue("one", "1")
	p.content("content", p.jobManifest("setup", "example.org/setup:1"), testbed.ConfigMap(p.ns, "one", "2"))
	p.awaitValue("one", "2")
	p.operation("mr", resourcesv1alpha1.OperationReconcile)
	p.await("mr", Not(HaveField("Annotations", HaveKey(resourcesv1alpha1.OperationAnnotation))))
	mr := p.awaitReady("mr")
	p.fence()
	p.expectAbsent(p.job("setup"))
	p.Expect(mr.Status.Resources).To(ContainElement(SatisfyAll(HaveField("Name", "setup"), HaveField("UID", Not(BeEmpty())))))
	p.Expect(history.versions()).NotTo(ContainElement(has(healthy, no, "")))

	p.content("content", p.jobManifest("setup", "example.org/setup:2"), testbed.ConfigMap(p.ns, "one", "2"))
	p.Eventually(func() error {
		return target.Client.Get(p.ctx, client.ObjectKeyFromObject(p.job("setup")), p.job("setup"))
	}).Should(Succeed())
	p.awaitReady("mr")
	p.end("setup", succeeded)
	p.deleteMR("mr")
	p.awaitGone("mr")
}

// What failed, or was deleted before it had succeeded, has not done what it was for.
func TestJobThatDidNotSucceedIsCreatedAgain(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]string{"failed": gaveUp, "not ended": `{}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", p.jobManifest("setup", "example.org/setup:1"))
			p.mr("mr", "content")
			p.awaitReady("mr")
			uid := read(p, p.job("setup")).UID
			p.end("setup", status)
			p.Eventually(func() (*batchv1.Job, error) {
				job := p.job("setup")
				return job, target.Client.Get(p.ctx, client.ObjectKeyFromObject(job), job)
			}).Should(HaveField("UID", Not(Equal(uid))))
			p.awaitEvent("Job.batch NS/setup was deleted; it is created again, and will be deleted again by the target's TTL controller")
		})
	}
}

// That a Job is done is not forgotten when the hub is started again.
func TestJobThatIsDoneDoesNotRunAgainAfterARestart(t *testing.T) {
	t.Parallel()
	p := apart(t, nil)
	p.register("a", target.Kubeconfig())
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), p.jobManifest("setup", "example.org/setup:1"))
	p.mr("mr", "content")
	stop := p.run(testbed.HubOptions{})
	noted := HaveField("Annotations", HaveKey(hubv1alpha1.AppliedAnnotation))
	before := p.await("mr", has(ready, yes, ""), noted).Annotations[hubv1alpha1.AppliedAnnotation]
	p.end("setup", succeeded)
	p.await("mr", HaveField("Annotations", HaveKeyWithValue(hubv1alpha1.AppliedAnnotation, Not(Equal(before)))))
	stop()

	stop = p.run(testbed.HubOptions{})
	defer func() { stop() }()
	// Another one that comes later is applied, so the hub had its time. An edit of the first one would not do: before
	// the hub has looked at it, that has all of it applied again, Job included.
	p.content("more", testbed.ConfigMap(p.ns, "two", "1"))
	p.mr("later", "more")
	p.awaitValue("two", "1")
	p.expectAbsent(p.job("setup"))
	p.Expect(p.get("mr")).To(has(ready, yes, ""))
}
