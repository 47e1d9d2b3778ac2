package soak

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

func TestWhatIsLeftBehindIsSeen(t *testing.T) {
	const visitors = 5
	began := time.Now()
	// constant is what a hub has that leaves nothing behind.
	constant := rig.Resources{Heap: 20 << 20, RSS: 90 << 20, Anonymous: 50 << 20, Goroutines: 200, Sockets: 12, Series: 700, TargetSeries: 30}
	// events are what the events client has of what comes at an even pace: everything since the last but one look.
	events := func(s rig.Resources, began time.Time, perMinute int64) int64 {
		age := s.Time.Sub(began)
		forgotten := max(0, age.Truncate(eventRound)-eventRound)
		return int64((age - forgotten).Minutes() * float64(perMinute))
	}
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
		{"events pile up over a short run", 52, 8 * time.Second, func(s *rig.Resources, _ int) { s.Heap += events(*s, began, 300<<10) }, nil},
		{"and over half an hour", 37, time.Minute, func(s *rig.Resources, _ int) { s.Heap += events(*s, began, 300<<10) }, nil},
		{"events come and go over a long run", 60, time.Minute, func(s *rig.Resources, _ int) { s.Heap += events(*s, began, 300<<10) }, nil},
		{"many events come and go, and the run is no longer than it must", 40, time.Minute, func(s *rig.Resources, _ int) { s.Heap += events(*s, began.Add(4*time.Minute), 1<<20) }, nil},
		{"too short to distinguish growth from events", 35, time.Minute,
			func(s *rig.Resources, round int) { s.Heap += int64(round) * 200 << 10 }, nil},
		{"events come and go, and the heap grows besides", 60, time.Minute, func(s *rig.Resources, round int) {
			s.Heap += events(*s, began, 300<<10) + int64(round)*visitors<<12
		}, []string{"live heap, slope"}},
		{"a table fills up in the first ten minutes", 60, time.Minute, func(s *rig.Resources, round int) { s.Heap += int64(min(round, 10)) * 200 << 10 }, nil},
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
			step := report.Begin("soak")
			judgeSamples(step, samples, began, visitors)
			judgeSlope(step, samples, began)
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

// TestWhereInARoundARunEndsDoesNotMatter: a line through single samples would be too steep of some runs, and nothing leaks.
func TestWhereInARoundARunEndsDoesNotMatter(t *testing.T) {
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(1, 0))
	heap := func(s rig.Resources) float64 { return mib(s.Heap) }
	steepest := 0.0
	for phase := time.Duration(0); phase < eventRound; phase += time.Second {
		began := time.Now()
		var samples []rig.Resources
		for minute := range 38 { // the shortest run of which the slope is judged
			at := time.Duration(minute)*time.Minute + time.Duration(40+random.IntN(15))*time.Second
			held := (at + phase) % eventRound
			samples = append(samples, rig.Resources{Time: began.Add(at), Heap: 20<<20 + int64(held.Minutes()*(300<<10))})
		}
		samples = counted(samples, began.Add(kept))
		means := ofRounds(samples, heap)
		g.Expect(means).To(HaveLen(enoughRounds))
		g.Expect(figures.Slope(means)).To(BeNumerically("~", 0, flat*2/3), "phase %s", phase)
		var single []float64
		for _, s := range samples {
			single = append(single, heap(s))
		}
		steepest = max(steepest, figures.Slope(single))
	}
	g.Expect(steepest).To(BeNumerically(">", flat))
}

func TestWhatATargetLeavesInTheHeapIsSeen(t *testing.T) {
	// uneven is by how much a hub at rest differs from one look to the next.
	uneven := []int64{3 << 10, 40 << 10, 0, 90 << 10, 20 << 10, 25 << 10, 60 << 10}
	at := func(visits int, rested time.Duration, heap int64, times int64) settled {
		s := settled{visits: visits, rested: rested}
		for _, more := range uneven {
			s.samples = append(s.samples, rig.Resources{Heap: heap + more*times})
		}
		return s
	}
	// What tables that are bounded by a number, and far from it, take at least and at most.
	const few, tables = 200, 700
	for _, test := range []struct {
		name           string
		visits         int
		rested         time.Duration
		left           int64 // bytes by each target
		times          int64 // as uneven
		broken, missed string
	}{
		{"nothing", 500, kept, 0, 1, "", ""},
		{"less than there was", 500, kept, -500, 1, "", ""},
		{"entries of tables", 500, kept, tables, 1, "", ""},
		{"a few entries of tables, and 2 KiB", 500, kept, few + 2<<10, 1, "left by a target", ""},
		{"a few entries of tables, and 1 KiB of each of many", 5000, kept, few + 1<<10, 1, "left by a target", ""},
		{"entries of tables of many", 5000, kept, tables, 1, "", ""},
		{"maps that are larger than before", 500, kept, tables + (300<<10)/500, 1, "", ""},
		{"a ManagedResource", 500, kept, 4 << 10, 1, "left by a target", ""},
		{"a ManagedResource of as few targets as may be", enoughVisits, kept, 4 << 10, 1, "left by a target", ""},
		{"a connection", 500, kept, 60 << 10, 1, "left by a target", ""},
		{"too few to judge", enoughVisits - 1, kept, 4 << 10, 1, "", ""},
		{"events are not gone", 500, 7 * time.Minute, 4 << 10, 1, "", ""},
		{"a restless hub", 500, kept, 0, 10, "", "spread"},
		{"a restless hub hides nothing large", 500, kept, 4 << 10, 10, "left by a target", "spread"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			report := figures.NewReport("test", nil)
			judgeRest(report.Begin("cycles"), at(20, test.rested, 17<<20, test.times), at(20+test.visits, test.rested, 17<<20+int64(test.visits)*test.left, test.times))
			expect := func(got []string, want string) {
				if want == "" {
					g.Expect(got).To(BeEmpty())
				} else {
					g.Expect(got).To(ConsistOf(ContainSubstring(want)))
				}
			}
			expect(report.Broken(), test.broken)
			expect(report.Missed(), test.missed)
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
