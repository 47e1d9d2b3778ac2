package rig_test

import (
	"context"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// history writes into the journal of a target of its own.
type history struct {
	t       *testing.T
	target  *fleetsim.Target
	version uint64
	began   time.Time
}

func newHistory(t *testing.T) *history {
	fleet, err := fleetsim.Start(context.Background(), fleetsim.Options{Targets: 1})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(fleet.Stop)
	return &history{t: t, target: fleet.Targets()[0], began: time.Now()}
}

func (h *history) write(who string, at time.Duration, name string, before, after uint64, sent time.Duration) {
	h.version++
	change := journal.Change{
		Time: h.began.Add(at), Verb: "patch", Resource: "configmaps", Name: name, UID: types.UID(name), UserAgent: who,
		ResourceVersion: h.version, Changed: true, Before: before, After: after,
	}
	if sent != 0 {
		change.SentAt = h.began.Add(sent)
	}
	h.target.Journal().Wrote(change)
}

func TestCorrectionsAreReadFromTheJournal(t *testing.T) {
	const hub, foreigner = "trellis/1", "foreigner"
	const ms = time.Millisecond
	for _, test := range []struct {
		name    string
		writes  func(h *history)
		millis  []float64
		pending []string
		reached []float64
	}{
		{"an edit is undone", func(h *history) {
			h.write(foreigner, 10*ms, "a", 1, 2, 0)
			h.write(hub, 35*ms, "a", 2, 1, 0)
		}, []float64{25}, nil, nil},
		{"edited twice: from the first one", func(h *history) {
			h.write(foreigner, 10*ms, "a", 1, 2, 0)
			h.write(foreigner, 20*ms, "a", 2, 3, 0)
			h.write(hub, 35*ms, "a", 3, 1, 0)
		}, []float64{25}, nil, nil},
		{"it is not undone", func(h *history) { h.write(foreigner, 10*ms, "a", 1, 2, 0) }, nil, []string{"configmaps a"},
			nil},
		{"something else is written", func(h *history) {
			h.write(foreigner, 10*ms, "a", 1, 2, 0)
			h.write(hub, 35*ms, "a", 2, 3, 0)
		}, nil, []string{"configmaps a"}, nil},
		{"a change at the source takes its place", func(h *history) {
			h.write(foreigner, 10*ms, "a", 1, 2, 5*ms)
			h.write(hub, 35*ms, "a", 2, 3, 8*ms)
		}, []float64{25}, nil, nil},
		{"something else is written of what was changed before", func(h *history) {
			h.write(foreigner, 10*ms, "a", 1, 2, 5*ms)
			h.write(hub, 35*ms, "a", 2, 3, 5*ms)
		}, nil, []string{"configmaps a"}, nil},
		{"a deleted object comes back with another content", func(h *history) {
			h.write(foreigner, 10*ms, "a", 1, 0, 0)
			h.write(hub, 30*ms, "a", 0, 7, 0)
		}, []float64{20}, nil, nil},
		{"an edit before the time does not count", func(h *history) {
			h.write(foreigner, -10*ms, "a", 1, 2, 0)
			h.write(hub, 35*ms, "a", 2, 1, 0)
		}, nil, nil, nil},
		{"an edit after the time does not count", func(h *history) { h.write(foreigner, 1100*ms, "a", 1, 2, 0) }, nil, nil, nil},
		{"another client undoes it", func(h *history) {
			h.write(foreigner, 10*ms, "a", 1, 2, 0)
			h.write("kubectl", 35*ms, "a", 2, 1, 0)
		}, nil, []string{"configmaps a"}, nil},
		{"a change arrives", func(h *history) { h.write(hub, 50*ms, "a", 1, 2, 20*ms) }, nil, nil, []float64{30}},
		{"its correction is no second arrival", func(h *history) {
			h.write(hub, 50*ms, "a", 1, 2, 20*ms)
			h.write(foreigner, 60*ms, "a", 2, 3, 0)
			h.write(hub, 70*ms, "a", 3, 2, 20*ms)
		}, []float64{10}, nil, []float64{30}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			h := newHistory(t)
			test.writes(h)
			got := rig.CorrectionsIn([]*fleetsim.Target{h.target}, h.began, h.began.Add(time.Second))
			g.Expect(rounded(got.Millis)).To(Equal(test.millis))
			g.Expect(got.Pending[h.target.Name()]).To(Equal(test.pending))
			g.Expect(rounded(got.Reached)).To(Equal(test.reached))
		})
	}
}

// rounded takes away what the clocks of the wall and of the journal differ by.
func rounded(millis []float64) []float64 {
	var out []float64
	for _, v := range millis {
		out = append(out, math.Round(v))
	}
	return out
}

func TestWritesOfTheSourceAreDistinguished(t *testing.T) {
	g := NewWithT(t)
	leases, others, what := testbed.Writes(
		map[string]int64{"PUT leases": 5, "GET secrets": 1, "PATCH managedresources/status": 2},
		map[string]int64{"PUT leases": 9, "GET secrets": 100, "PATCH managedresources/status": 5, "POST tokenreviews": 3, "DELETE secrets": 1})
	g.Expect(leases).To(BeEquivalentTo(4))
	g.Expect(others).To(BeEquivalentTo(4))
	g.Expect(what).To(Equal(map[string]int64{"PATCH managedresources/status": 3, "DELETE secrets": 1}))
}

// TestForeignersComeFromInside shows that a foreigner's edits are not struck by faults, and that each takes another object.
func TestForeignersComeFromInside(t *testing.T) {
	g := NewWithT(t)
	h := newHistory(t)
	h.began = time.Now()
	g.Expect(h.target.Stop()).To(Succeed())
	f := rig.NewForeigner(rig.VictimsOf(rig.Steady))
	for range 3 {
		g.Expect(f.Edit(t.Context(), h.target)).To(Succeed(), "an object that does not exist is no error")
	}
	g.Expect(rig.CorrectionsIn([]*fleetsim.Target{h.target}, h.began, time.Now()).Pending).To(BeEmpty())
	g.Expect(h.target.Journal().Counts().Verbs("patch").Sum().Requests).To(BeEquivalentTo(3))
}

func TestSlowEditsAreListedBySecond(t *testing.T) {
	g := NewWithT(t)
	from := time.Now()
	d := rig.Drift{From: from}
	for _, edit := range []struct{ at, took float64 }{{0.5, 10}, {7.1, 300}, {7.2, 200}, {7.3, 20}, {59, 150}} {
		d.Edited = append(d.Edited, from.Add(time.Duration(edit.at*float64(time.Second))))
		d.Millis = append(d.Millis, edit.took)
	}
	d.Millis = append(d.Millis, 5000) // one that is pending
	for n := range 9 {                // seconds
		d.Looks = append(d.Looks, rig.CPU{
			Hub: time.Duration(n*n) * 50 * time.Millisecond, Trial: time.Duration(n) * time.Second, At: from.Add(time.Duration(n) * time.Second),
		})
	}
	g.Expect(d.Slow(100)).To(Equal("7 s: 2 (300 ms; hub 0.8, trial 1.0, source 0.0 processors), 59 s: 1 (150 ms)"))
	g.Expect(d.Slow(1000)).To(BeEmpty())
}

func TestSlowEditsAreCountedInEachPart(t *testing.T) {
	g := NewWithT(t)
	from := time.Now()
	d := rig.Drift{From: from, To: from.Add(10 * time.Second)}
	for _, edit := range []struct{ at, took float64 }{{0.5, 10}, {2.9, 300}, {3, 200}, {3.1, 20}, {9.5, 150}} { // by target, and not by time
		d.Edited = append([]time.Time{from.Add(time.Duration(edit.at * float64(time.Second)))}, d.Edited...)
		d.Millis = append([]float64{edit.took}, d.Millis...)
	}
	g.Expect(d.SlowIn(3*time.Second, 100)).To(Equal([]int{1, 1, 1}), "the last part is longer")
	g.Expect(d.SlowIn(time.Minute, 10)).To(Equal([]int{4}))
	g.Expect(rig.Drift{}.SlowIn(time.Second, 0)).To(Equal([]int{0}))
}
