package app_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// mayConnect reports whether a hub has a metric about the connection to the target. It has none of a hibernated one.
func (e *env) mayConnect(hub *testbed.Hub) func() bool {
	return func() bool {
		families, err := hub.Registry.Gather()
		e.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			if family.GetName() != "trellis_target_up" {
				continue
			}
			for _, m := range family.GetMetric() {
				for _, label := range m.GetLabel() {
					if label.GetName() == "target" && label.GetValue() == e.name+"/target" {
						return true
					}
				}
			}
		}
		return false
	}
}

// setHibernated marks the target as hibernated, or takes the mark off.
func (e *env) setHibernated(value string) {
	e.t.Helper()
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: "target"}}
	patch := `{"metadata":{"annotations":{"` + hubv1alpha1.HibernatedAnnotation + `":` + value + `}}}`
	e.Expect(source.Client.Patch(e.ctx, tc, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

func TestHibernatedTargetIsLeftAloneByEveryReplica(t *testing.T) {
	e := newEnv(t)
	leader := e.startHub()
	e.eventuallyReady()
	standby := e.startHub()
	for _, hub := range []*testbed.Hub{leader, standby} {
		e.Eventually(e.mayConnect(hub)).Should(BeTrue())
	}
	e.setHibernated(`"true"`)
	for _, hub := range []*testbed.Hub{leader, standby} {
		e.Eventually(e.mayConnect(hub)).Should(BeFalse())
	}
	e.Expect(e.condition(hubv1alpha1.ConditionReady)).To(Equal("True/Ready"))

	// A hub that begins while the target sleeps finds that out before it dials.
	e.stop(standby)
	late := e.startHub()
	e.Eventually(func() string { return late.Log.About(e.name) }).Should(ContainSubstring(`"state"="Hibernated"`))
	e.Expect(late.Log.About(e.name)).NotTo(ContainSubstring(`"state"="Connected"`))

	e.setHibernated("null")
	for _, hub := range []*testbed.Hub{leader, late} {
		e.Eventually(e.mayConnect(hub)).Should(BeTrue())
	}
	e.expectWork()
}
