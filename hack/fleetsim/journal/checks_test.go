package journal_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	. "github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// whoOf identifies replicas by the second word of their user agents.
func whoOf(c Change) string {
	_, name, _ := strings.Cut(c.UserAgent, " ")
	return name
}

func TestChecks(t *testing.T) {
	repeated := func(h ...History) Verdict { return Repeated(hub, h...) }
	flapping := func(h ...History) Verdict { return Flapping(time.Minute, hub, h...) }
	createdTwice := func(h ...History) Verdict { return CreatedTwice(hub, nil, h...) }
	wrongDeletes := func(h ...History) Verdict { return WrongDeletes(hub, Deletes{}, h...) }
	twoAtATime := func(h ...History) Verdict { return TwoAtATime(time.Minute, whoOf, h...) }

	updates, takesOwnership := hubWrites(1, 2, verb("update")), hubWrites(2, 2, changed, verb(VerbApply))
	for _, test := range []struct {
		name   string
		check  func(...History) Verdict
		writes []written
		want   []string // what is found
	}{
		{"each write changes something", repeated, both(hubWrites(0, 1), hubWrites(1, 2)), nil},
		{"a write changes nothing", repeated, both(hubWrites(0, 1), hubWrites(1, 1)), []string{"a write that changed nothing"}},
		{"the write of another client changes nothing", repeated, both(hubWrites(0, 1), otherWrites(1, 1)), nil},
		{"the first write changes nothing", repeated, both(otherWrites(0, 1), hubWrites(1, 1, changed)), nil},
		{"the first write changes not even an owner", repeated, both(otherWrites(0, 1), hubWrites(1, 1)),
			[]string{"a write that changed nothing"}},
		{"the second write changes owners only", repeated, both(hubWrites(0, 1), hubWrites(1, 1, changed)), []string{"the same content was written again"}},
		{"what was updated is applied", repeated, both(hubWrites(0, 1), updates, takesOwnership), nil},
		{"it is applied twice", repeated, both(hubWrites(0, 1), updates, takesOwnership, takesOwnership),
			[]string{"the same content was written again"}},
		{"another object of the same name is taken over", repeated,
			both(hubWrites(0, 1), otherDeletes(1), otherWrites(0, 1, uid("uid-2")), hubWrites(1, 1, changed, uid("uid-2"))),
			nil},
		{"a status is changed", repeated, both(hubWrites(0, 1), hubWrites(1, 1, changed, resource("configmaps/status")), hubWrites(1, 1, changed, resource("configmaps/status"))), nil},
		{"a status is not changed", repeated, both(hubWrites(1, 1, resource("configmaps/status"))), []string{"a write that changed nothing"}},
		{"a delete waits for finalizers", repeated, both(hubWrites(0, 1), hubDeletes(1, func(c *Change) { c.After = 1; c.Changed = true })), nil},
		{"a delete of what is being deleted", repeated, both(hubWrites(0, 1), hubDeletes(1, func(c *Change) { c.After = 1; c.Changed = false })),
			[]string{"a write that changed nothing"}},

		{"there, back and there again", flapping, both(hubWrites(1, 2), hubWrites(2, 1), hubWrites(1, 2)), []string{"changed, changed back and changed again"}},
		{"it continues", flapping, both(hubWrites(1, 2), hubWrites(2, 1), hubWrites(1, 2), hubWrites(2, 1)),
			[]string{"changed, changed back and changed again", "changed, changed back and changed again"}},
		{"another client writes in between", flapping, both(hubWrites(1, 2), hubWrites(2, 1), otherWrites(1, 3),
			hubWrites(3, 2)),
			[]string{"changed, changed back and changed again"}},
		{"there and back", flapping, both(hubWrites(1, 2), hubWrites(2, 1)), nil},
		{"corrections of the same drift again and again", flapping,
			both(hubWrites(2, 1), otherWrites(1, 2), hubWrites(2, 1), otherWrites(1, 2), hubWrites(2, 1)), nil},
		{"there, back and there again in a long time", flapping, both(hubWrites(1, 2), hubWrites(2, 1), hubWrites(1, 2, after(2*time.Minute))), nil},
		{"there, back and elsewhere", flapping, both(hubWrites(1, 2), hubWrites(2, 1), hubWrites(1, 3)), nil},
		{"each on another object", flapping, both(hubWrites(1, 2), hubWrites(2, 1), hubWrites(1, 2, named("two"))), nil},
		{"there, back and there again by two replicas", flapping,
			both(hubWrites(1, 2, replica("a")), hubWrites(2, 1, replica("b")), hubWrites(1, 2, replica("a"))), []string{"changed, changed back and changed again"}},

		{"created once", createdTwice, both(hubWrites(0, 1), hubDeletes(1)), nil},
		{"deleted and created again", createdTwice, both(hubWrites(0, 1), hubDeletes(1), hubWrites(0, 1, uid("uid-2"))), []string{"created again after its deletion"}},
		{"another client deleted it", createdTwice, both(hubWrites(0, 1), otherDeletes(1), hubWrites(0, 1, uid("uid-2"))),
			nil},
		{"another client created it again", createdTwice, both(hubWrites(0, 1), hubDeletes(1),
			otherWrites(0, 1, uid("uid-2")), hubWrites(1, 2, uid("uid-2"))), nil},
		{"deleted by both", createdTwice, both(hubWrites(0, 1), hubDeletes(1), otherWrites(0, 1, uid("uid-2")),
			otherDeletes(1, uid("uid-2")), hubWrites(0, 1, uid("uid-3"))), nil},
		{"another one created", createdTwice, both(hubWrites(0, 1), hubDeletes(1), hubWrites(0, 1, named("two"))), nil},

		{"deleted what it wrote", wrongDeletes, both(hubWrites(0, 1), hubDeletes(1)), nil},
		{"deleted what it took over", wrongDeletes, both(otherWrites(0, 1), hubWrites(1, 1, changed), hubDeletes(1)), nil},
		{"deleted what it never wrote", wrongDeletes, both(otherWrites(0, 1), hubDeletes(1)),
			[]string{"deleted, although it was never written"}},
		{"deleted another object of the same name", wrongDeletes, both(hubWrites(0, 1), otherDeletes(1),
			otherWrites(0, 1, uid("uid-2")), hubDeletes(1, uid("uid-2"))),
			[]string{"deleted, although it is not the object that was written"}},
		{"deleted what it created again", wrongDeletes, both(hubWrites(0, 1), otherDeletes(1),
			hubWrites(0, 1, uid("uid-2")), hubDeletes(1, uid("uid-2"))), nil},
		{"a delete without effect", wrongDeletes, both(otherWrites(0, 1), hubDeletes(1,
			func(c *Change) { c.After, c.Changed = 1, false })), nil},
		{"another client deleted what the hub never wrote", wrongDeletes, both(hubWrites(0, 1), otherDeletes(1)), nil},

		{"one replica", twoAtATime, both(hubWrites(0, 1, replica("a")), hubWrites(1, 2, replica("a"))), nil},
		{"a change of hands", twoAtATime, both(hubWrites(0, 1, replica("a")), hubWrites(1, 2, replica("b")), hubWrites(2, 3, replica("b"))), nil},
		{"two in turns on one object", twoAtATime, both(hubWrites(0, 1, replica("a")), hubWrites(1, 2, replica("b")), hubWrites(2, 1, replica("a"))),
			[]string{"written by a and b in turns"}},
		{"two on one target", twoAtATime, both(hubWrites(0, 1, replica("a")), hubWrites(0, 2, replica("b"), named("two")), hubWrites(0, 1, replica("a"), named("three"))),
			[]string{"written by a, while b wrote to the same target"}},
		{"two on one target, one of them on an object that the other wrote before", twoAtATime,
			both(hubWrites(0, 1, replica("b")), hubWrites(1, 2, replica("a")), hubWrites(0, 2, replica("b"), named("two")), hubWrites(2, 1, replica("a"))),
			[]string{"written by b, while a wrote to the same target", "written by a, while b wrote to the same target"}},
		{"two on one target, one of them on an object that the other wrote in between", twoAtATime,
			both(hubWrites(0, 1, replica("a"), named("two")), hubWrites(0, 1, replica("b")), hubWrites(1, 2, replica("a"))),
			[]string{"written by a, while b wrote to the same target"}},
		{"there and back in a long time", twoAtATime, both(hubWrites(0, 1, replica("a")), hubWrites(1, 2, replica("b")), hubWrites(2, 1, replica("a"), after(2*time.Minute))), nil},
		{"another client writes between writes of a replica", twoAtATime,
			both(hubWrites(0, 1, replica("a")), otherWrites(1, 2), hubWrites(2, 1, replica("a"))), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			j, alpha := target(Options{})
			history(alpha, test.writes...)
			var found []string
			verdict := test.check(j.Histories()...)
			for _, finding := range verdict.Findings {
				found = append(found, finding.What)
				g.Expect(finding.Target).To(Equal("alpha"))
				g.Expect(finding.Changes).NotTo(BeEmpty())
			}
			g.Expect(found).To(Equal(test.want), "%s", verdict)
			g.Expect(verdict.Clean()).To(Equal(len(test.want) == 0))
			g.Expect(verdict.Judged).To(BeNumerically(">", 0))
		})
	}
}

func TestTwoAtATimeIsPerTarget(t *testing.T) {
	g := NewWithT(t)
	j := New(Options{})
	history(j.Target("alpha"), hubWrites(0, 1, replica("a")), hubWrites(1, 2, replica("a"), after(2*time.Second)))
	history(j.Target("beta"), hubWrites(0, 1, replica("b"), after(time.Second)))
	g.Expect(TwoAtATime(time.Minute, whoOf, j.Histories()...).Err()).To(Succeed())
}

func TestDeletesByRules(t *testing.T) {
	g := NewWithT(t)
	j, alpha := target(Options{})
	history(alpha, hubWrites(0, 1), hubDeletes(1), hubDeletes(1, named("loaded")))

	none := Deletes{Allowed: func(string, Change) bool { return false }}
	g.Expect(WrongDeletes(hub, none, j.Histories()...).Findings).To(HaveLen(2))
	loaded := Deletes{
		Allowed: func(target string, c Change) bool { return target == "alpha" && c.Namespace == "default" },
		Owned:   func(target string, c Change) bool { return target == "alpha" && c.Name == "loaded" },
	}
	g.Expect(WrongDeletes(hub, loaded, j.Histories()...).Err()).To(Succeed())
}

func TestCreatedTwiceWithReason(t *testing.T) {
	g := NewWithT(t)
	j, alpha := target(Options{})
	history(alpha, hubWrites(0, 1), hubDeletes(1), hubWrites(0, 1, uid("uid-2")))
	asked := func(target string, c Change) bool { return target == "alpha" && c.UID == "uid-2" }
	g.Expect(CreatedTwice(hub, asked, j.Histories()...).Err()).To(Succeed())
}

func TestVerdictSaysWhatItCannotKnow(t *testing.T) {
	g := NewWithT(t)
	j, alpha := target(Options{History: 2})
	history(alpha, hubWrites(0, 1), hubWrites(1, 2), hubWrites(2, 3))
	history(j.Target("beta"), hubWrites(0, 1), hubWrites(1, 2))
	verdict := Repeated(hub, j.Histories()...)
	g.Expect(verdict.Findings).To(BeEmpty())
	g.Expect(verdict.Incomplete).To(Equal([]string{"alpha"}))
	g.Expect(verdict.Clean()).To(BeFalse())
	g.Expect(verdict.Err()).To(MatchError(ContainSubstring("not the whole story, for the histories of 1 targets lost writes: alpha")))
}

func TestVerdictNamesObjectTimesAndWriters(t *testing.T) {
	g := NewWithT(t)
	j, alpha := target(Options{})
	history(alpha, hubWrites(0, 1<<40), hubWrites(1<<40, 1<<40))
	text := Repeated(hub, j.Histories()...).String()
	g.Expect(text).To(ContainSubstring("alpha: configmaps default/one: a write that changed nothing"))
	g.Expect(text).To(ContainSubstring(start.Add(time.Second).Format("15:04:05.000")))
	g.Expect(text).To(ContainSubstring("by trellis (trellis/v1, hub)"))
	g.Expect(text).To(ContainSubstring("nothing -> 00000100"))
}

func TestChecksSinceATime(t *testing.T) {
	g := NewWithT(t)
	j, alpha := target(Options{})
	history(alpha, hubWrites(0, 1), hubWrites(1, 1), hubDeletes(1))
	later := Since(start.Add(2*time.Second), j.Histories()...)
	g.Expect(Repeated(hub, later...).Err()).To(Succeed(), "what was before is not judged")
	g.Expect(WrongDeletes(hub, Deletes{}, later...).Err()).To(Succeed(), "but it is known")
	g.Expect(WrongDeletes(hub, Deletes{}, later...).Judged).To(Equal(1))
}

func TestWriters(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ByUserAgent("trellis")(Change{UserAgent: "trellis"})).To(BeTrue())
	g.Expect(ByUserAgent("trellis")(Change{UserAgent: "trellis/v1 (linux)"})).To(BeTrue())
	g.Expect(ByUserAgent("trellis")(Change{UserAgent: "trellis-control-plane"})).To(BeFalse())
}
