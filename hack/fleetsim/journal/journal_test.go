package journal_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// start is when made-up histories begin.
var start = time.Now()

// hub is who is judged.
var hub = ByUserAgent("trellis")

// written is one write of a made-up history.
type written func(*Change)

// history plays made-up writes into a target, in the order given, one a second.
func history(t *Target, writes ...written) {
	for i, write := range writes {
		c := Change{
			Time: start.Add(time.Duration(i) * time.Second), Resource: "configmaps", Namespace: "default", Name: "one", UID: "uid-1",
			ResourceVersion: uint64(i + 1), Verb: VerbApply, Manager: "trellis", UserAgent: "trellis/v1", User: "hub", Changed: true,
		}
		write(&c)
		t.Wrote(c)
	}
}

// hubWrites is an apply of the hub that makes after of before. 0: there is no object.
func hubWrites(before, after uint64, more ...written) written {
	return func(c *Change) {
		c.Before, c.After, c.Changed = before, after, before != after
		for _, m := range more {
			m(c)
		}
	}
}

func hubDeletes(before uint64, more ...written) written {
	return hubWrites(before, 0, append([]written{func(c *Change) { c.Verb, c.Manager = VerbDelete, "" }}, more...)...)
}

func foreign(c *Change) {
	c.Manager, c.UserAgent, c.User = "kubectl-edit", "kubectl/v1.36", "another-user"
}

func otherWrites(before, after uint64, more ...written) written {
	return hubWrites(before, after, append([]written{foreign, func(c *Change) { c.Verb = "patch" }}, more...)...)
}

func otherDeletes(before uint64, more ...written) written {
	return hubWrites(before, 0, append([]written{foreign, func(c *Change) { c.Verb = VerbDelete }}, more...)...)
}

func uid(uid types.UID) written            { return func(c *Change) { c.UID = uid } }
func named(name string) written            { return func(c *Change) { c.Name = name } }
func verb(verb string) written             { return func(c *Change) { c.Verb = verb } }
func resource(resource string) written     { return func(c *Change) { c.Resource = resource } }
func changed(c *Change)                    { c.Changed = true }
func replica(name string) written          { return func(c *Change) { c.UserAgent = "trellis/v1 " + name } }
func after(d time.Duration) written        { return func(c *Change) { c.Time = start.Add(d) } }
func sentAt(d time.Duration) written       { return func(c *Change) { c.SentAt = start.Add(d).Round(0) } }
func both(changes ...written) []written    { return changes }
func target(o Options) (*Journal, *Target) { j := New(o); return j, j.Target("alpha") }

func TestTargets(t *testing.T) {
	g := NewWithT(t)
	j := New(Options{})
	beta := j.Target("beta")
	g.Expect(j.Target("alpha").Name()).To(Equal("alpha"))
	g.Expect(j.Target("beta")).To(BeIdenticalTo(beta), "a target has one journal")
	g.Expect(j.Targets()).To(HaveLen(2))
	g.Expect(j.Targets()[1]).To(BeIdenticalTo(beta), "they are sorted")
	j.Remove("beta")
	g.Expect(j.Targets()).To(HaveLen(1))
}

func TestManyAtATime(t *testing.T) {
	g := NewWithT(t)
	j := New(Options{History: 100})
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			target := j.Target(fmt.Sprintf("target-%d", worker%4))
			for i := range 200 {
				target.Answered(Request{Verb: "get", Resource: "pods", Code: 200})
				target.Wrote(Change{Time: time.Now(), Verb: VerbApply, Resource: "pods", Name: fmt.Sprint(i % 7), Before: uint64(i), After: uint64(i + 1)})
				if i%50 == 0 {
					j.Counts()
					j.Reached(start)
					Repeated(nil, j.Histories()...)
				}
			}
		})
	}
	group.Wait()
	g.Expect(j.Counts().Sum().Requests).To(BeEquivalentTo(1600))
	for _, h := range j.Histories() {
		g.Expect(h.Changes).To(HaveLen(100))
		g.Expect(h.Lost).To(Equal(300))
	}
	j.Reset()
	g.Expect(j.Counts()).To(BeEmpty())
}

func TestReached(t *testing.T) {
	g := NewWithT(t)
	j := New(Options{})
	sent := start.Add(time.Second).Round(0)
	history(j.Target("slow"), hubWrites(0, 1, sentAt(time.Second), after(2*time.Second)),
		hubWrites(0, 1, named("two"), sentAt(time.Second), after(5*time.Second)))
	history(j.Target("fast"), hubWrites(0, 1, sentAt(time.Second), after(1500*time.Millisecond)),
		otherWrites(1, 2, after(7*time.Second)),
		hubWrites(2, 1, sentAt(time.Second), after(8*time.Second))) // a correction brings nothing new
	history(j.Target("without"), hubWrites(0, 1, sentAt(time.Millisecond)))
	g.Expect(j.Reached(sent)).To(Equal(Reach{
		Targets: 2, Missing: []string{"without"}, First: 500 * time.Millisecond, Last: 4 * time.Second, LastTarget: "slow",
	}))
}

func BenchmarkAnswered(b *testing.B) {
	target := New(Options{}).Target("alpha")
	agents := []string{"trellis/v0.1.0 (linux/amd64)", "kubectl/v1.36.3 (linux/amd64)"}
	verbs := []string{"get", "list", "watch", VerbApply}
	b.ReportAllocs()
	for i := range b.N {
		target.Answered(Request{Verb: verbs[i%4], Resource: "deployments.apps", Code: 200, UserAgent: agents[i%2], BytesOut: 100, Took: time.Millisecond})
	}
}

func BenchmarkWrote(b *testing.B) {
	for name, write := range map[string]func(i uint64) Change{
		"by the owner": func(i uint64) Change { return Change{Verb: VerbApply, Manager: "trellis", Before: i, After: i + 1} },
		"drift and correction": func(i uint64) Change {
			if i%2 == 0 {
				return Change{Verb: "patch", Manager: "kubectl", Before: 1, After: 2}
			}
			return Change{Verb: VerbApply, Manager: "trellis", Before: 2, After: 1}
		},
	} {
		b.Run(name, func(b *testing.B) {
			target := New(Options{}).Target("alpha")
			names := []string{"first", "second", "third", "fourth"}
			for range 4096 { // the ring is full
				target.Wrote(Change{Time: time.Now()})
			}
			b.ReportAllocs()
			for i := range b.N {
				c := write(uint64(i) + 1)
				c.Time, c.Resource, c.Namespace, c.Name, c.UID = start.Add(time.Duration(i)), "deployments.apps", "kube-system", names[i/2%4], "uid"
				c.UserAgent, c.User, c.Changed = "trellis/v0.1.0", "hub", true
				target.Wrote(c)
			}
		})
	}
}
