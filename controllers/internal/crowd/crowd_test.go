package crowd

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

func TestManyTakeTurnsToWrite(t *testing.T) {
	g := NewWithT(t)
	const perSecond, targets = 50, 300
	crowd := New(perSecond)
	written := map[int]bool{}
	for second := range targets/perSecond + 1 {
		at := now.Add(time.Duration(second) * time.Second)
		before := len(written)
		for i := range targets {
			if !written[i] && crowd.Wait(named(i), at) == 0 {
				written[i] = true
				crowd.Used(named(i), at)
			}
		}
		g.Expect(len(written)-before).To(BeNumerically("<=", perSecond), "in second %d", second)
	}
	g.Expect(written).To(HaveLen(targets))
	g.Expect(crowd.when).To(BeEmpty())
}

// Who corrects drift waits for the source in that moment.
func TestFewOfManyWriteInOneMoment(t *testing.T) {
	g := NewWithT(t)
	const perSecond, targets, moment = 50, 300, 100 * time.Millisecond
	const inMoment = perSecond / 10
	crowd := New(perSecond)
	moments := map[int64]int{}
	for i := range targets {
		moments[int64(crowd.Wait(named(i), now)/moment)]++
	}
	for at, n := range moments {
		g.Expect(n).To(BeNumerically("<=", AtOnce(perSecond)+inMoment), "in moment %d", at)
	}
	g.Expect(moments).To(HaveLen(1+(targets-AtOnce(perSecond))/inMoment), "those that wait keep to the pace")
}

func TestTurnsThatAreNotUsed(t *testing.T) {
	g := NewWithT(t)
	crowd := New(1)
	a, b := named(1), named(2)
	g.Expect(crowd.Wait(a, now)).To(BeZero())
	g.Expect(crowd.Wait(b, now)).To(Equal(time.Second))
	for i := range 100 { // it comes and goes meanwhile
		g.Expect(crowd.Wait(b, now.Add(time.Duration(i)*time.Millisecond))).To(BeNumerically("<=", time.Second))
	}
	g.Expect(crowd.Wait(named(3), now)).To(Equal(2*time.Second), "each has one place in the line")
	g.Expect(crowd.Wait(b, now.Add(time.Second+kept))).To(BeZero(), "a write that failed is tried again")
	g.Expect(crowd.Wait(a, now.Add(time.Second+kept))).To(BeZero(), "that one is over, and the line is empty")
	g.Expect(crowd.Wait(b, now.Add(1500*time.Millisecond+kept))).To(Equal(500*time.Millisecond), "so is this, and somebody was there")
}

// A look takes the time before it writes, and who has written is late.
func TestTurnsOfThoseWhoAreLate(t *testing.T) {
	g := NewWithT(t)
	const perSecond = 10
	crowd := New(perSecond)
	places := map[time.Time]int{}
	for i := range 200 {
		at := now.Add(time.Duration(i) * time.Millisecond)
		asks := at
		if i%2 == 1 {
			asks = at.Add(-500 * time.Millisecond)
		}
		wait := crowd.Wait(named(i), asks)
		if i < AtOnce(perSecond) {
			g.Expect(wait).To(BeZero(), "nobody is before it")
		}
		if turn := asks.Add(wait); turn.After(at) {
			at = turn
		}
		places[at.Truncate(time.Second)]++
	}
	g.Expect(places).To(HaveLen(20), "no place is given twice")
	for second, n := range places {
		g.Expect(n).To(BeNumerically("<=", 2*perSecond), "in %s", second)
	}
}

func TestPlaceInTheLineIskeptWhenSomethingElseIsWritten(t *testing.T) {
	g := NewWithT(t)
	crowd := New(1)
	for i := range 10 {
		crowd.Wait(named(i), now)
	}
	last := named(9)
	for second := range 9 {
		at := now.Add(time.Duration(second) * time.Second)
		crowd.Used(last, at)
		g.Expect(crowd.Wait(last, at)).To(Equal(time.Duration(9-second) * time.Second))
	}
	crowd.Used(last, now.Add(9*time.Second))
	g.Expect(crowd.when).NotTo(HaveKey(last))
	crowd.Wait(last, now)
	crowd.Forget(last)
	g.Expect(crowd.when).NotTo(HaveKey(last))
}

// One that began to look before the others need not queue again for a write that failed.
func TestTurnIsKeptForOneWhoIsLate(t *testing.T) {
	g := NewWithT(t)
	crowd := New(1)
	a := named(1)
	g.Expect(crowd.Wait(a, now)).To(BeZero())
	crowd.Wait(named(2), now.Add(kept+time.Second/2))
	g.Expect(crowd.Wait(a, now.Add(kept-time.Second/10))).To(BeZero())
}

// Those that come and go do not make the line longer, and nobody is remembered for ever who had a turn and nothing to
// say when it came.
func TestThoseThatComeAndGoHaveOnePlace(t *testing.T) {
	g := NewWithT(t)
	const perSecond = 100
	crowd := New(perSecond)
	first := make([]time.Duration, 20*perSecond)
	for i := range first {
		first[i] = crowd.Wait(named(i), now)
	}
	last := first[len(first)-1]
	g.Expect(last).To(BeNumerically("~", 20*time.Second, time.Second))
	for range 10 {
		for i := range first {
			g.Expect(crowd.Wait(named(i), now)).To(Equal(first[i]))
		}
	}
	later := now.Add(last + kept + time.Hour)
	g.Expect(crowd.Wait(named(-1), later)).To(BeZero())
	g.Expect(crowd.when).To(HaveLen(1))
}
