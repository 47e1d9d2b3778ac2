package fleetsim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Share picks so many percent of the targets, always the same ones for a seed: who is among 10 percent is among 20.
// They are returned in the order of their names.
func (f *Fleet) Share(percent float64) ([]*Target, error) {
	if !(percent >= 0 && percent <= 100) { // not a number is neither
		return nil, fmt.Errorf("%v percent of the targets: it must be between 0 and 100", percent)
	}
	targets := slices.SortedFunc(slices.Values(f.targets), func(a, b *Target) int { return cmp.Compare(a.seed, b.seed) })
	targets = targets[:int(math.Ceil(float64(len(targets))*percent/100))]
	slices.SortFunc(targets, func(a, b *Target) int { return cmp.Compare(a.name, b.name) })
	return targets, nil
}
