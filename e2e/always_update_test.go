package e2e

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// With alwaysUpdate every object is sent again in each period, although nothing differs; without, nothing is (see
// TestW07_W08_RestartOverAnUnchangedFleetSendsNothing).
func TestAlwaysUpdateSendsEverythingOnceAPeriod(t *testing.T) {
	s := newSpace(t, nil)
	s.register("target", east)
	testbed.StartHubForTest(t, source, testbed.HubOptions{Config: func(c *configv1alpha1.HubConfiguration) {
		c.Controllers.ManagedResource.AlwaysUpdate = true
		c.Controllers.ManagedResource.SyncPeriod = metav1.Duration{Duration: 15 * time.Second}
	}})
	s.manage("mr", s.configMap("one", "1"), s.configMap("two", "1"))
	s.eventuallyReady("mr")
	one := func() string {
		cm := &corev1.ConfigMap{}
		s.Expect(east.Client.Get(s.ctx, s.key("one"), cm)).To(Succeed())
		return cm.ResourceVersion
	}
	before := one()
	asked := listen(s.WithT, east)
	sent := func() map[string]int {
		count := map[string]int{}
		for _, e := range asked() {
			if e.Verb == "patch" && e.Namespace == s.name {
				count[e.Name]++
			}
		}
		return count
	}
	s.Eventually(sent).WithTimeout(90 * time.Second).Should(And(HaveKeyWithValue("one", 2), HaveKeyWithValue("two", 2)))
	s.Expect(one()).To(Equal(before), "nothing was changed by it")
}
