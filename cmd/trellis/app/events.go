package app

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/clock"
)

const (
	// eventsAtOnce may be reported without a pause, so that what happens to a few targets is reported when it happens.
	eventsAtOnce = 25
	// eventsPerSecond is the rate after that. Hundreds of targets that are lost or back at once cause as many events as
	// conditions. Events come later, so that the source has capacity for conditions and for corrections in other targets.
	eventsPerSecond = 20
	// eventsWaiting bounds the queue, whose last event waits for half a minute. Further events are sent at once. The bound is
	// small because an event has the time at which it is sent, and queued events may be lost when the process ends.
	eventsWaiting = 500
)

// pacedEvents passes on the events of one term at a limited rate, in their order.
type pacedEvents struct {
	to      events.EventRecorder
	scheme  *runtime.Scheme
	clock   clock.Clock
	pace    *rate.Limiter
	waiting chan func()

	mu sync.Mutex // keeps the order: no event overtakes those that wait
}

func newPacedEvents(to events.EventRecorder, scheme *runtime.Scheme, c clock.Clock) *pacedEvents {
	return &pacedEvents{to: to, scheme: scheme, clock: c, pace: rate.NewLimiter(eventsPerSecond, eventsAtOnce),
		waiting: make(chan func(), eventsWaiting)}
}

// Eventf implements events.EventRecorder.
func (p *pacedEvents) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if p.wait(func() func() {
		// An object that is referred to need not be kept.
		regarding, related, text := p.reference(regarding), p.reference(related), fmt.Sprintf(note, args...)
		return func() { p.to.Eventf(regarding, related, eventType, reason, action, "%s", text) }
	}) {
		return
	}
	p.to.Eventf(regarding, related, eventType, reason, action, note, args...)
}

// wait puts an event behind those that wait, unless it has its turn at once or too many wait. It returns whether it
// did.
func (p *pacedEvents) wait(event func() func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == cap(p.waiting) || len(p.waiting) == 0 && p.pace.AllowN(p.clock.Now(), 1) {
		return false
	}
	p.waiting <- event() // there is room: only the holder of the lock sends to it
	return true
}

// reference refers to an object. An object that cannot be referred to is returned as it is, so that the
// recorder reports that.
func (p *pacedEvents) reference(object runtime.Object) runtime.Object {
	if object == nil {
		return nil
	}
	if r, err := reference.GetReference(p.scheme, object); err == nil {
		return r
	}
	return object
}

// start passes on queued events until ctx ends. The caller of start calls flush then.
func (p *pacedEvents) start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case send := <-p.waiting:
			p.pause(ctx)
			send()
		}
	}
}

// pause waits for the next turn. If ctx ends, the rest need not wait.
func (p *pacedEvents) pause(ctx context.Context) {
	now := p.clock.Now()
	timer := p.clock.NewTimer(p.pace.ReserveN(now, 1).DelayFrom(now))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// flush passes on what still waits, without pauses.
func (p *pacedEvents) flush() {
	for {
		select {
		case send := <-p.waiting:
			send()
		default:
			return
		}
	}
}
