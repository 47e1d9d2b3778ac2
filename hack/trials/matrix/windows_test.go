package matrix

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/trials/rig"
)

// flat is a window in which everything took the same time.
func flat(drift, propagation, reference float64) rig.Drift {
	return rig.Drift{
		Corrections: rig.Corrections{Millis: []float64{drift, drift}, Reached: []float64{propagation, propagation}}, Reference: []float64{reference, reference},
	}
}

func TestHealthyTargetsAreComparedToTheirBaseline(t *testing.T) {
	for _, test := range []struct {
		name              string
		baselines, faulty []rig.Drift
		held              []bool // drift p50, p99, propagation p50, p99
	}{
		{"as before", []rig.Drift{flat(10, 20, 1), flat(10, 20, 1)}, []rig.Drift{flat(10, 20, 1)}, []bool{true, true, true, true}},
		{"1.2 times", []rig.Drift{flat(10, 20, 1), flat(10, 20, 1)}, []rig.Drift{flat(12, 24, 1)}, []bool{true, true, true, true}},
		{"more than that", []rig.Drift{flat(10, 20, 1), flat(10, 20, 1)}, []rig.Drift{flat(13, 24, 1)}, []bool{false, false, true, true}},
		{"the reference lost as much", []rig.Drift{flat(10, 20, 1), flat(10, 20, 1)}, []rig.Drift{flat(23, 47, 2)}, []bool{true, true, true, true}},
		{"that the reference gained is no excuse", []rig.Drift{flat(10, 20, 2), flat(10, 20, 2)}, []rig.Drift{flat(11, 27, 1)}, []bool{true, true, false, false}},
		{"baselines differ as much", []rig.Drift{flat(10, 20, 1), flat(30, 20, 1)}, []rig.Drift{flat(31, 27, 1)}, []bool{true, true, false, false}},
		{"nothing was corrected", []rig.Drift{flat(10, 20, 1), flat(10, 20, 1)}, []rig.Drift{{Corrections: rig.Corrections{Reached: []float64{20}}}}, []bool{false, false, true, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var held []bool
			for _, c := range compare(test.baselines, test.faulty) {
				held = append(held, c.held())
			}
			NewWithT(t).Expect(held).To(Equal(test.held))
		})
	}
}
