package scale

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/figures"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/trials/rig"
)

// broken are the properties that a judge says are.
func broken(judge func(*figures.Step)) []string {
	report := figures.NewReport("test", nil)
	judge(report.Begin("step"))
	return report.Broken()
}

// expect that exactly these are broken, by a part of what is said of them.
func expect(t *testing.T, got, want []string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(got).To(HaveLen(len(want)), "%v", got)
	for i := range want {
		g.Expect(got[i]).To(ContainSubstring(want[i]))
	}
}

func count(verb, resource string, code int, n int64) journal.Count {
	return journal.Count{Verb: verb, Resource: resource, Code: code, UserAgent: "trellis", Tally: journal.Tally{Requests: n}}
}

func TestRestIsJudged(t *testing.T) {
	const targets, length = 10, 100 * time.Second
	probes := count("get", "namespaces", 200, 200)
	for _, test := range []struct {
		name     string
		interval time.Duration
		counts   journal.Counts
		want     []string
	}{
		{"probes and watches", 5 * time.Second, journal.Counts{probes, count("get", "/version", 200, 10), count("watch", "secrets", 200, 40)}, nil},
		{"a write", 5 * time.Second, journal.Counts{probes, count("apply", "secrets", 200, 1)}, []string{"writes to targets"}},
		{"a list", 5 * time.Second, journal.Counts{probes, count("list", "secrets", 200, 1)}, []string{"gets and lists"}},
		{"discovery is no probe", 5 * time.Second, journal.Counts{probes, count("get", "/apis", 200, 1)}, []string{"gets and lists"}},
		{"more probes than are due", 5 * time.Second, journal.Counts{count("get", "namespaces", 200, 400)}, []string{"probes is"}},
		{"versions all the time", 5 * time.Second, journal.Counts{count("get", "/version", 200, 400)}, []string{"probes for versions"}},
		{"a probe without probes", 0, journal.Counts{count("get", "namespaces", 200, 1)}, []string{"probes is"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, broken(func(s *figures.Step) { judgeRest(s, test.counts, targets, length, test.interval) }), test.want)
		})
	}
}

func TestRotationsOfTokensAreJudged(t *testing.T) {
	const open, length = 100, time.Minute
	for _, test := range []struct {
		name   string
		counts journal.Counts
		lost   float64
		want   []string
	}{
		{"nothing is noticed", journal.Counts{count("apply", "secrets", 200, 50), count("watch", "secrets", 200, 8), count("get", "secrets", 404, 1)}, 0, nil},
		{"a request is refused", journal.Counts{count("get", "namespaces", 401, 1)}, 0, []string{"refused"}},
		{"an apply is refused", journal.Counts{count("apply", "secrets", 401, 1)}, 0, []string{"refused", "applies that failed"}},
		{"an apply has no answer", journal.Counts{count("apply", "secrets", 0, 1)}, 0, []string{"applies that failed"}},
		{"a connection is lost", nil, 1, []string{"connections lost"}},
		{"all watches are restarted", journal.Counts{count("watch", "secrets", 200, open)}, 0, []string{"watches begun"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, broken(func(s *figures.Step) { judgeTokens(s, test.counts, test.lost, open, length) }), test.want)
		})
	}
	t.Run("all watches are restarted in a long time", func(t *testing.T) {
		counts := journal.Counts{count("watch", "secrets", 200, open)}
		expect(t, broken(func(s *figures.Step) { judgeTokens(s, counts, 0, open, time.Hour) }), []string{"watches begun"})
	})
}

func TestOutagesAreJudged(t *testing.T) {
	drift := func(millis float64, cpu time.Duration) rig.Drift {
		return rig.Drift{Corrections: rig.Corrections{Millis: slices.Repeat([]float64{millis}, 100)}, CPU: rig.CPU{Hub: cpu}}
	}
	before := []rig.Drift{drift(10, time.Second), drift(10, time.Second)}
	for _, test := range []struct {
		name   string
		during rig.Drift
		want   []string
	}{
		{"others notice nothing", drift(11, 1100*time.Millisecond), nil},
		{"others wait", drift(13, time.Second), []string{"p99 against before"}},
		{"it costs the hub", drift(10, 1300*time.Millisecond), []string{"hub CPU"}},
		{"nothing is corrected", rig.Drift{CPU: rig.CPU{Hub: time.Second}}, []string{"p99 against before"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			report := figures.NewReport("test", nil)
			judgeOutage(report.Begin("outage"), before, []phase{{"now", test.during}})
			expect(t, report.Missed(), test.want)
		})
	}
}

func TestHistoriesAreJudged(t *testing.T) {
	write := func(verb string, before, after uint64) journal.Change {
		return journal.Change{Time: time.Now(), Verb: verb, Resource: "configmaps", Name: "a", UserAgent: "trellis", Changed: before != after, Before: before, After: after}
	}
	for _, test := range []struct {
		name    string
		history journal.History
		want    []string
	}{
		{"written once", journal.History{Changes: []journal.Change{write("apply", 0, 1)}}, nil},
		{"written again, which a busy machine may do", journal.History{Changes: []journal.Change{write("apply", 0, 1), write("apply", 1, 1)}}, nil},
		{"deleted and created again", journal.History{Changes: []journal.Change{write("apply", 0, 1), write("delete", 1, 0), write("apply", 0, 1)}},
			[]string{"created twice", "deleted wrongly"}},
		{"not all is known", journal.History{Lost: 1}, []string{"lost writes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, broken(func(s *figures.Step) {
				var all judgement
				all.add(test.history)
				all.show(s)
			}), test.want)
		})
	}
}

func TestSectionsOfTheConfigurationAreMerged(t *testing.T) {
	g := NewWithT(t)
	got, err := merged("clusterCache: {probeTimeout: 3s, probeInterval: 7s}\nlogLevel: debug\n", unprobedConfig)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(ContainSubstring("clusterCache:\n  probeInterval: 2h\n  probeTimeout: 3s\n"))
	g.Expect(got).To(ContainSubstring("logLevel: debug\n"))
	_, err = merged(": [")
	g.Expect(err).To(HaveOccurred())
}
