package leader

import (
	"context"
	"sync"
)

// term is one term of leadership, begun or not. It runs at most once. It ends with the process, when the Lease was not
// renewed in time, when another replica holds it, or when client-go is about to release it.
type term struct {
	end  context.CancelFunc // of the work; the Lease stays
	stop context.CancelFunc // of the election

	once sync.Once
	err  error // of the work, once it is over
}

// run runs the work, unless the term is over already, and ends the election after that.
func (t *term) run(ctx context.Context, work func(context.Context) error) {
	t.once.Do(func() {
		defer t.stop()
		if ctx.Err() == nil {
			t.err = work(ctx)
		}
	})
}

// over ends the term, waits until its work has returned, and prevents it from beginning.
func (t *term) over() {
	t.end()
	t.once.Do(func() {})
}

// lost ends the term of a Lease that another replica holds, without waiting for it.
func (t *term) lost() {
	t.end()
	t.stop()
}
