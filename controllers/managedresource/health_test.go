package managedresource_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// status writes the status of an object of the target, as a controller would that does not run here.
func (p place) status(obj client.Object, status string) {
	p.t.Helper()
	patch := fmt.Sprintf(`{"status":%s}`, status)
	p.Expect(target.Client.Status().Patch(p.ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// rolledOut is the status of a Deployment with which all is well, whatever its generation.
const rolledOut = `{"observedGeneration":99,"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}`

// pod creates one that counts for a Deployment.
func (p place) pod(name, app string) {
	p.t.Helper()
	p.inTarget(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name, Labels: map[string]string{"app": app, resourcesv1alpha1.ManagedByLabel: resourcesv1alpha1.ManagedByDefault}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.org/app:1"}}},
	})
}

// rolling has a Deployment rolled out by the test, with its two pods.
func rolling(t *testing.T) place {
	t.Helper()
	p := registered(t)
	p.content("content", p.deploymentManifest("app", "{}"))
	p.mr("mr", "content")
	p.await("mr", has(applied, yes, ""), has(healthy, no, "DeploymentUnhealthy", "app is unhealthy: "), has(progressing, yes, "DeploymentProgressing", "app is progressing: "))
	p.pod("app-1", "app")
	p.pod("app-2", "app")
	p.status(p.deployment("app"), rolledOut)
	p.awaitReady("mr")
	return p
}

func TestH01_OtherClassIsNotJudged(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Class = ptr.To("other")
	p.inSource(mr)
	p.fence()
	p.Expect(p.get("mr").Status.Conditions).To(BeEmpty())
	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = nil })
	p.await("mr", has(healthy, yes, resourcesv1alpha1.ReasonResourcesHealthy), has(progressing, no, resourcesv1alpha1.ReasonResourcesRolledOut), has(ready, yes, "Ready"))
}

func TestH02_IgnoredManagedResourceIsNotJudged(t *testing.T) {
	t.Parallel()
	p := rolling(t)
	p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "true")
	const reason = resourcesv1alpha1.ReasonManagedResourceIgnored
	before := p.await("mr", has(healthy, yes, reason), has(progressing, no, reason), has(ready, yes, ""))
	p.status(p.deployment("app"), `{"conditions":[{"type":"Available","status":"False","message":"none"}]}`)
	p.fence()
	p.Expect(p.get("mr")).To(Equal(before))
	p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "false")
	p.await("mr", has(applied, yes, resourcesv1alpha1.ReasonApplySucceeded), has(healthy, no, "DeploymentUnhealthy"), has(progressing, yes, "DeploymentProgressing"), has(ready, no, "DeploymentUnhealthy"))
}

// What was said of an ignored ManagedResource is over when it is not, even if nothing can be applied.
func TestIgnoredManagedResourceThatCannotBeAppliedIsNotSaidToBeHealthy(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "true")
	p.await("mr", has(healthy, yes, resourcesv1alpha1.ReasonManagedResourceIgnored))
	cm := p.configMap("one")
	p.edit(target, cm, func() { cm.Data["key"] = "by hand" })
	p.forbid(admissionregistrationv1.Update, "", "configmaps", "changes are denied")
	p.Eventually(func() error { return target.Client.Update(p.ctx, cm, client.DryRunAll) }).Should(Satisfy(apierrors.IsInvalid))
	p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "false")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "changes are denied"),
		has(ready, no, resourcesv1alpha1.ReasonApplyFailed, "changes are denied"),
		has(healthy, unknown, resourcesv1alpha1.ReasonChecksPending), has(progressing, unknown, resourcesv1alpha1.ReasonChecksPending))
}

func TestH03_WhatIsNotAppliedIsNotJudged(t *testing.T) {
	t.Parallel()
	t.Run("absent", func(t *testing.T) {
		t.Parallel()
		p := registered(t)
		p.mr("mr", "missing")
		p.await("mr", has(applied, no, resourcesv1alpha1.ReasonCannotReadSecret), has(ready, no, resourcesv1alpha1.ReasonCannotReadSecret))
		p.Expect(p.get("mr").Status.Conditions).NotTo(ContainElement(HaveField("Type", BeElementOf(healthy, progressing))))
	})
	for name, test := range map[string]struct {
		happens func(p place)
		says    resourcesv1alpha1.ConditionStatus
		reason  string
	}{
		"waiting for what is to go": {
			func(p place) { p.content("content", p.deploymentManifest("app", "{}")) }, ongoing, resourcesv1alpha1.ReasonDeletionPending,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", p.deploymentManifest("app", "{}"), p.blocked("old"))
			p.mr("mr", "content")
			p.await("mr", has(healthy, no, "DeploymentUnhealthy"))
			test.happens(p)
			p.await("mr", has(applied, test.says, test.reason), has(healthy, unknown, resourcesv1alpha1.ReasonChecksPending))
			history := p.history("mr")
			p.status(p.deployment("app"), `{"observedGeneration":99,"conditions":[{"type":"Available","status":"False","message":"none"}]}`)
			p.pod("app-1", "app")
			p.fence()
			p.Expect(history.versions()).NotTo(ContainElement(Not(SatisfyAll(
				has(healthy, unknown, resourcesv1alpha1.ReasonChecksPending), has(progressing, unknown, resourcesv1alpha1.ReasonChecksPending), has(ready, no, test.reason)))))
			p.unblock(p.configMap("old"))
			p.content("content", p.deploymentManifest("app", "{}"))
			p.await("mr", has(applied, yes, ""), has(healthy, no, "DeploymentUnhealthy", "none"))
		})
	}
}

func TestH04_NothingIsHealthy(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", "# nothing")
	p.mr("mr", "content")
	mr := p.await("mr", has(healthy, yes, resourcesv1alpha1.ReasonResourcesHealthy), has(progressing, no, resourcesv1alpha1.ReasonResourcesRolledOut), has(ready, yes, "Ready"))
	p.Expect(mr.Status.Resources).To(BeEmpty())
}

// What goes is made again. If that cannot be, it is missing, and that it was well before is no excuse.
func TestH05_H08_MissingObjects(t *testing.T) {
	t.Parallel()
	p := rolling(t)
	p.forbid(admissionregistrationv1.Create, "apps", "deployments", "no new ones")
	probe := read(p, p.deployment("app"))
	probe.ObjectMeta = metav1.ObjectMeta{Namespace: p.ns, Name: "probe"}
	p.Eventually(func() error { return target.Client.Create(p.ctx, probe, client.DryRunAll) }).Should(Satisfy(apierrors.IsInvalid))
	p.Expect(target.Client.Delete(p.ctx, p.deployment("app"))).To(Succeed())
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "no new ones"), has(healthy, no, "DeploymentMissing", p.ns+"/app does not exist"),
		has(progressing, no, resourcesv1alpha1.ReasonResourcesRolledOut), has(ready, no, resourcesv1alpha1.ReasonApplyFailed))
}

func TestH05_ObjectOfAKindThatIsNotServedAnyMore(t *testing.T) {
	t.Parallel()
	p := registered(t)
	crd, plant := p.crd("Namespaced"), p.plant("one", fmt.Sprintf(`,"namespace":%q`, p.ns), 1)
	p.content("kind", crd)
	p.mr("kind", "kind")
	p.awaitReady("kind")
	p.content("content", plant, strings.Replace(plant, `"one"`, `"two"`, 1))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.annotateMR("kind", resourcesv1alpha1.IgnoreAnnotation, "true")
	p.await("kind", has(applied, yes, resourcesv1alpha1.ReasonManagedResourceIgnored))
	p.Expect(target.Client.Delete(p.ctx, p.liveCRD())).To(Succeed())
	// One after the other goes. When the first one cannot be made again, that is what is said from then on.
	p.await("mr", has(healthy, no, "PlantMissing", "Plant", p.ns+"/", " does not exist"))
	p.annotateMR("kind", resourcesv1alpha1.IgnoreAnnotation, "false")
	p.awaitReady("mr")
}

func TestH06_Pods(t *testing.T) {
	t.Parallel()
	p := registered(t)
	manifest := func(annotation string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":%q,"name":"one","annotations":{%s}},"spec":{"containers":[{"name":"app","image":"example.org/app:1"}]}}`, p.ns, annotation)
	}
	p.content("content", manifest(""))
	p.mr("mr", "content")
	p.await("mr", has(healthy, no, "PodUnhealthy", p.ns+"/one is unhealthy: the pod is in phase Pending"))
	p.content("content", manifest(fmt.Sprintf("%q:%q", resourcesv1alpha1.SkipHealthCheckAnnotation, "true")))
	p.await("mr", has(healthy, yes, resourcesv1alpha1.ReasonResourcesHealthy), observed())
	p.content("content", manifest(""))
	p.await("mr", has(healthy, no, "PodUnhealthy"))
	p.status(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "one"}}, `{"phase":"Running"}`)
	p.awaitReady("mr")
}

func TestH07_KindsWithoutRollOutsAreRolledOut(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":%q,"name":"one"}}`, p.ns))
	p.mr("mr", "content")
	p.await("mr", has(progressing, no, resourcesv1alpha1.ReasonResourcesRolledOut), has(ready, yes, ""))
}

func TestH09_H10_H11_H14_RollOutOfADeployment(t *testing.T) {
	t.Parallel()
	p := rolling(t)
	app := p.deployment("app")
	p.pod("app-3", "app")
	p.await("mr", has(healthy, yes, ""), has(progressing, yes, "DeploymentProgressing", p.ns+"/app is progressing: old pods remain"), has(ready, no, "DeploymentProgressing"))
	p.Expect(target.Client.Delete(p.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "app-3"}}, client.GracePeriodSeconds(0))).To(Succeed())
	p.awaitReady("mr")

	stuck := strings.Replace(rolledOut, `"status":"True","reason":"NewReplicaSetAvailable"`, `"status":"False","reason":"ProgressDeadlineExceeded","message":"timed out"`, 1)
	p.status(app, stuck)
	p.await("mr", has(healthy, no, "DeploymentUnhealthy", "timed out"), has(progressing, yes, "DeploymentProgressing", "timed out"), has(ready, no, "DeploymentUnhealthy", "timed out"))
	p.content("content", p.deploymentManifest("app", fmt.Sprintf("{%q:%q}", resourcesv1alpha1.SkipHealthCheckAnnotation, "true")))
	p.awaitReady("mr")
	p.content("content", p.deploymentManifest("app", "{}"))
	p.await("mr", has(healthy, no, "DeploymentUnhealthy", "timed out"), has(progressing, yes, "DeploymentProgressing", "timed out"))
	p.status(app, rolledOut)
	p.awaitReady("mr")
}

// A roll-out that does not get on says first what its pod waits for, in all conditions.
func TestStuckRollOutNamesWhatItsPodWaitsFor(t *testing.T) {
	t.Parallel()
	p := rolling(t)
	p.status(p.deployment("app"), strings.Replace(rolledOut, `"Available","status":"True"`, `"Available","status":"False","reason":"MinimumReplicasUnavailable","message":"too few"`, 1))
	p.status(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "app-2"}},
		`{"phase":"Pending","containerStatuses":[{"name":"app","image":"example.org/app:1","imageID":"","ready":false,"restartCount":0,"state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image"}}}]}`)
	const pod = "pod app-2: "
	p.await("mr", has(healthy, no, "DeploymentUnhealthy", "app is unhealthy: "+pod, "ImagePullBackOff", "too few"), has(ready, no, "DeploymentUnhealthy", "app is unhealthy: "+pod, "ImagePullBackOff"))
}

func TestH19_ManagedResourceThatIsDeletedIsNotJudged(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.deploymentManifest("app", "{}"), p.blocked("one"))
	p.mr("mr", "content")
	p.await("mr", has(healthy, no, "DeploymentUnhealthy"))
	p.deleteMR("mr")
	const reason = resourcesv1alpha1.ReasonDeletionPending
	p.await("mr", has(applied, ongoing, reason, p.ns+"/one", "foregroundDeletion"), has(healthy, no, reason), has(progressing, yes, reason), has(ready, no, reason))
	history := p.history("mr")
	one := p.configMap("one")
	p.edit(target, one, func() { one.Data["key"] = "by hand" })
	p.fence()
	p.Expect(history.versions()).NotTo(ContainElement(Not(SatisfyAll(has(healthy, no, reason), has(progressing, yes, reason)))))
	p.unblock(p.deployment("app"))
	p.unblock(one)
	p.awaitGone("mr")
}

// A load balancer that does not come says what the cloud said.
func TestUnhealthyServiceReportsItsWarnings(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":%q,"name":"one"},"spec":{"type":"LoadBalancer","ports":[{"port":80}]}}`, p.ns))
	for i := range 6 {
		p.inTarget(&corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: p.ns, GenerateName: "event-"},
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: p.ns, Name: "one"},
			Type:           corev1.EventTypeWarning, Reason: "SyncLoadBalancerFailed", Message: fmt.Sprintf("attempt %d", i), Count: 7,
			Source: corev1.EventSource{Component: "cloud"}, FirstTimestamp: metav1.Unix(1e9, 0), LastTimestamp: metav1.Unix(1e9+int64(i), 0),
		})
	}
	p.mr("mr", "content")
	mr := p.await("mr", has(healthy, no, "ServiceUnhealthy", p.ns+"/one is unhealthy: ", "\n  Last warning events:\n  - cloud, 5 times or more since 2001-09-09T01:46:40Z: SyncLoadBalancerFailed: attempt 1\n", "attempt 5"))
	p.Expect(resourcesv1alpha1.GetCondition(mr.Status.Conditions, healthy).Message).NotTo(ContainSubstring("attempt 0"))
	p.Expect(resourcesv1alpha1.GetCondition(mr.Status.Conditions, ready).Message).NotTo(ContainSubstring("attempt"), "it names the problem")
	p.status(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "one"}}, `{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}`)
	p.awaitReady("mr")
}
