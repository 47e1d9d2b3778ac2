package tracker_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
)

// An object is written, the connection breaks, and the object is deleted meanwhile: no event will ever show the write.
func TestWriteThatIsNeverSeenIsMissingInTheEnd(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}, tracker.Exact{})).To(Succeed())
	s.clusters.Sync(cluster, watch, true)
	s.Begin(mr1)
	s.Accept(mr1, key, accepted("100"))
	s.End(mr1)
	s.clusters.Sync(cluster, watch, false)
	s.clusters.Sync(cluster, watch, true) // a complete list without the object

	s.clock.Step(tracker.UnseenGrace - time.Nanosecond)
	v := s.Judge(mr1)
	g.Expect(v.Unseen).To(Equal(1), "the list may be older than the write")
	g.Expect(v.Missing).To(BeEmpty())

	s.clock.Step(time.Nanosecond)
	v = s.Judge(mr1)
	g.Expect(v.Unseen).To(BeZero())
	g.Expect(v.Missing).To(ConsistOf(key))
}

// A watch that shows an older version permanently, as after the storage was restored from a backup.
func TestObjectThatStaysOlderThanTheWriteIsDriftInTheEnd(t *testing.T) {
	g, s := settled(t)
	s.Begin(mr1)
	s.Accept(mr1, key, accepted("20"))
	s.End(mr1)
	s.clusters.Put(cluster, watch, configMap("15", "other"))

	s.clock.Step(tracker.UnseenGrace - time.Nanosecond)
	v := s.Judge(mr1)
	g.Expect(v.Unseen).To(Equal(1))
	g.Expect(v.Drifted).To(BeEmpty())

	s.clock.Step(time.Nanosecond)
	v = s.Judge(mr1)
	g.Expect(v.Unseen).To(BeZero())
	g.Expect(v.Drifted).To(ConsistOf(key))
}

// Each write has its own grace.
func TestGraceBeginsWithTheLastWrite(t *testing.T) {
	g, s := settled(t)
	s.clock.Step(10 * tracker.UnseenGrace)
	s.Begin(mr1)
	s.Accept(mr1, key, accepted("20"))
	s.End(mr1)
	g.Expect(s.Judge(mr1).Unseen).To(Equal(1))
}

// Versions that cannot be compared count as newer: judging once too often costs a read, judging never would miss drift.
func TestVersionsThatCannotBeComparedAreJudged(t *testing.T) {
	g, s := settled(t)
	for _, version := range []string{"a1", ""} {
		s.clusters.Put(cluster, watch, configMap(version, "other"))
		g.Expect(s.causes()).To(ContainElement(tracker.CauseDrift))
		v := s.Judge(mr1)
		g.Expect(v.Unseen).To(BeZero())
		g.Expect(v.Drifted).To(ConsistOf(key))
	}
}

// A watch that shows what was before the write has not shown the write, whatever the object was like then.
func TestWriteIsNotSeenByAnOlderVersion(t *testing.T) {
	g, s := settled(t)
	s.Begin(mr1)
	s.Accept(mr1, key, accepted("20"))
	s.End(mr1)
	s.clusters.Put(cluster, watch, configMap("15", ""))
	g.Expect(s.causes()).To(BeEmpty())
	g.Expect(s.Judge(mr1).Unseen).To(Equal(1))
}

// An old observation that looks like what was accepted is not the result of the write: nothing may be said of it, and
// the live object decides.
func TestWhatIsOlderThanTheWriteIsNeverTakenForThePresent(t *testing.T) {
	g, s := settled(t)
	s.Begin(mr1)
	s.Accept(mr1, key, accepted("20"))
	s.End(mr1)
	g.Expect(s.Judge(mr1).Outdated).To(BeEmpty(), "it may still come")

	s.clock.Step(10 * tracker.UnseenGrace)
	for range 2 { // a comparison changes nothing about it
		v := s.Judge(mr1)
		g.Expect(v.Unseen).To(BeZero())
		g.Expect(v.Outdated).To(ConsistOf(key))
		g.Expect(v.Drifted).To(ConsistOf(key))
	}

	s.clusters.Put(cluster, watch, configMap("20", ""))
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth), "a run that could not conclude anything is notified")
	v := s.Judge(mr1)
	g.Expect(v.Outdated).To(BeEmpty())
	g.Expect(v.Drifted).To(BeEmpty())
}

// The live object was found to be right, again and again, and each time the watch gets another chance to show it. That
// does not make it less late.
func TestLateWatchStaysLateWhenItIsRead(t *testing.T) {
	for name, shows := range map[string]func(s *setup){
		"an older version": func(s *setup) { s.clusters.Put(cluster, watch, configMap("15", "")) },
		"nothing":          func(*setup) {},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), newSetup()
			g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}, tracker.Exact{})).To(Succeed())
			s.clusters.Sync(cluster, watch, true)
			shows(s)
			s.Accept(mr1, key, accepted("20"))
			s.clock.Step(tracker.UnseenGrace - time.Nanosecond)
			g.Expect(s.Judge(mr1).Overdue).To(BeFalse())
			s.clock.Step(time.Nanosecond)
			for _, version := range []string{"20", "21", "22"} {
				v := s.Judge(mr1)
				g.Expect(v.Overdue).To(BeTrue())
				g.Expect(v.Outdated).To(ConsistOf(key))
				s.Begin(mr1, key)
				s.Accept(mr1, key, accepted(version)) // as it is live
				s.End(mr1)
				v = s.Judge(mr1)
				g.Expect(v.Overdue).To(BeTrue())
				g.Expect(v.Outdated).To(BeEmpty(), "it was read live")
				g.Expect(v.Unseen).To(Equal(1))
				s.clock.Step(tracker.UnseenGrace)
			}
			s.clusters.Put(cluster, watch, configMap("22", ""))
			g.Expect(s.Judge(mr1).Overdue).To(BeFalse())
			s.Accept(mr1, key, accepted("23"))
			g.Expect(s.Judge(mr1).Overdue).To(BeFalse(), "the next write has a grace of its own")
		})
	}
}
