package failover

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

func TestWritesOfReplicasAreJudged(t *testing.T) {
	began := time.Now()
	version := uint64(0)
	write := func(by string, at time.Duration, verb, name string, before, after uint64) journal.Change {
		version++
		return journal.Change{Time: began.Add(at), Verb: verb, Resource: "configmaps", Name: name, UserAgent: rig.AgentOf(by), Changed: before != after,
			Before: before, After: after, ResourceVersion: version}
	}
	const s = time.Second
	for _, test := range []struct {
		name   string
		writes []journal.Change
		lost   int
		broken []string
		late   int // after the first write of b
	}{
		{"one follows the other", []journal.Change{write("a", 0, "apply", "x", 0, 1), write("b", s, "apply", "y", 0, 1)}, 0, nil, 0},
		{"the successor applies the same again", []journal.Change{write("a", 0, "apply", "x", 0, 1), write("b", s, "apply", "x", 1, 1)}, 0, nil, 0},
		{"it comes back much later", []journal.Change{write("a", 0, "apply", "x", 0, 1), write("b", s, "apply", "y", 0, 1), write("a", 20*s, "apply", "z", 0, 1)}, 0, nil, 1},
		{"two apply the same at a time", []journal.Change{write("a", 0, "apply", "x", 0, 1), write("b", s, "apply", "x", 1, 1), write("a", 2*s, "apply", "x", 1, 1)}, 0,
			[]string{"two at a time"}, 1},
		{"created twice", []journal.Change{write("a", 0, "apply", "round-0-0", 0, 1), write("a", s, "delete", "round-0-0", 1, 0), write("b", 2*s, "apply", "round-0-0", 0, 1)}, 0,
			[]string{"created twice"}, 0},
		{"deleted, although it is wanted", []journal.Change{write("a", 0, "apply", "x", 0, 1),
			write("a", s, "delete", "x", 1, 0)}, 0, []string{"deleted wrongly"}, 0},
		{"not all is known", []journal.Change{write("a", 0, "apply", "x", 0, 1)}, 1, []string{"lost writes"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			report := figures.NewReport("test", nil)
			judge(report.Begin("failover"), []journal.History{{Target: "t", Changes: test.writes, Lost: test.lost}})
			g.Expect(report.Broken()).To(HaveLen(len(test.broken)), "%v", report.Broken())
			for i, want := range test.broken {
				g.Expect(report.Broken()[i]).To(ContainSubstring(want))
			}
			first := firstWrite(test.writes, "b")
			if !first.IsZero() {
				g.Expect(lateWrites(test.writes, "b", first)).To(HaveLen(test.late))
			}
		})
	}
}
