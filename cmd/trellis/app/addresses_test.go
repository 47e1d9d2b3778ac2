package app_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// A hub connects to its own machine only if its operator allows that. This does not apply to its source, which is
// there, too.
func TestTargetOnTheMachineOfTheHubHasToBeAllowed(t *testing.T) {
	e := newEnv(t)
	strict := e.startHub(func(c *configv1alpha1.HubConfiguration) { c.ClusterCache.AllowedNetworks = nil })
	said := func() string {
		tc := &hubv1alpha1.TargetCluster{}
		e.Expect(client.IgnoreNotFound(source.Client.Get(e.ctx, types.NamespacedName{Namespace: e.name,
			Name: "target"}, tc))).To(Succeed())
		if c := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionReady); c != nil {
			return c.Reason + ": " + c.Message
		}
		return ""
	}
	e.Eventually(said).Should(And(HavePrefix("KubeconfigRefused: "),
		ContainSubstring("in no network that the operator of the hub allows")))
	e.Expect(e.value()).To(BeEmpty())
	e.stop(strict)

	e.startHub()
	e.expectWork()
}
