package hub_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// TestHubServesTheOthersDuringAnOutage breaks two of three targets. The third one must not notice, and all is well
// again once the faults are cleared.
func TestHubServesTheOthersDuringAnOutage(t *testing.T) {
	w := newWorld(t, "outage-", 3)
	testbed.StartHubForTest(t, source, testbed.HubOptions{Config: func(c *configv1alpha1.HubConfiguration) {
		c.TargetClientConnection.QPS, c.TargetClientConnection.Burst = 1000, 1000
	}})
	targets := w.fleet.Targets()
	vanished, failing, healthy := targets[0], targets[1], targets[2]
	w.install()
	w.Eventually(w.managedResources).Should(HaveLen(20 * len(targets)))
	w.eventually(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue)

	w.journal.Reset()
	began := time.Now()
	toHub := fault.Match{UserAgents: []string{"trellis*"}}
	_, err := vanished.Faults().Set(fault.Fault{Kind: fault.BlackHole})
	w.Expect(err).NotTo(HaveOccurred())
	_, err = failing.Faults().Set(fault.Fault{Kind: fault.Latency, Delay: metav1.Duration{Duration: 500 * time.Millisecond}, Match: toHub})
	w.Expect(err).NotTo(HaveOccurred())
	_, err = failing.Faults().Set(fault.Fault{Kind: fault.Status, Code: 503, Match: toHub})
	w.Expect(err).NotTo(HaveOccurred())

	w.Expect(changes[0].do(w.ctx, failing)).To(Succeed(), changes[0].what)
	for i, edit := range changes {
		w.Expect(edit.do(w.ctx, healthy)).To(Succeed(), edit.what)
		w.Eventually(func() []float64 { return w.corrections(began, healthy).Millis }).Should(HaveLen(i+1), edit.what)
	}
	w.Expect(w.hasTheFixture(w.ctx, healthy)).To(Succeed())
	sent := w.change("outage")
	w.Eventually(func() []string { return w.journal.Reached(sent).Missing }).Should(ConsistOf(vanished.Name(), failing.Name()))
	w.Eventually(failing.Faults().Struck).Should(HaveKeyWithValue(fault.Status, BeNumerically(">", 0)))
	w.Eventually(vanished.Faults().Struck).Should(HaveKeyWithValue(fault.BlackHole, BeNumerically(">", 0)))
	w.Expect(w.corrections(began, failing).Pending[failing.Name()]).To(HaveLen(1), "the hub cannot correct it")
	during := journal.Since(began, healthy.Journal().History())
	w.Expect(journal.Repeated(byHub, during...).Err()).To(Succeed())
	w.Expect(journal.TwoAtATime(time.Hour, journal.ByConnection(byHub), during...).Err()).To(Succeed())

	for _, target := range targets {
		_, err := target.Faults().Clear()
		w.Expect(err).NotTo(HaveOccurred())
	}
	w.Eventually(func() []string { return w.journal.Reached(sent).Missing }).Should(BeEmpty())
	w.Eventually(func() map[string][]string { return w.corrections(began).Pending }).Should(BeEmpty())
	w.eventually(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue)
	// A request that the hub gave up during the outage may have been carried out all the same, and is then sent again.
	w.nothingWorse(began)
}
