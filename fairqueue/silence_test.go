package fairqueue

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// silentTargets are targets that answer nothing, if that is in their names, until they are settled. The others answer
// when they are told to, or always.
type silentTargets struct {
	shy bool // the others have to be settled, too

	mu    sync.Mutex
	asked []string
	open  map[string][]func()
}

func (s *silentTargets) answers(item string, settled func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lane := laneOf(item)
	s.asked = append(s.asked, lane)
	if !s.shy && !strings.HasPrefix(lane, "silent") {
		return true
	}
	if s.open == nil {
		s.open = map[string][]func(){}
	}
	s.open[lane] = append(s.open[lane], settled)
	return false
}

// settle ends the open questions of a lane, and returns how many there were.
func (s *silentTargets) settle(lane string) int {
	s.mu.Lock()
	open := s.open[lane]
	delete(s.open, lane)
	s.mu.Unlock()
	for _, settled := range open {
		settled()
	}
	return len(open)
}

func (s *silentTargets) wasAsked(lane string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.asked, lane)
}

func (s *silentTargets) wasAskedSince(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked[n:])
}

// tick lets Doubt go by, and waits until the queue has looked at what was handed out before.
func tick(g Gomega, q *Queue[string], clock *clocktesting.FakeClock) {
	var timer any
	g.Eventually(func() bool {
		q.mutex.Lock()
		defer q.mutex.Unlock()
		timer = q.aging
		return timer != nil && clock.HasWaiters()
	}, 30*time.Second).Should(BeTrue())
	clock.Step(q.options.Doubt)
	g.Eventually(func() bool {
		q.mutex.Lock()
		defer q.mutex.Unlock()
		return q.aging != timer
	}, 30*time.Second).Should(BeTrue())
}

func TestWorkForASilentTargetGivesUpItsPlaceEarly(t *testing.T) {
	g := NewWithT(t)
	targets := &silentTargets{}
	q, clock := newTestQueue(t, Options[string]{Places: 2, MaxInFlight: limit(4), Answers: targets.answers})
	warm(t, q, "silent", "busy")
	addMany(q, "silent", 2)
	addMany(q, "busy", 1)
	g.Expect(take(q)).To(Equal([]string{"silent/0", "busy/0"}))
	q.Add("fine/0")
	tick(g, q, clock)
	g.Expect(targets.wasAsked("silent")).To(BeTrue())
	g.Expect(targets.wasAsked("busy")).To(BeTrue())
	g.Expect(available(q)).To(BeFalse(), "it may answer yet")
	tick(g, q, clock)
	g.Expect(take(q)).To(Equal([]string{"fine/0"}), "busy/0 takes as long, but its target answers")
	g.Expect(faults(q)).To(BeEmpty())
	g.Expect(q.measure().slow).To(Equal(1))

	// It is judged when its patience is over, as others are.
	q.Done("fine/0")
	q.Done("busy/0")
	g.Expect(q.lanes["silent"].standing).To(Equal(swift))
	clock.Step(q.options.Patience)
	g.Eventually(func() int { q.mutex.Lock(); defer q.mutex.Unlock(); return q.yielded.Len() }).Should(BeZero())
	g.Expect(q.lanes["silent"].standing).To(Equal(unknown))
	q.Done("silent/0")
	g.Expect(q.measure().slow).To(BeZero())
	g.Expect(faults(q)).To(BeEmpty())
}

func TestWorkWhoseTargetAnswersInTimeKeepsItsPlace(t *testing.T) {
	g := NewWithT(t)
	targets := &silentTargets{shy: true}
	q, clock := newTestQueue(t, Options[string]{Places: 1, Answers: targets.answers})
	warm(t, q, "a")
	q.Add("a/0")
	g.Expect(take(q)).To(HaveLen(1))
	tick(g, q, clock)
	for range 5 { // it answers, and is asked again as it takes longer
		g.Expect(targets.settle("a")).To(Equal(1))
		tick(g, q, clock)
	}
	g.Expect(q.measure().slow).To(BeZero())
	g.Expect(targets.settle("a")).To(Equal(1))
	g.Expect(q.asked).To(BeEmpty())
}

// Where all targets are slow none is silent, however busy the processors are.
func TestWhereAllAreSlowNobodyIsSilent(t *testing.T) {
	g := NewWithT(t)
	targets := &silentTargets{shy: true}
	q, clock := newTestQueue(t, Options[string]{Places: 2, Answers: targets.answers})
	slow := func(item string, doubts int) { // the answer is late by some doubts
		warm(t, q, laneOf(item))
		q.Add(item)
		g.Expect(take(q)).To(HaveLen(1))
		for range 1 + doubts {
			tick(g, q, clock)
		}
		g.Expect(targets.settle(laneOf(item))).To(Equal(1))
	}
	slow("a/0", 2)
	g.Expect(q.measure().slow).To(Equal(1), "nothing is usual yet")
	q.Done("a/0")
	slow("b/0", 5)
	g.Expect(q.measure().slow).To(BeZero())
	q.Done("b/0")
	slow("c/0", 9)
	g.Expect(q.measure().slow).To(Equal(1), "patience is over")
	q.Done("c/0")
	usual := q.usual
	q.learnUsual(q.options.Patience)
	g.Expect(q.usual).To(Equal(usual), "what comes then is no answer")
}

// Of many that are new, or that are slow at first, nobody is asked, and however many are silent, no more than there are
// places give up theirs early.
func TestFewGiveUpTheirPlacesEarly(t *testing.T) {
	g := NewWithT(t)
	targets := &silentTargets{}
	q, clock := newTestQueue(t, Options[string]{Places: 4, Workers: 32, MaxInFlight: limit(9), Answers: targets.answers})
	addMany(q, "silent-new", 4)
	g.Expect(take(q)).To(HaveLen(4))
	for range 4 {
		tick(g, q, clock)
	}
	g.Expect(q.measure().slow).To(BeZero())
	g.Expect(targets.asked).To(BeEmpty())
	for i := range 4 {
		q.Done(fmt.Sprint("silent-new/", i))
	}

	warm(t, q, "silent", "fine")
	for range 3 {
		q.Add("fine/0")
		g.Expect(take(q)).To(HaveLen(1)) // else a timer of before is early
		q.Done("fine/0")
	}
	addMany(q, "silent", 8)
	g.Expect(take(q)).To(HaveLen(4))
	tick(g, q, clock)
	tick(g, q, clock)
	tick(g, q, clock)
	g.Expect(q.measure().slow).To(Equal(4))
	addMany(q, "fine", 4)
	g.Expect(take(q)).NotTo(BeEmpty())
	tick(g, q, clock)
	tick(g, q, clock)
	tick(g, q, clock)
	g.Expect(q.yielded.Len()).To(Equal(4))
	g.Expect(faults(q)).To(BeEmpty())
}

// Whoever comes late to look may find answers that are late for the same reason.
func TestNobodyIsFoundSilentByALateLook(t *testing.T) {
	g := NewWithT(t)
	targets := &silentTargets{}
	q, clock := newTestQueue(t, Options[string]{Places: 1, Answers: targets.answers})
	warm(t, q, "silent")
	q.Add("silent/0")
	g.Expect(take(q)).To(HaveLen(1))
	tick(g, q, clock)
	elapse(g, q, clock, time.Second)
	g.Eventually(func() bool { return clock.HasWaiters() }).Should(BeTrue())
	g.Expect(q.measure().slow).To(BeZero())
	tick(g, q, clock)
	g.Expect(q.measure().slow).To(Equal(1))
}

// warm has lanes served once, in time.
func warm(t testing.TB, q *Queue[string], lanes ...string) {
	for _, lane := range lanes {
		q.Add(lane + "/first")
		work(t, q, 1)
	}
}

// hush has as many targets silent as it takes to ask the others first.
func hush(t testing.TB, g Gomega, q *Queue[string], clock *clocktesting.FakeClock, n int) {
	for i := range n {
		warm(t, q, fmt.Sprintf("silent-%d", i))
	}
	for i := range n {
		q.Add(fmt.Sprintf("silent-%d/0", i))
	}
	g.Expect(take(q)).To(HaveLen(n))
	tick(g, q, clock)
	tick(g, q, clock)
	g.Expect(q.measure().slow).To(Equal(n))
}

func TestTargetsAreAskedBeforeWorkersAreSpentWhileManyAreSilent(t *testing.T) {
	g := NewWithT(t)
	targets := &silentTargets{shy: true}
	q, clock := newTestQueue(t, Options[string]{Places: 4, Workers: 32, Answers: targets.answers})
	hush(t, g, q, clock, 2)

	addMany(q, "silent-2", 3)
	addMany(q, "fine", 2)
	g.Expect(take(q)).To(BeEmpty())
	g.Expect(targets.wasAsked("silent-2")).To(BeTrue())
	g.Expect(q.measure().held).To(Equal(5))
	g.Expect(q.measure().oldest).To(BeZero(), "no worker would help them")
	clock.Step(time.Millisecond)
	targets.shy = false
	g.Expect(targets.settle("fine")).To(Equal(1), "however many items it has")
	g.Expect(take(q)).To(Equal([]string{"fine/0", "fine/1"}))
	q.Add("silent-2/more")
	g.Expect(take(q)).To(BeEmpty())
	g.Expect(targets.settle("silent-2")).To(Equal(1), "and however often they are added")
	g.Expect(faults(q)).To(BeEmpty())
	g.Expect(take(q)).To(Equal([]string{"silent-2/0"}), "its target is asked anew for each, for it need not answer any more")

	// When few are silent any more, nobody is asked.
	g.Expect(targets.settle("silent-0")).To(Equal(1))
	g.Expect(take(q)).To(BeEmpty())
	g.Expect(targets.settle("silent-2")).To(Equal(1))
	g.Expect(take(q)).To(Equal([]string{"silent-2/1"}))
	g.Expect(faults(q)).To(BeEmpty())
}

// Where places are scarce, a target that has answered need not do so again until it is the turn of its lane, unless
// that takes long.
func TestAnAnswerHoldsUntilALaneIsServed(t *testing.T) {
	g := NewWithT(t)
	targets := &silentTargets{shy: true}
	q, clock := newTestQueue(t, Options[string]{Places: 1, Workers: 16, Answers: targets.answers})
	hush(t, g, q, clock, 1)
	for _, item := range []string{"a/0", "b/0", "c/0"} {
		q.Add(item)
	}
	g.Expect(take(q)).To(BeEmpty())
	asked := len(targets.asked)
	for _, lane := range []string{"a", "b", "c"} {
		g.Expect(targets.settle(lane)).To(Equal(1))
	}
	g.Expect(take(q)).To(Equal([]string{"a/0"}), "there is one place")
	clock.Step(vouched / 2)
	q.Done("a/0")
	g.Expect(take(q)).To(Equal([]string{"b/0"}))
	g.Expect(targets.asked).To(HaveLen(asked))
	clock.Step(vouched / 2)
	q.Done("b/0")
	g.Expect(take(q)).To(BeEmpty())
	g.Expect(targets.wasAskedSince(asked)).To(ContainElement("c"))
}

// The wait for a target that was silent is none for a worker.
func TestTimeInWhichATargetWasSilentIsNoWait(t *testing.T) {
	g := NewWithT(t)
	targets := &silentTargets{}
	waits := map[string]time.Duration{}
	q, clock := newTestQueue(t, Options[string]{
		Places: 2, Workers: 16, Answers: targets.answers, Served: func(item string, wait time.Duration) { waits[item] = wait },
	})
	hush(t, g, q, clock, 1)
	q.Add("silent-1/0")
	g.Expect(take(q)).To(BeEmpty())
	clock.Step(9 * time.Second)
	g.Expect(targets.settle("silent-1")).To(Equal(1))
	g.Expect(take(q)).To(HaveLen(1))
	g.Expect(waits).To(HaveKeyWithValue("silent-1/0", time.Duration(0)))
}

// What waits in the background, for nobody, waits from the moment on in which somebody asks for it.
func TestWaitBeginsWhenWorkBecomesUrgent(t *testing.T) {
	g := NewWithT(t)
	waits := map[string]time.Duration{}
	q, clock := newTestQueue(t, Options[string]{Served: func(item string, wait time.Duration) { waits[item] = wait }})
	q.AddWithOpts(priority(-100), "a/0")
	clock.Step(time.Minute)
	q.AddWithOpts(priority(50), "a/0")
	clock.Step(time.Second)
	q.AddWithOpts(priority(100), "a/0")
	clock.Step(time.Second)
	g.Expect(take(q)).To(Equal([]string{"a/0"}))
	g.Expect(waits).To(HaveKeyWithValue("a/0", 2*time.Second))

	q.AddWithOpts(priority(-100), "b/0")
	clock.Step(time.Minute)
	g.Expect(take(q)).To(Equal([]string{"b/0"}))
	g.Expect(waits).NotTo(HaveKey("b/0"), "nobody waited")
}

func TestTargetsAreNotAskedWhileFewAreSilent(t *testing.T) {
	g := NewWithT(t)
	targets := &silentTargets{}
	q, clock := newTestQueue(t, Options[string]{Places: 6, Workers: 48, Answers: targets.answers})
	hush(t, g, q, clock, 2)
	q.Add("fine/0")
	q.Add("silent-9/0")
	g.Expect(take(q)).To(ConsistOf("fine/0", "silent-9/0"))
	g.Expect(targets.asked).To(HaveLen(2))
}

// What targets do not answer is known no longer than it is so, be there work for them or not.
func TestQuestionsOutliveLanes(t *testing.T) {
	g := NewWithT(t)
	targets := &silentTargets{}
	q, clock := newTestQueue(t, Options[string]{Places: 4, Workers: 32, Answers: targets.answers})
	hush(t, g, q, clock, 2)
	q.Done("silent-0/0")
	q.Done("silent-1/0")
	g.Expect(q.lanes).To(BeEmpty())
	q.Add("silent-0/1")
	g.Expect(take(q)).To(BeEmpty())
	g.Expect(targets.asked).To(HaveLen(2), "the question is open")
	g.Expect(targets.settle("silent-1")).To(Equal(1))
	g.Expect(targets.settle("silent-0")).To(Equal(1))
	g.Expect(take(q)).To(Equal([]string{"silent-0/1"}))
	g.Expect(q.asked).To(BeEmpty())
	g.Expect(q.silent).To(BeZero())
}

func TestAnswersAfterTheEndOfTheQueue(t *testing.T) {
	g := NewWithT(t)
	targets := &silentTargets{}
	q, clock := newTestQueue(t, Options[string]{Places: 2, Answers: targets.answers})
	hush(t, g, q, clock, 1)
	q.Add("silent-1/0")
	g.Expect(take(q)).To(BeEmpty())
	q.ShutDown()
	asked := len(targets.asked)
	g.Expect(targets.settle("silent-0") + targets.settle("silent-1")).To(Equal(2))
	q.Done("silent-0/0")
	g.Expect(targets.asked).To(HaveLen(asked), "nobody is asked any more")
	_, over := q.Get()
	g.Expect(over).To(BeTrue())
}
