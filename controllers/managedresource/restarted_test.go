package managedresource_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// The note of what was applied comes a moment after the objects, so a hub may end in between.
func TestHubThatEndsBeforeItsNoteChangesNothingWhenItStarts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	own, err := hubtest.StartCluster(t.Context(), controlplane.Options{Name: "source"})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(own.Stop)
	g.Expect(hubtest.InstallSource(t.Context(), own.Client)).To(Succeed())
	p := place{WithT: g, t: t, ctx: context.Background(), ns: hubtest.Namespace(t, nil, own, target)}
	run := func() (stop func()) {
		h, err := hubtest.StartHub(p.ctx, own, hubtest.HubOptions{})
		p.Expect(err).NotTo(HaveOccurred())
		return func() { h.Stop(); p.Expect(h.Err()).NotTo(HaveOccurred()) }
	}
	mr := func() *resourcesv1alpha1.ManagedResource {
		mr := &resourcesv1alpha1.ManagedResource{}
		p.Expect(own.Client.Get(p.ctx, client.ObjectKey{Namespace: p.ns, Name: "mr"}, mr)).To(Succeed())
		return mr
	}
	noted := HaveField("Annotations", HaveKey(hubv1alpha1.AppliedAnnotation))
	p.Expect(own.Client.Create(p.ctx, hubtest.Registration(p.ns, "a", target.Kubeconfig()))).To(Succeed())
	p.Expect(own.Client.Create(p.ctx, hubtest.Content(p.ns, "content", manifests, hubtest.ConfigMap(p.ns, "one", "1"), p.deploymentManifest("app", "{}")))).To(Succeed())
	p.Expect(own.Client.Create(p.ctx, hubtest.ManagedResource(p.ns, "mr", "content"))).To(Succeed())
	stop := run()
	p.Eventually(mr).Should(SatisfyAll(has(applied, yes, resourcesv1alpha1.ReasonApplySucceeded), has(healthy, no, "DeploymentUnhealthy"), noted))
	stop()

	before := mr()
	unnoted := before.DeepCopy()
	delete(unnoted.Annotations, hubv1alpha1.AppliedAnnotation)
	p.Expect(own.Client.Update(p.ctx, unnoted)).To(Succeed())
	one, app := read(p, p.configMap("one")), read(p, p.deployment("app"))

	stop = run()
	defer func() { stop() }()
	p.Eventually(mr).Should(noted)
	p.Expect(read(p, p.configMap("one"))).To(Equal(one))
	p.Expect(read(p, p.deployment("app"))).To(Equal(app))
	p.Expect(mr().Status).To(Equal(before.Status), "nor is anything said that was not so before")
}
