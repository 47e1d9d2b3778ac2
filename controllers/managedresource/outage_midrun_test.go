package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// That a target goes away says nothing about what was applied, even if it goes in the middle of a run.
func TestTargetThatDiesInTheMiddleOfARunMakesNothingFail(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	mortal, err := testbed.StartCluster(p.ctx, controlplane.Options{Name: "mortal"})
	p.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(mortal.Stop)
	p.Expect(mortal.Client.Create(p.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.ns}})).To(Succeed())
	p.register("a", mortal.Kubeconfig())
	const n = 60
	documents := func(value string) (out []string) {
		for i := range n {
			out = append(out, testbed.ConfigMap(p.ns, fmt.Sprintf("cm-%d", i), value))
		}
		return out
	}
	values := func() []string {
		list := &corev1.ConfigMapList{}
		p.Expect(mortal.Client.List(p.ctx, list)).To(Succeed())
		var out []string
		for _, cm := range list.Items {
			if cm.Namespace == p.ns && cm.Data["key"] != "" {
				out = append(out, cm.Data["key"])
			}
		}
		return out
	}
	p.content("content", documents("1")...)
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.Expect(values()).To(HaveLen(n))

	h := p.holdConfigMaps(mortal, n/3)
	history := p.history("mr")
	p.content("content", documents("2")...)
	p.awaitHeld(h, 1)
	p.Expect(values()).To(ContainElements("1", "2"), "the run is in its middle")
	mortal.KillAPIServer()
	p.await("mr", has(healthy, unknown, resourcesv1alpha1.ReasonTargetUnreachable), has(applied, ongoing, resourcesv1alpha1.ReasonApplyProgressing))
	h.release()
	p.Expect(mortal.StartAPIServer(p.ctx)).To(Succeed())

	mr := p.awaitReady("mr")
	p.Expect(mr.Status.Resources).To(HaveLen(n))
	p.Expect(values()).To(SatisfyAll(HaveLen(n), HaveEach("2")))
	p.Expect(history.versions()).NotTo(BeEmpty())
	p.Expect(history.versions()).NotTo(ContainElement(has(applied, no, "")))
}
