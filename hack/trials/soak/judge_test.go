package soak

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/figures"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/trials/rig"
)

func TestWhatIsLeftBehindIsSeen(t *testing.T) {
	const visitors = 5
	began := time.Now()
	// constant is what a hub has that leaves nothing behind.
	constant := rig.Resources{Heap: 20 << 20, RSS: 90 << 20, Anonymous: 50 << 20, Goroutines: 200, Sockets: 12, Series: 700, TargetSeries: 30}
	for _, test := range []struct {
		name   string
		rounds int
		every  time.Duration
		leave  func(s *rig.Resources, round int)
		broken []string
	}{
		{"nothing is left", 6, 10 * time.Second, func(*rig.Resources, int) {}, nil},
		{"too few samples to see anything", 5, 10 * time.Second, func(*rig.Resources, int) {}, []string{"samples"}},
		{"none at all", 0, 0, nil, []string{"goroutines at the end", "series of targets at the end", "samples"}},
		{"a goroutine of each target", 6, 10 * time.Second, func(s *rig.Resources, round int) { s.Goroutines += visitors * round }, []string{"goroutines at the end"}},
		{"a socket of each target", 6, 10 * time.Second, func(s *rig.Resources, round int) { s.Sockets += visitors * round }, []string{"sockets at the end"}},
		{"a series of each target that is not named after it", 6, 10 * time.Second, func(s *rig.Resources, round int) { s.Series += visitors * round }, []string{"series of metrics at the end"}},
		{"a single series of a target", 6, 10 * time.Second, func(s *rig.Resources, round int) { s.TargetSeries += round / 5 }, []string{"series of targets at the end"}},
		{"goroutines while warming up", 6, 10 * time.Second, func(s *rig.Resources, round int) { s.Goroutines += min(round, 2) * 50 }, nil},
		{"some goroutines come and go", 6, 10 * time.Second, func(s *rig.Resources, round int) { s.Goroutines += round % 3 }, nil},
		{"the heap grows over a long run", 60, time.Minute, func(s *rig.Resources, round int) { s.Heap += int64(round) * 30 << 10 }, []string{"live heap, slope"}},
		{"goroutines creep over a long run", 60, time.Minute, func(s *rig.Resources, round int) { s.Goroutines += round / 3 }, []string{"goroutines at the end", "goroutines, slope"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			var samples []rig.Resources
			for round := range test.rounds {
				s := constant
				s.Time = began.Add(time.Duration(round+1) * test.every)
				test.leave(&s, round)
				samples = append(samples, s)
			}
			report := figures.NewReport("test", nil)
			judgeSamples(report.Begin("soak"), samples, began, visitors)
			broken := strings.Join(report.Broken(), "\n")
			for _, want := range test.broken {
				g.Expect(broken).To(ContainSubstring(want))
			}
			if len(test.broken) == 0 {
				g.Expect(broken).To(BeEmpty())
			}
		})
	}
}

func TestHistoriesOfThoseWhoStayAreJudged(t *testing.T) {
	write := func(verb string, before, after uint64) journal.Change {
		return journal.Change{Time: time.Now(), Verb: verb, Resource: "configmaps", Name: "a", UserAgent: "trellis", Changed: before != after, Before: before, After: after}
	}
	for _, test := range []struct {
		name    string
		history journal.History
		broken  []string
	}{
		{"written once", journal.History{Changes: []journal.Change{write("apply", 0, 1)}}, nil},
		{"deleted and created again", journal.History{Changes: []journal.Change{write("apply", 0, 1), write("delete", 1, 0), write("apply", 0, 1)}},
			[]string{"deleted wrongly", "created twice"}},
		{"not all is known", journal.History{Lost: 1, Changes: []journal.Change{write("apply", 0, 1)}}, []string{"lost writes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			report := figures.NewReport("test", nil)
			judgeHistories(report.Begin("soak"), []journal.History{test.history})
			g.Expect(report.Broken()).To(HaveLen(len(test.broken)))
			for i, want := range test.broken {
				g.Expect(report.Broken()[i]).To(ContainSubstring(want))
			}
		})
	}
}
