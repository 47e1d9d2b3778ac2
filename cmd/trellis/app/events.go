package app

import (
	"context"
	"fmt"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
)

const (
	// eventsAtOnce may be told without a pause, so that what happens to a few targets is told when it happens.
	eventsAtOnce = 100
	// eventsPerSecond is the pace after that. Hundreds of targets that are back at once have as much to tell by events as by their conditions, and the
	// source had both to take in the same seconds. Operators wait for the conditions.
	eventsPerSecond = 30
	// eventsWaiting is how many wait for their turn. What comes then does not wait.
	eventsWaiting = 2000
)

// pacedEvents hands events of one term on at a pace. Nothing is left out, and what waits is told in its order.
type pacedEvents struct {
	to      events.EventRecorder
	scheme  *runtime.Scheme
	pace    *rate.Limiter
	waiting chan func()
}

func newPacedEvents(to events.EventRecorder, scheme *runtime.Scheme) *pacedEvents {
	return &pacedEvents{to: to, scheme: scheme, pace: rate.NewLimiter(eventsPerSecond, eventsAtOnce), waiting: make(chan func(), eventsWaiting)}
}

// Eventf implements events.EventRecorder.
func (p *pacedEvents) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if len(p.waiting) == 0 && p.pace.Allow() {
		p.to.Eventf(regarding, related, eventType, reason, action, note, args...)
		return
	}
	// An object that is referred to need not be kept.
	regarding, related = p.reference(regarding), p.reference(related)
	text := fmt.Sprintf(note, args...)
	tell := func() { p.to.Eventf(regarding, related, eventType, reason, action, "%s", text) }
	select {
	case p.waiting <- tell:
	default:
		tell()
	}
}

// reference refers to an object. What cannot be referred to is returned as it is, for who takes the event to say so.
func (p *pacedEvents) reference(object runtime.Object) runtime.Object {
	if object == nil {
		return nil
	}
	if r, err := reference.GetReference(p.scheme, object); err == nil {
		return r
	}
	return object
}

// start tells what waits until ctx ends. Whoever starts it tells the rest.
func (p *pacedEvents) start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case tell := <-p.waiting:
			_ = p.pace.Wait(ctx) // if ctx ends, the rest need not wait
			tell()
		}
	}
}

// tellTheRest tells what still waits.
func (p *pacedEvents) tellTheRest() {
	for {
		select {
		case tell := <-p.waiting:
			tell()
		default:
			return
		}
	}
}
