package fairqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// tenantOf returns what is before the dot of "tenant.lane/name".
func tenantOf(item string) string {
	tenant, _, _ := strings.Cut(item, ".")
	return tenant
}

// A tenant with many targets, or with much work in one, is served no more often than others.
func TestTenantsTakeTurnsWhateverTheyHave(t *testing.T) {
	tests := map[string]func(i int) string{
		"many lanes":             func(i int) string { return fmt.Sprintf("many.%d/0", i) },
		"many items of one lane": func(i int) string { return fmt.Sprintf("many.0/%d", i) },
		"both":                   func(i int) string { return fmt.Sprintf("many.%d/%d", i%100, i) },
	}
	for name, item := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			q, _ := newTestQueue(t, Options[string]{Tenant: tenantOf, Places: 4, Workers: 32, MaxInFlight: limit(4)})
			for i := range 10_000 {
				q.Add(item(i))
			}
			work(t, q, 100)
			for i := range 5 {
				q.Add(fmt.Sprintf("few.%d/0", i))
			}
			q.Add("one.0/0")
			g.Expect(work(t, q, 3)).To(ContainElements(HavePrefix("few"), HavePrefix("one")))
			count := 0
			for _, item := range work(t, q, 8) {
				if tenantOf(item) == "few" {
					count++
				}
			}
			g.Expect(count).To(Equal(4), "every other one")
			g.Expect(faults(q)).To(BeEmpty())
		})
	}
}

// The one that holds fewest places is served first.
func TestTenantsShareThePlaces(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{Tenant: tenantOf, Places: 8, Workers: 64, MaxInFlight: limit(1)})
	for i := range 20 {
		q.Add(fmt.Sprintf("a.%d/0", i))
	}
	g.Expect(take(q)).To(HaveLen(8), "no other tenant waits")
	for i := range 8 {
		q.Done(fmt.Sprintf("a.%d/0", i))
	}
	for i := range 20 {
		q.Add(fmt.Sprintf("b.%d/0", i))
	}
	counts := map[string]int{}
	for _, item := range take(q) {
		counts[tenantOf(item)]++
	}
	g.Expect(counts).To(Equal(map[string]int{"a": 4, "b": 4}))
}

// Lanes of one tenant that begin to hang while no other one has work leave places to work of the same kind.
func TestTenantThatIsAloneLeavesPlacesOfAKindToOthers(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{
		Tenant: tenantOf, Places: 20, Workers: 160, MaxInFlight: limit(1), Changes: 1,
	})
	q.Add("honest.0/0")
	work(t, q, 1)
	for i := range 30 {
		q.Add(fmt.Sprintf("hostile.%d/0", i))
	}
	g.Expect(take(q)).To(HaveLen(12), "of 15 for one kind of work")
	q.Add("honest.0/0")
	g.Expect(take(q)).To(ContainElement("honest.0/0"))
}

// Registrations of one tenant that all hang, for as long as a run may take, leave workers to others: to lanes that are
// known to be fast and to those that are not known.
func TestTargetsOfOneTenantThatHangLeaveWorkersToOthers(t *testing.T) {
	for name, places := range map[string]int{"with places": 8, "without": 0} {
		t.Run(name, func(t *testing.T) {
			const workers = 64
			g := NewWithT(t)
			q, clock := newTestQueue(t, Options[string]{
				Tenant: tenantOf, Places: places, Workers: workers, MaxInFlight: limit(4), Patience: time.Second,
			})
			q.Add("good-0.0/x") // it is not the only tenant
			work(t, q, 1)
			hanging := 0
			get := func() (others []string) {
				for hanging < workers && available(q) {
					if item, _ := q.Get(); tenantOf(item) == "bad" {
						hanging++
					} else {
						others = append(others, item)
					}
				}
				return others
			}
			for round := range 100 {
				for lane := range 500 {
					q.Add(fmt.Sprintf("bad.%d/%d", lane, round%4))
				}
				get()
				if places > 0 {
					elapse(g, q, clock, time.Second)
				}
			}
			g.Expect(hanging).To(BeNumerically("<=", workers*3/4))
			if places > 0 {
				g.Expect(hanging).To(BeNumerically("<=", workers/2))
			}
			g.Expect(available(q)).To(BeFalse(), "it has what it may have")

			for round := range 20 {
				var all []string
				for i := range 4 {
					all = append(all, fmt.Sprintf("good-%d.0/x", i), fmt.Sprintf("new-%d-%d.0/x", round, i))
				}
				for _, item := range all {
					q.Add(item)
				}
				done := get()
				for len(done) > 0 {
					for _, item := range done {
						q.Done(item)
					}
					more := get()
					all = all[min(len(done), len(all)):]
					done = more
				}
				g.Expect(all).To(BeEmpty(), "all of the others are served at once")
				g.Expect(faults(q)).To(BeEmpty())
			}
		})
	}
}

// Where there is one tenant, nothing is kept for others.
func TestTheOnlyTenantMayHaveEverything(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{Tenant: tenantOf, Workers: 4, MaxInFlight: limit(4)})
	addMany(q, "a.0", 4)
	g.Expect(take(q)).To(HaveLen(4))
	g.Expect(faults(q)).To(BeEmpty())
}

// Several tenants may have a target in common, and each has its own lane in it.
func TestALaneOfSeveralTenants(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{
		Tenant: tenantOf, Lane: func(string) string { return "target" }, MaxInFlight: limit(2),
	})
	for i := range 100 {
		q.Add(fmt.Sprintf("a./%d", i))
	}
	q.Add("b./0")
	g.Expect(work(t, q, 2)).To(Equal([]string{"a./0", "b./0"}))
	g.Expect(q.inLanes()).To(HaveLen(1))
	g.Expect(q.inLanes()[0].Name).To(Equal("target"))
	g.Expect(faults(q)).To(BeEmpty())
}

// An item that waits although a worker is free is a fault of the hub, whatever targets do.
func TestIdle(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{
		Tenant: tenantOf, Places: 2, Workers: 4, MaxInFlight: limit(1), Patience: time.Second,
	})
	g.Expect(q.idleFrom()).To(BeZero(), "there is nothing to do")
	q.Add("a.0/0")
	added := clock.Now()
	clock.Step(time.Minute)
	g.Expect(q.idleFrom()).To(Equal(added))
	q.Add("b.0/0")
	g.Expect(q.idleFrom()).To(Equal(added), "what comes later changes nothing")

	item, _ := q.Get()
	taken := clock.Now()
	clock.Step(time.Minute)
	g.Expect(item).To(Equal("a.0/0"))
	g.Eventually(q.idleFrom, 30*time.Second).Should(BeTemporally(">=", taken), "it goes on")
	g.Expect(take(q)).To(Equal([]string{"b.0/0"}))
	clock.Step(time.Hour)
	g.Expect(q.idleFrom()).To(BeZero(), "what hangs is not the queue's fault")
	q.ShutDown()
	g.Expect(q.idleFrom()).To(BeZero())
}
