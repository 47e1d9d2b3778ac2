package pacing

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Unix(1e9, 0)

func named(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "fleet", Name: fmt.Sprint(i)}
}

func TestManyWriteAtTheRate(t *testing.T) {
	g := NewWithT(t)
	const perSecond, targets = 50, 300
	pacer := New(perSecond)
	written := map[int]bool{}
	for second := range targets/perSecond + 1 {
		at := now.Add(time.Duration(second) * time.Second)
		before := len(written)
		for i := range targets {
			if !written[i] && pacer.Delay(named(i), at) == 0 {
				written[i] = true
				pacer.Written(named(i), at)
			}
		}
		g.Expect(len(written)-before).To(BeNumerically("<=", perSecond), "in second %d", second)
	}
	g.Expect(written).To(HaveLen(targets))
	g.Expect(pacer.reserved).To(BeEmpty())
}

// A controller that corrects drift waits for the source in that moment.
func TestFewOfManyWriteInOneMoment(t *testing.T) {
	g := NewWithT(t)
	const perSecond, targets, moment = 50, 300, 100 * time.Millisecond
	const inMoment = perSecond / 10
	pacer := New(perSecond)
	moments := map[int64]int{}
	for i := range targets {
		moments[int64(pacer.Delay(named(i), now)/moment)]++
	}
	for at, n := range moments {
		g.Expect(n).To(BeNumerically("<=", Burst(perSecond)+inMoment), "in moment %d", at)
	}
	g.Expect(moments).To(HaveLen(1+(targets-Burst(perSecond))/inMoment), "those that wait keep to the pace")
}

func TestReservationsThatAreNotUsed(t *testing.T) {
	g := NewWithT(t)
	pacer := New(1)
	a, b := named(1), named(2)
	g.Expect(pacer.Delay(a, now)).To(BeZero())
	g.Expect(pacer.Delay(b, now)).To(Equal(time.Second))
	for i := range 100 { // it comes and goes meanwhile
		g.Expect(pacer.Delay(b, now.Add(time.Duration(i)*time.Millisecond))).To(BeNumerically("<=", time.Second))
	}
	g.Expect(pacer.Delay(named(3), now)).To(Equal(2*time.Second), "each has one reservation")
	g.Expect(pacer.Delay(b, now.Add(time.Second+kept))).To(BeZero(), "a write that failed is tried again")
	g.Expect(pacer.Delay(a, now.Add(time.Second+kept))).To(BeZero(), "that one is over, and the line is empty")
	g.Expect(pacer.Delay(b, now.Add(1500*time.Millisecond+kept))).To(
		Equal(500*time.Millisecond), "so is this, and another name was there")
}

// A run takes the time before it writes, so that it may ask late.
func TestReservationsOfThoseThatAskLate(t *testing.T) {
	g := NewWithT(t)
	const perSecond = 10
	pacer := New(perSecond)
	places := map[time.Time]int{}
	for i := range 200 {
		at := now.Add(time.Duration(i) * time.Millisecond)
		asks := at
		if i%2 == 1 {
			asks = at.Add(-500 * time.Millisecond)
		}
		wait := pacer.Delay(named(i), asks)
		if i < Burst(perSecond) {
			g.Expect(wait).To(BeZero(), "none is before it")
		}
		if turn := asks.Add(wait); turn.After(at) {
			at = turn
		}
		places[at.Truncate(time.Second)]++
	}
	g.Expect(places).To(HaveLen(20), "no reservation is given twice")
	for second, n := range places {
		g.Expect(n).To(BeNumerically("<=", 2*perSecond), "in %s", second)
	}
}

func TestReservationIsKeptWhenSomethingElseIsWritten(t *testing.T) {
	g := NewWithT(t)
	pacer := New(1)
	for i := range 10 {
		pacer.Delay(named(i), now)
	}
	last := named(9)
	for second := range 9 {
		at := now.Add(time.Duration(second) * time.Second)
		pacer.Written(last, at)
		g.Expect(pacer.Delay(last, at)).To(Equal(time.Duration(9-second) * time.Second))
	}
	pacer.Written(last, now.Add(9*time.Second))
	g.Expect(pacer.reserved).NotTo(HaveKey(last))
	pacer.Delay(last, now)
	pacer.Forget(last)
	g.Expect(pacer.reserved).NotTo(HaveKey(last))
}

// A run that began before others need not reserve again for a write that failed.
func TestReservationIsKeptForOneThatIsLate(t *testing.T) {
	g := NewWithT(t)
	pacer := New(1)
	a := named(1)
	g.Expect(pacer.Delay(a, now)).To(BeZero())
	pacer.Delay(named(2), now.Add(kept+time.Second/2))
	g.Expect(pacer.Delay(a, now.Add(kept-time.Second/10))).To(BeZero())
}

// Names that come and go do not make the line longer, and no reservation is kept for ever that was not used.
func TestNamesThatComeAndGoHaveOneReservation(t *testing.T) {
	g := NewWithT(t)
	const perSecond = 100
	pacer := New(perSecond)
	first := make([]time.Duration, 20*perSecond)
	for i := range first {
		first[i] = pacer.Delay(named(i), now)
	}
	last := first[len(first)-1]
	g.Expect(last).To(BeNumerically("~", 20*time.Second, time.Second))
	for range 10 {
		for i := range first {
			g.Expect(pacer.Delay(named(i), now)).To(Equal(first[i]))
		}
	}
	later := now.Add(last + kept + time.Hour)
	g.Expect(pacer.Delay(named(-1), later)).To(BeZero())
	g.Expect(pacer.reserved).To(HaveLen(1))
}
