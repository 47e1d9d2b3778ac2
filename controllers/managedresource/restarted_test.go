package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The note of what was applied comes a moment after the objects, so a hub may end in between.
func TestHubThatEndsBeforeItsNoteChangesNothingWhenItStarts(t *testing.T) {
	t.Parallel()
	p := apart(t, nil)
	p.register("a", target.Kubeconfig())
	noted := HaveField("Annotations", HaveKey(hubv1alpha1.AppliedAnnotation))
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), p.deploymentManifest("app", "{}"))
	p.mr("mr", "content")
	stop := p.run(testbed.HubOptions{})
	before := p.await("mr",
		has(applied, yes, resourcesv1alpha1.ReasonApplySucceeded), has(healthy, no, "DeploymentUnhealthy"), noted)
	stop()

	unnoted := before.DeepCopy()
	delete(unnoted.Annotations, hubv1alpha1.AppliedAnnotation)
	p.Expect(p.source.Client.Update(p.ctx, unnoted)).To(Succeed())
	one, app := read(p, p.configMap("one")), read(p, p.deployment("app"))

	stop = p.run(testbed.HubOptions{})
	defer func() { stop() }()
	p.await("mr", noted)
	p.Expect(read(p, p.configMap("one"))).To(Equal(one))
	p.Expect(read(p, p.deployment("app"))).To(Equal(app))
	p.Expect(p.get("mr").Status).To(Equal(before.Status), "nor is anything said that was not so before")
}
