package transport

import (
	"context"
	"net/http"
	"sync/atomic"
)

// Gate suspends the calls of a connection while it is not known whether the connection is of any use. The zero value is
// open.
type Gate struct {
	hold  atomic.Pointer[hold]
	holds atomic.Uint64
}

type hold struct {
	cause error
	over  context.Context // ends when the gate opens
	open  context.CancelFunc
}

// Close lets no call pass: calls fail at once with cause, and watches wait until the gate opens, so that they continue
// where they were instead of asking again and again.
func (g *Gate) Close(cause error) {
	over, open := context.WithCancel(context.Background())
	if !g.hold.CompareAndSwap(nil, &hold{cause: cause, over: over, open: open}) {
		open()
		return
	}
	g.holds.Add(1)
}

// Holds returns how often the gate was closed so far.
func (g *Gate) Holds() uint64 { return g.holds.Load() }

// Open lets all calls pass.
func (g *Gate) Open() {
	if h := g.hold.Swap(nil); h != nil {
		h.open()
	}
}

// Closed returns nil if the gate is open, else a channel that is closed when it opens.
func (g *Gate) Closed() <-chan struct{} {
	if h := g.hold.Load(); h != nil {
		return h.over.Done()
	}
	return nil
}

// cause is what calls fail with, nil if the gate is open.
func (g *Gate) cause() error {
	if h := g.hold.Load(); h != nil {
		return h.cause
	}
	return nil
}

// pass waits at the gate if it is closed and the call is a watch.
func (g *Gate) pass(c *call, watch bool) error {
	for {
		h := g.hold.Load()
		switch {
		case h == nil:
			return nil
		case !watch:
			return h.cause
		}
		select {
		case <-h.over.Done():
		case <-c.ctx.Done():
			return c.explain(c.ctx.Err())
		}
	}
}

// refused ends a request that was not sent.
func refused(request *http.Request, c *call, err error) error {
	closeBody(request)
	c.end(err)
	return err
}
