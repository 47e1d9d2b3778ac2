package leader

import (
	"context"
	"sync"
)

// term is one term of leadership, begun or not. It runs once at most, and its end has many possible reasons: that of the
// process, a Lease that was not renewed in time, that somebody else has it, or that client-go is about to give it back.
type term struct {
	end  context.CancelFunc // of the work; the Lease stays
	stop context.CancelFunc // of the election

	once sync.Once
	err  error // of the work, once it is over
}

// run works unless the term is over already, and ends the election after that.
func (t *term) run(ctx context.Context, work func(context.Context) error) {
	t.once.Do(func() {
		defer t.stop()
		if ctx.Err() == nil {
			t.err = work(ctx)
		}
	})
}

// over ends the term, waits until nothing of it is left, and lets none begin.
func (t *term) over() {
	t.end()
	t.once.Do(func() {})
}

// lost ends the term of a Lease that is somebody else's, without waiting for it.
func (t *term) lost() {
	t.end()
	t.stop()
}
