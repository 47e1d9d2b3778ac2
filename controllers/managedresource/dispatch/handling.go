package dispatch

import (
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// handler notes since when the handler of an informer has been handling an event. Handlers are called one at a time.
type handler struct {
	d    *Dispatcher
	next toolscache.ResourceEventHandler
}

// timed registers a handler for OldestHandling.
func (d *Dispatcher) timed(next toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	return &handler{d: d, next: next}
}

func (h *handler) begin() (end func()) {
	h.d.handling.Store(h, h.d.Clock.Now())
	return func() { h.d.handling.Delete(h) }
}

// OnAdd implements toolscache.ResourceEventHandler.
func (h *handler) OnAdd(obj any, initial bool) {
	defer h.begin()()
	h.next.OnAdd(obj, initial)
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h *handler) OnUpdate(before, after any) {
	defer h.begin()()
	h.next.OnUpdate(before, after)
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h *handler) OnDelete(obj any) {
	defer h.begin()()
	h.next.OnDelete(obj)
}

// OldestHandling returns since when the longest running handler has been handling an event; zero if none is.
func (d *Dispatcher) OldestHandling() (oldest time.Time) {
	d.handling.Range(func(_, value any) bool {
		if since, ok := value.(time.Time); ok && (oldest.IsZero() || since.Before(oldest)) {
			oldest = since
		}
		return true
	})
	return oldest
}
