package fleet

import (
	"math"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
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

// pasts are looks at a target's past, as the journal of a simulated target has them.
func pasts(n int64) journal.Count { return count("list", "leases.coordination.k8s.io", 200, n) }

func TestRestIsJudged(t *testing.T) {
	const targets, length = 10, 100 * time.Second
	probes := count("get", "namespaces", 200, 200)
	for _, test := range []struct {
		name     string
		interval time.Duration
		counts   journal.Counts
		want     []string
	}{
		{"probes and watches", 5 * time.Second, journal.Counts{
			probes, count("get", "/version", 200, 10), pasts(20), count("watch", "secrets", 200, 40),
		}, nil},
		{"a write", 5 * time.Second, journal.Counts{probes, count("apply", "secrets", 200, 1)}, []string{"writes to targets"}},
		{"a list", 5 * time.Second, journal.Counts{probes, count("list", "secrets", 200, 1)}, []string{"gets and lists"}},
		{"discovery is no probe", 5 * time.Second, journal.Counts{probes, count("get", "/apis", 200, 1)}, []string{"gets and lists"}},
		{"more probes than are due", 5 * time.Second, journal.Counts{count("get", "namespaces", 200, 400)}, []string{"probes is"}},
		{"versions all the time", 5 * time.Second, journal.Counts{count("get", "/version", 200, 400)}, []string{"probes for versions"}},
		{"the past all the time", 5 * time.Second, journal.Counts{pasts(400)}, []string{"probes for the past"}},
		{"a probe without probes", 0, journal.Counts{count("get", "namespaces", 200, 1)}, []string{"probes is"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, broken(func(s *figures.Step) { judgeRest(s, test.counts, targets, length, test.interval) }), test.want)
		})
	}
}

func TestRestWithControllersIsJudged(t *testing.T) {
	const targets, length = 10, 6 * time.Minute
	probes, lists := count("get", "namespaces", 200, 700), []journal.Count{count("watch", "nodes", 200, 3)}
	for _, kind := range collected {
		lists = append(lists, count("list", kind, 200, targets))
	}
	with := func(more ...journal.Count) journal.Counts {
		return append(append(journal.Counts{probes}, lists...), more...)
	}
	for _, test := range []struct {
		name   string
		counts journal.Counts
		want   []string
	}{
		{"passes of the garbage collector", with(count("get", "/apis", 200, targets), count("get", "/api", 200, targets)),
			nil},
		{"first looks at tokens", with(count("create", "tokenreviews.authentication.k8s.io", 201, targets*populatedAccesses)),
			nil},
		{"looks all the time", with(count("create", "tokenreviews.authentication.k8s.io", 201, targets*populatedAccesses+1)),
			[]string{"reviews"}},
		{"passes all the time", with(count("list", "configmaps", 200, targets)), []string{"lists of configmaps"}},
		{"a write", with(count("patch", "nodes", 200, 1)), []string{"writes to targets"}},
		{"a token", with(count("create", "serviceaccounts/token", 201, 1)), []string{"tokens requested"}},
		{"a list that no timer is for", with(count("list", "nodes", 200, 1)), []string{"other requests"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, broken(func(s *figures.Step) { judgeControllers(s, test.counts, targets, length) }), test.want)
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
		return rig.Drift{Corrections: journal.Corrections{Millis: slices.Repeat([]float64{millis}, 100)},
			CPU: rig.CPU{Hub: cpu}}
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
			judgeOutage(report.Begin("outage"), before, []phase{{"now", []rig.Drift{test.during}}})
			expect(t, report.Missed(), test.want)
		})
	}
}

func TestHangsAreJudged(t *testing.T) {
	const before, workers = 5.0, 160
	began := time.Now()
	drift := func(millis float64) rig.Drift {
		d := rig.Drift{}
		for i := range 10 { // ten a second, from the beginning on
			d.Edited, d.Millis = append(d.Edited, began.Add(time.Duration(i)*100*time.Millisecond)), append(d.Millis, millis)
		}
		return d
	}
	waits := func(short, long float64) rig.Histogram {
		return rig.Histogram{0.01: short, 0.05: short, 5: short + long, math.Inf(1): short + long}
	}
	window := func(hang int, millis float64, others rig.Histogram, busy ...float64) hanging {
		h := hanging{waiting: waiting{Drift: drift(millis), others: others, all: others}, began: began, shown: slices.Repeat([]float64{10000}, hang)}
		for i, n := range busy {
			h.looks = append(h.looks, look{at: began.Add(time.Duration(i) * 10 * time.Second), workers: workers, busy: n})
		}
		return h
	}
	for _, test := range []struct {
		name           string
		during         hanging
		missed, broken []string
	}{
		{"others notice nothing", window(3, before, waits(100, 0), 0, 100, 30), nil, nil},
		{"others wait for a worker", window(3, before, waits(90, 10), 0, 100, 30), []string{"wait of the others"}, nil},
		{"workers do not become free", window(3, before, waits(100, 0), 0, 100, 100), []string{"workers that are free"}, nil},
		{"the workers were not observed", window(3, before, waits(100, 0)), []string{"workers that are free"}, nil},
		{"others wait until those that hang are given up", window(3, 9500, waits(100, 0), 0, 100, 30), nil, []string{"corrected in its first half"}},
		{"more hang than there are places", window(30, 9500, waits(100, 0), 0, 100, 30), []string{"corrected in its first half"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			report := figures.NewReport("test", nil)
			quiet := waiting{Drift: drift(before), others: waits(100, 0), all: waits(100, 0)}
			judgeHang(report.Begin("hang"), []waiting{quiet}, quiet, test.during)
			expect(t, report.Missed(), test.missed)
			expect(t, report.Broken(), test.broken)
		})
	}
	t.Run("others had to wait before it, too", func(t *testing.T) {
		report := figures.NewReport("test", nil)
		long := waits(10, 90)
		restless := waiting{Drift: drift(before), others: long, all: long}
		judgeHang(report.Begin("hang"), []waiting{restless}, restless, window(3, before, long, 0, 100, 30))
		expect(t, report.Missed(), []string{"wait of the others"})
	})
	t.Run("that changes cost as much where nothing hangs excuses nothing", func(t *testing.T) {
		report := figures.NewReport("test", nil)
		quiet := waiting{Drift: drift(before), others: waits(100, 0), all: waits(100, 0)}
		changing := waiting{Drift: drift(before), others: waits(90, 10), all: waits(90, 10)}
		judgeHang(report.Begin("hang"), []waiting{quiet}, changing, window(3, before, waits(90, 10), 0, 100, 30))
		expect(t, report.Missed(), []string{"wait of the others"})
	})
	t.Run("nothing is corrected for long after the window", func(t *testing.T) {
		h := window(3, before, waits(100, 0), 0, 100, 30)
		h.Edited, h.Lasting = nil, h.Millis
		expect(t, broken(func(s *figures.Step) { judgeHang(s, nil, waiting{}, h) }), []string{"corrected in its first half"})
	})
}

func TestLinesAreJudged(t *testing.T) {
	at := func(n int) time.Time { return time.Time{}.Add(time.Duration(n) * time.Second) }
	var services []service // a hundred were written at once, and one a second is done
	for i := range 100 {
		services = append(services, service{wrote: at(0), done: at(i + 2)})
	}
	for _, test := range []struct {
		name           string
		sent, arrived  int
		missed, broken []string
	}{
		{"it does not wait", 1, 3, nil, nil},
		{"it stands in line", 1, 102, nil, []string{"what came before a single change"}},
		{"the line was short", 50, 102, []string{"with a line ahead"}, nil},
		{"there was no line", 200, 201, []string{"with a line ahead"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			report := figures.NewReport("test", nil)
			judgeLine(report.Begin("flood"), []single{{sent: at(test.sent), arrived: at(test.arrived)}}, services)
			expect(t, report.Missed(), test.missed)
			expect(t, report.Broken(), test.broken)
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

func TestOnlyAllowedDeletionsAreAccepted(t *testing.T) {
	history := journal.History{Target: "a"}
	for _, c := range []journal.Change{{Verb: "apply", After: 1}, {Verb: "delete", Before: 1}} {
		c.Resource, c.Name, c.UserAgent, c.Changed = "configmaps", "flood-1", "trellis", true
		history.Changes = append(history.Changes, c)
	}
	for may, want := range map[bool][]string{true: nil, false: {"deleted wrongly"}} {
		all := judgement{may: func(string, journal.Change) bool { return may }}
		all.add(history)
		expect(t, broken(all.show), want)
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
