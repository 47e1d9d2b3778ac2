package rig

import (
	"strings"

	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
)

// Complete adds the property that histories have all writes. What checks find, or do not find, in a part of them means nothing.
func Complete(step *figures.Step, histories []journal.History) {
	var incomplete []string
	for _, h := range histories {
		if h.Lost > 0 {
			incomplete = append(incomplete, h.Target)
		}
	}
	step.Add("journal: targets whose history lost writes", float64(len(incomplete)), "").Exactly(0).Strictly()
	if len(incomplete) > 0 {
		step.Note("lost writes: %s", strings.Join(incomplete[:min(len(incomplete), 5)], ", "))
	}
}
