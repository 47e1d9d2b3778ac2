package subscription

import (
	"context"
	"time"

	"github.com/trellis-hub/trellis/clustercache/internal/watching"
)

// Replacement has the streams of a set collect their initial lists over a connection that is to replace the one that
// serves.
type Replacement struct {
	connection *watching.Connection
	bindings   map[*stream]*watching.Binding
	awaited    []*stream // those that are synced over the one that serves
}

// Replace starts a replacement. It ends with its connection, unless it is promoted.
func (s *Set) Replace(next *watching.Connection) *Replacement {
	streams := s.all()
	r := &Replacement{connection: next, bindings: make(map[*stream]*watching.Binding, len(streams))}
	for _, w := range streams {
		b := watching.Bind(w.Stream, next)
		r.bindings[w] = b
		if w.Synced() {
			r.awaited = append(r.awaited, w)
		}
		b.Start(s.running)
	}
	return r
}

// Await waits until the streams that are synced have their initial lists over the next connection too, or the one that
// serves has ended. It returns the name of a stream that fails, and why, or no name and the cause of ctx.
func (r *Replacement) Await(ctx context.Context, serving <-chan struct{}, deadline <-chan time.Time) (string, error) {
	for _, w := range r.awaited {
		var err error
		select {
		case err = <-r.bindings[w].Outcome():
		case <-w.Done():
		case <-serving:
			return "", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-deadline:
			err = watching.ErrStalled
		}
		if err != nil {
			return w.Name(), err
		}
	}
	return "", nil
}

// Promote has a replacement take over. Streams that were added meanwhile are yet to be bound.
func (r *Replacement) Promote() {
	for w, b := range r.bindings {
		w.boundTo = r.connection
		w.Promote(b)
	}
}
