package managedresource_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// When a target goes away, every ManagedResource in it reports that, whatever else was wrong, and so it does when the
// target returns. If it is hibernated, nothing is reported, neither when it goes nor before or afterwards.
func TestTargetThatGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	mortal, err := testbed.StartCluster(p.ctx, controlplane.Options{Name: "mortal"})
	p.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(mortal.Stop)
	p.Expect(mortal.Client.Create(p.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.ns}})).To(Succeed())
	p.register("awake", mortal.Kubeconfig())
	p.register("asleep", mortal.Kubeconfig())
	p.register("other", target.Kubeconfig())
	manage := func(name, registration string, documents ...string) {
		p.content(name, documents...)
		mr := testbed.ManagedResource(p.ns, name, name)
		mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: registration}
		p.inSource(mr)
	}
	status := func(text string) {
		patch := client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"status":%s}`, text)))
		p.Expect(mortal.Client.Status().Patch(p.ctx, p.deployment("app"), patch)).To(Succeed())
	}
	well := strings.Replace(rolledOut, `"observedGeneration":99,`, `"observedGeneration":99,"replicas":0,`, 1)
	manage("fine", "awake", testbed.ConfigMap(p.ns, "fine", "1"))
	manage("failed", "awake", testbed.ConfigMap(p.ns, "Not_A_Name", "1"))
	manage("sleeping", "asleep", strings.Replace(p.deploymentManifest("app", "{}"), `"replicas":2`, `"replicas":0`, 1))
	manage("unread", "awake", testbed.ConfigMap(p.ns, "unread", "1"))
	manage("garbled", "awake", testbed.ConfigMap(p.ns, "garbled", "1"), "{")
	p.awaitReady("fine")
	p.awaitReady("unread")
	p.Expect(source.Client.Delete(p.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "unread"}})).To(Succeed())
	p.await("unread", has(applied, no, resourcesv1alpha1.ReasonCannotReadSecret), has(healthy, yes, ""))
	p.await("garbled", has(applied, no, resourcesv1alpha1.ReasonDecodingFailed), has(healthy, yes, ""))
	p.await("failed", has(ready, no, resourcesv1alpha1.ReasonApplyFailed))
	p.await("sleeping", has(healthy, no, "DeploymentUnhealthy"))
	status(well)
	before := p.awaitReady("sleeping").Status

	tc := p.targetCluster("asleep")
	p.edit(source, tc, func() { metav1.SetMetaDataAnnotation(&tc.ObjectMeta, hubv1alpha1.HibernatedAnnotation, "true") })
	sleeping := p.history("sleeping")
	p.Eventually(func() string { return hub.Log.About(p.ns) }).Should(ContainSubstring(`"target"="%s/asleep" "state"="Hibernated"`, p.ns))
	p.fenceThrough("other")
	mortal.KillAPIServer()
	const reason = resourcesv1alpha1.ReasonTargetUnreachable
	p.await("fine", has(applied, yes, ""), has(healthy, unknown, reason, p.ns+"/awake is not reachable since"), has(progressing, unknown, reason), has(ready, unknown, reason))
	for _, name := range []string{"failed", "unread", "garbled"} {
		p.await(name, has(healthy, unknown, reason), has(progressing, unknown, reason), has(ready, unknown, reason))
	}
	p.fenceThrough("other")

	p.Expect(mortal.StartAPIServer(p.ctx)).To(Succeed())
	p.awaitReady("fine")
	p.await("failed", has(applied, no, resourcesv1alpha1.ReasonApplyFailed), has(ready, no, resourcesv1alpha1.ReasonApplyFailed),
		has(healthy, unknown, resourcesv1alpha1.ReasonChecksPending), has(progressing, unknown, resourcesv1alpha1.ReasonChecksPending))
	p.await("unread", has(healthy, unknown, resourcesv1alpha1.ReasonChecksPending), has(ready, no, resourcesv1alpha1.ReasonCannotReadSecret))
	p.await("garbled", has(healthy, yes, ""), has(progressing, no, ""), has(ready, no, resourcesv1alpha1.ReasonDecodingFailed))
	status(strings.Replace(well, `"Available","status":"True"`, `"Available","status":"False"`, 1))
	p.fenceThrough("other")
	p.Expect(p.get("sleeping").Status).To(Equal(before))
	p.Expect(sleeping.versions()).NotTo(ContainElement(HaveField("Status", Not(Equal(before)))))

	p.edit(source, tc, func() { delete(tc.Annotations, hubv1alpha1.HibernatedAnnotation) })
	p.await("sleeping", has(healthy, no, "DeploymentUnhealthy", "Available"), has(ready, no, "DeploymentUnhealthy"))
}
