package faults

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

// flat is a window in which everything took the same time.
func flat(drift, propagation, reference float64) rig.Drift {
	return rig.Drift{
		Corrections: journal.Corrections{Millis: []float64{drift, drift}, Reached: []float64{propagation, propagation}},
		Reference:   []float64{reference, reference},
	}
}

func TestHealthyTargetsAreComparedToTheirBaseline(t *testing.T) {
	calm := []rig.Drift{flat(10, 20, 1), flat(10, 20, 1)}
	for _, test := range []struct {
		name              string
		baselines, faulty []rig.Drift
		drift             verdict // of p50 and p99
		propagation       verdict
	}{
		{"as before", calm, []rig.Drift{flat(10, 20, 1)}, held, held},
		{"1.2 times", calm, []rig.Drift{flat(12, 24, 1)}, held, held},
		{"more than that", calm, []rig.Drift{flat(13, 24, 1)}, broken, held},
		{"the reference lost as much", calm, []rig.Drift{flat(23, 47, 2)}, held, held},
		{"the reference lost more than says anything", calm, []rig.Drift{flat(25, 20, 5)}, inconclusive, held},
		{"that the reference gained is no excuse", []rig.Drift{flat(10, 20, 2), flat(10, 20, 2)}, []rig.Drift{flat(11, 27, 1)}, held, broken},
		{"one odd baseline of three is no excuse", []rig.Drift{flat(10, 20, 1), flat(90, 20, 1), flat(10, 20, 1)}, []rig.Drift{flat(13, 20, 1), flat(13, 20, 1)}, broken, held},
		{"one odd window with the fault decides nothing", append(calm, calm...), []rig.Drift{flat(10, 20, 1), flat(90, 20, 1), flat(10, 20, 1)}, held, held},
		{"baselines differ a little", []rig.Drift{flat(9, 20, 1), flat(11, 20, 1)}, []rig.Drift{flat(13, 20, 1)}, held, held},
		{"baselines differ too much", []rig.Drift{flat(10, 20, 1), flat(90, 20, 1)}, []rig.Drift{flat(95, 20, 1)}, inconclusive, held},
		{"slow as they differ, but within what is allowed", []rig.Drift{flat(10, 20, 1), flat(90, 20, 1)}, []rig.Drift{flat(80, 20, 1)}, held, held},
		{"nothing was corrected", calm, []rig.Drift{{Corrections: journal.Corrections{Reached: []float64{20}}}}, broken,
			held},
		{"nothing was corrected on a restless machine", []rig.Drift{flat(10, 20, 1), flat(90, 20, 1)}, []rig.Drift{{}}, broken, broken},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			for i, c := range compare(test.baselines, test.faulty) {
				want := test.drift
				if i >= 2 {
					want = test.propagation
				}
				g.Expect(c.verdict()).To(Equal(want), "%+v", c)
				f := &figures.Figure{}
				c.show(f)
				g.Expect(f.Must && !*f.Held).To(Equal(want == broken))
				g.Expect(f.Held == nil).To(Equal(want == inconclusive))
			}
		})
	}
}
