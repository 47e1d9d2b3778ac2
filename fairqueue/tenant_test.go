package fairqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// tenantOf returns what is before the dot of "tenant.flow/name".
func tenantOf(item string) string {
	tenant, _, _ := strings.Cut(item, ".")
	return tenant
}

// A tenant with many targets, or with much work in one, is served no more often than others.
func TestTenantsTakeTurnsWhateverTheyHave(t *testing.T) {
	tests := map[string]func(i int) string{
		"many flows":             func(i int) string { return fmt.Sprintf("many.%d/0", i) },
		"many items of one flow": func(i int) string { return fmt.Sprintf("many.0/%d", i) },
		"both":                   func(i int) string { return fmt.Sprintf("many.%d/%d", i%100, i) },
	}
	for name, item := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			q, _ := newTestQueue(t, Options[string]{Tenant: tenantOf, Seats: 4, Workers: 32, MaxInFlight: limit(4)})
			for i := range 10_000 {
				q.Add(item(i))
			}
			serve(t, q, 100)
			for i := range 5 {
				q.Add(fmt.Sprintf("few.%d/0", i))
			}
			q.Add("one.0/0")
			g.Expect(serve(t, q, 3)).To(ContainElements(HavePrefix("few"), HavePrefix("one")))
			count := 0
			for _, item := range serve(t, q, 8) {
				if tenantOf(item) == "few" {
					count++
				}
			}
			g.Expect(count).To(Equal(4), "every other one")
			g.Expect(faults(q)).To(BeEmpty())
		})
	}
}

// The one that holds fewest seats is served first.
func TestTenantsShareTheSeats(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{Tenant: tenantOf, Seats: 8, Workers: 64, MaxInFlight: limit(1)})
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

// A tenant that is alone with its work leaves seats to others that may come: it may keep them for long.
func TestTenantThatIsAloneLeavesSeatsToOthers(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{Tenant: tenantOf, Seats: 20, Workers: 160, MaxInFlight: limit(1)})
	q.Add("honest.0/0")
	serve(t, q, 1)
	for i := range 30 {
		q.Add(fmt.Sprintf("hostile.%d/0", i))
	}
	g.Expect(take(q)).To(HaveLen(15))
	q.Add("honest.0/0")
	g.Expect(take(q)).To(ContainElement("honest.0/0"))
}

// Registrations of one tenant that all hang, for as long as a run may take, leave workers to others.
func TestTargetsOfOneTenantThatHangLeaveWorkersToOthers(t *testing.T) {
	for name, seats := range map[string]int{"with seats": 8, "without": 0} {
		t.Run(name, func(t *testing.T) {
			const workers = 64
			g := NewWithT(t)
			q, _ := newTestQueue(t, Options[string]{
				Tenant: tenantOf, Seats: seats, Workers: workers, MaxInFlight: limit(4),
			})
			q.Add("good-0.0/x") // it is not the only tenant
			serve(t, q, 1)
			for flow := range 500 {
				addMany(q, fmt.Sprintf("bad.%d", flow), 4)
			}
			hanging := takeAndYield(t, q)
			g.Expect(hanging).To(HaveLen(workers * 3 / 4))
			for range 20 {
				for i := range 4 {
					q.Add(fmt.Sprintf("good-%d.0/x", i))
				}
				done := takeAndYield(t, q)
				g.Expect(done).To(ConsistOf("good-0.0/x", "good-1.0/x", "good-2.0/x", "good-3.0/x"))
				for _, item := range done {
					q.Done(item)
				}
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

// Several tenants may have a target in common, and each has its own flow in it.
func TestAFlowOfSeveralTenants(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{
		Tenant: tenantOf, Flow: func(string) string { return "target" }, MaxInFlight: limit(2),
	})
	for i := range 100 {
		q.Add(fmt.Sprintf("a./%d", i))
	}
	q.Add("b./0")
	g.Expect(serve(t, q, 2)).To(Equal([]string{"a./0", "b./0"}))
	g.Expect(q.inFlows()).To(HaveLen(1))
	g.Expect(q.inFlows()[0].Name).To(Equal("target"))
	g.Expect(faults(q)).To(BeEmpty())
}

// An item that waits although a worker is free is a fault of the hub, whatever targets do.
func TestIdle(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{
		Tenant: tenantOf, Seats: 2, Workers: 4, MaxInFlight: limit(1),
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
	g.Eventually(q.idleFrom, 2*time.Minute).Should(BeTemporally(">=", taken), "it goes on")
	g.Expect(take(q)).To(Equal([]string{"b.0/0"}))
	clock.Step(time.Hour)
	g.Expect(q.idleFrom()).To(BeZero(), "what hangs is not the queue's fault")
	q.ShutDown()
	g.Expect(q.idleFrom()).To(BeZero())
}
