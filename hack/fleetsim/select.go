package fleetsim

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

// Selection picks targets of a fleet. The zero value picks all.
type Selection struct {
	// Names are those of targets, in which "*" stands for any characters. Empty: all.
	Names []string `json:"names,omitempty"`
	// Percent of those, always the same ones for a seed: who is among 10 percent is among 20. Zero: all.
	Percent float64 `json:"percent,omitempty"`
}

// Select returns the targets picked, in the order of their names. It fails if there is none, or none of one of the names.
func (f *Fleet) Select(s Selection) ([]*Target, error) {
	if !(s.Percent >= 0 && s.Percent <= 100) { // not a number is neither
		return nil, fmt.Errorf("%v percent of the targets: it must be between 0 and 100", s.Percent)
	}
	found := make([]bool, len(s.Names))
	var targets []*Target
	for _, t := range f.targets {
		picked := len(s.Names) == 0
		for i, name := range s.Names {
			if fault.Glob(name, t.name) {
				picked, found[i] = true, true
			}
		}
		if picked {
			targets = append(targets, t)
		}
	}
	if i := slices.Index(found, false); i >= 0 {
		return nil, fmt.Errorf("there is no target %q", s.Names[i])
	}
	if s.Percent == 0 {
		return targets, nil
	}
	slices.SortFunc(targets, func(a, b *Target) int { return cmp.Compare(a.seed, b.seed) })
	targets = targets[:int(math.Ceil(float64(len(targets))*s.Percent/100))]
	slices.SortFunc(targets, func(a, b *Target) int { return cmp.Compare(a.name, b.name) })
	return targets, nil
}
