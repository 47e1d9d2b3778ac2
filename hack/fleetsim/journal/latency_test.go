package journal_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	. "github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

func TestDrift(t *testing.T) {
	late := after(3 * time.Second)
	for _, test := range []struct {
		name                         string
		writes                       []written
		samples, superseded, pending int
		max                          time.Duration
	}{
		{"changed and corrected", both(hubWrites(0, 1), somebodyWrites(1, 2), hubWrites(2, 1, late)), 1, 0, 0, 2 * time.Second},
		{"changed twice, the first counts", both(hubWrites(0, 1), somebodyWrites(1, 2), somebodyWrites(2, 3), hubWrites(3, 1)), 1, 0, 0, 2 * time.Second},
		{"deleted and created again", both(hubWrites(0, 1), somebodyDeletes(1), hubWrites(0, 1, uid("uid-2"))), 1, 0, 0, time.Second},
		{"created again with what the server assigns", both(hubWrites(0, 1), somebodyDeletes(1), hubWrites(0, 9, uid("uid-2"))), 1, 0, 0, time.Second},
		{"deleted, created by somebody else and corrected",
			both(hubWrites(0, 1), somebodyDeletes(1), somebodyWrites(0, 2, uid("uid-2")), hubWrites(2, 1, uid("uid-2"))), 1, 0, 0, 2 * time.Second},
		{"changed and not corrected", both(hubWrites(0, 1), somebodyWrites(1, 2)), 0, 0, 1, 0},
		{"mended by somebody", both(hubWrites(0, 1), somebodyWrites(1, 2), somebodyWrites(2, 1)), 0, 0, 0, 0},
		{"not the owner's", both(somebodyWrites(0, 1), somebodyWrites(1, 2)), 0, 0, 0, 0},
		{"only a status", both(hubWrites(0, 1), somebodyWrites(1, 1, changed, resource("configmaps/status"))), 0, 0, 0, 0},
		{"by a subresource", both(hubWrites(0, 1), somebodyWrites(1, 2, resource("configmaps/scale")), hubWrites(2, 1)), 1, 0, 0, time.Second},
		{"given up by the owner", both(hubWrites(0, 1), somebodyWrites(1, 2), hubDeletes(2), somebodyWrites(0, 3)), 0, 0, 0, 0},
		{"the owner wants something else by now", both(hubWrites(0, 1), somebodyWrites(1, 2), hubWrites(2, 3)), 0, 1, 0, 0},
		{"again after something else", both(hubWrites(0, 1), somebodyWrites(1, 2), hubWrites(2, 3), somebodyWrites(3, 4), hubWrites(4, 3)), 1, 1, 0, time.Second},
		{"what was there before the owner came", both(somebodyWrites(0, 1), somebodyWrites(1, 2), hubWrites(2, 3)), 0, 0, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			j, alpha := target(Options{Owner: ByManager("trellis")})
			history(alpha, test.writes...)
			got := alpha.Latencies()
			g.Expect(j.Latencies()).To(Equal(got))
			g.Expect(got.Drift.Samples).To(BeEquivalentTo(test.samples))
			g.Expect(got.Drift.Max).To(Equal(test.max))
			g.Expect(got.Superseded).To(Equal(test.superseded))
			g.Expect(got.Pending).To(HaveLen(test.pending))
			g.Expect(got.PendingTotal).To(Equal(test.pending))
		})
	}
}

func TestPendingDrift(t *testing.T) {
	g := NewWithT(t)
	_, alpha := target(Options{})
	history(alpha, hubWrites(0, 1), hubWrites(0, 1, named("two")), somebodyDeletes(1), somebodyWrites(1, 2, named("two")))
	pending := alpha.Latencies().Pending
	g.Expect(pending).To(HaveLen(2))
	g.Expect(pending[0].Since).To(BeTemporally("==", start.Add(2*time.Second)), "the oldest comes first")
	g.Expect(pending[0].String()).To(HavePrefix("alpha: configmaps default/one, deleted by kubectl-edit (kubectl/v1.36, somebody) at "))
	g.Expect(pending[1].String()).To(HavePrefix("alpha: configmaps default/two, changed by kubectl-edit"))
	alpha.Reset()
	g.Expect(alpha.Latencies().Pending).To(BeEmpty(), "a new phase begins without them")
}

func TestDriftOfLoadedObjects(t *testing.T) {
	g := NewWithT(t)
	_, alpha := target(Options{Owned: func(target string, c Change) bool { return target == "alpha" && c.Name == "one" }})
	history(alpha, somebodyWrites(1, 2), somebodyWrites(1, 2, named("two")), hubWrites(2, 1))
	g.Expect(alpha.Latencies().Drift.Max).To(Equal(2 * time.Second))
	g.Expect(alpha.Latencies().PendingTotal).To(BeZero())
}

func TestWatchedObjectsAreBounded(t *testing.T) {
	g := NewWithT(t)
	_, alpha := target(Options{Objects: 2})
	history(alpha, hubWrites(0, 1), hubWrites(0, 1, named("two")), hubWrites(0, 1, named("three")), somebodyWrites(1, 2, named("three")), somebodyWrites(1, 2))
	g.Expect(alpha.Latencies().Unwatched).To(Equal(1), "it says so")
	g.Expect(alpha.Latencies().PendingTotal).To(Equal(1))
}

func TestPropagation(t *testing.T) {
	g := NewWithT(t)
	_, alpha := target(Options{})
	history(alpha,
		hubWrites(0, 1), // without the annotation
		hubWrites(1, 2, sentAt(500*time.Millisecond)),
		somebodyWrites(2, 3, sentAt(500*time.Millisecond)),
		hubWrites(3, 2, sentAt(500*time.Millisecond)), // a correction of what is measured already
		somebodyDeletes(2), hubWrites(0, 2, uid("2"), sentAt(500*time.Millisecond)), // and another one
		hubWrites(2, 4, uid("2"), sentBefore(100*time.Millisecond)),
	)
	got := alpha.Latencies().Propagation
	g.Expect(got.Samples).To(BeEquivalentTo(2))
	g.Expect(got.Max).To(Equal(500 * time.Millisecond))
	g.Expect(got.Mean).To(Equal(300 * time.Millisecond))
	alpha.Reset()
	g.Expect(alpha.Latencies().Propagation).To(BeZero())
}

func TestReached(t *testing.T) {
	g := NewWithT(t)
	j := New(Options{})
	sent := start.Add(time.Second).Round(0)
	history(j.Target("slow"), hubWrites(0, 1, sentAt(time.Second), after(2*time.Second)), hubWrites(0, 1, named("two"), sentAt(time.Second), after(5*time.Second)))
	history(j.Target("fast"), hubWrites(0, 1, sentAt(time.Second), after(1500*time.Millisecond)))
	history(j.Target("without"), hubWrites(0, 1, sentAt(time.Millisecond)))
	g.Expect(j.Reached(sent)).To(Equal(Reach{
		Targets: 2, Missing: []string{"without"}, First: 500 * time.Millisecond, Last: 4 * time.Second, LastTarget: "slow",
	}))
}

func TestQuantiles(t *testing.T) {
	g := NewWithT(t)
	j := New(Options{})
	for i := 1; i <= 1000; i++ { // two targets, 1 ms to 1 s
		j.Target(fmt.Sprint(i % 2)).Wrote(Change{
			Time: start, Verb: VerbApply, Resource: "pods", Name: fmt.Sprint(i), After: 1, SentAt: start.Add(-time.Duration(i) * time.Millisecond),
		})
	}
	got := j.Latencies().Propagation
	g.Expect(got.Samples).To(BeEquivalentTo(1000))
	for want, quantile := range map[time.Duration]time.Duration{500 * time.Millisecond: got.P50, 900 * time.Millisecond: got.P90, 990 * time.Millisecond: got.P99} {
		g.Expect(quantile).To(BeNumerically("~", want, want*3/100))
	}
	g.Expect(got.Max).To(BeNumerically("~", time.Second, time.Millisecond))
	g.Expect(got.String()).To(HavePrefix("1000 samples, p50 5"))
}

func TestQuantilesOfExtremes(t *testing.T) {
	for _, d := range []time.Duration{-time.Second, 0, 1, time.Microsecond, time.Minute, 100 * time.Hour} {
		g := NewWithT(t)
		_, alpha := target(Options{})
		alpha.Wrote(Change{Time: start, Verb: VerbApply, After: 1, SentAt: start.Add(-d)})
		got := alpha.Latencies().Propagation
		g.Expect(got.P50).To(BeNumerically("<=", got.Max), "%s", d)
		g.Expect(got.Samples).To(BeEquivalentTo(1))
		if d > time.Microsecond {
			g.Expect(got.P50).To(BeNumerically("~", d, d*3/100+time.Microsecond))
		}
	}
}
