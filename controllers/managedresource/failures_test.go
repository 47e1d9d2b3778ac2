package managedresource_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// failedApplies is what the hub counted of them until now.
func (p place) failedApplies() float64 {
	p.t.Helper()
	families, err := hub.Registry.Gather()
	p.Expect(err).NotTo(HaveOccurred())
	var sum float64
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if family.GetName() == "trellis_objects_applied_total" && l.GetName() == "result" && l.GetValue() == "error" {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// ofTarget is the sum of a metric over the targets of the place.
func (p place) ofTarget(metric string) func() float64 {
	return func() (sum float64) {
		families, err := hub.Registry.Gather()
		p.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == metric && strings.HasPrefix(m.GetLabel()[0].GetValue(), p.ns+"/") {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
		return sum
	}
}

// Not only the first problem is reported, and not only in a condition.
func TestW19_AllFailuresAreReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bad, named int
		says       []string
	}{
		"a few":            {3, 3, []string{"3 errors occurred"}},
		"more than fit in": {25, 20, []string{"25 errors occurred", "and 5 more"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			before := p.failedApplies()
			documents := []string{testbed.ConfigMap(p.ns, "one", "1")}
			says := test.says
			for i := range test.bad {
				documents = append(documents, testbed.ConfigMap(p.ns, fmt.Sprintf("Not_A_Name-%02d", i), "1"))
				if i < test.named {
					says = append(says, fmt.Sprintf("Not_A_Name-%02d", i))
				}
			}
			p.content("content", documents...)
			p.mr("mr", "content")
			p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, says...))
			p.awaitValue("one", "1")
			p.Expect(p.failedApplies()).To(BeNumerically(">=", before+float64(test.bad)))
			p.Expect(p.ofTarget("trellis_target_apply_failures_total")()).To(BeNumerically(">=", test.bad))
			p.Eventually(p.events).Should(ContainElement(SatisfyAll(HavePrefix("Warning ApplyFailed: "), ContainSubstring("Not_A_Name-00"))))
		})
	}
}
