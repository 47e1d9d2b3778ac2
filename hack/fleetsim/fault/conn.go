package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// Conn is a connection below TLS that can be held.
type Conn struct {
	net.Conn
	listener *Listener
	number   uint64

	shaken atomic.Bool            // the TLS handshake is over; known only if it matters
	heldBy atomic.Pointer[active] // the last fault that held it, so that it counts once
	once   sync.Once
	// over is closed when the connection was closed here or its client has left.
	over chan struct{}
}

type connKey struct{}

// ConnContext is that of an http.Server whose handler is Switch.Handler. Without it, Reset only ends the request.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// ConnOf returns the connection of a request, nil if it does not come from a Listener of this package.
func ConnOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn) // nil says it
	return c
}

// reset ends the connection of a request by a TCP reset, and its handler with it.
func reset(ctx context.Context) {
	if c := ConnOf(ctx); c != nil {
		c.Reset()
	}
	panic(http.ErrAbortHandler)
}

// Reset ends the connection with a TCP reset.
func (c *Conn) Reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it fails if the connection is closed, which is what is wanted
	}
	_ = c.Close() // likewise
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.end()
	c.listener.forget(c)
	return c.Conn.Close()
}

func (c *Conn) end() { c.once.Do(func() { close(c.over) }) }

// Read implements net.Conn. What arrives while the connection is in a black hole or silent waits until that is over.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.end() // the client is gone: what Write holds back is not sent
	}
	if n > 0 && !c.hold() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn. What is sent while the connection is in a black hole or silent waits until that is over.
func (c *Conn) Write(p []byte) (int, error) {
	if !c.hold() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// hold waits while a fault holds the connection, and says whether it is still there.
func (c *Conn) hold() bool {
	for {
		state := c.listener.faults.state.Load()
		f := c.holder(state)
		if f == nil {
			return true
		}
		if c.heldBy.Swap(f) != f {
			f.struck.Add(1)
		}
		select {
		case <-state.changed:
		case <-c.over:
			return false
		}
	}
}

// holder returns the fault that holds the connection now.
func (c *Conn) holder(state *state) *active {
	for _, f := range state.faults {
		if c.struckBy(f) && (f.Kind == BlackHole || f.At == BeforeHandshake || c.shaken.Load()) {
			return f
		}
	}
	return nil
}

// struckBy reports whether the fault is one that holds connections, and this one among them.
func (c *Conn) struckBy(f *active) bool {
	isNew := c.number > f.accepted
	switch f.Kind {
	case BlackHole:
		return (f.Connections == "" || isNew == (f.Connections == NewConnections)) && c.listener.faults.hits(f, c.number)
	case Silent:
		return isNew && c.listener.faults.hits(f, c.number)
	default:
		return false
	}
}

// mayBeHeld reports whether a fault holds the connection now or once it has shaken hands.
func (c *Conn) mayBeHeld() bool {
	return slices.ContainsFunc(c.listener.faults.state.Load().faults, c.struckBy)
}

func (c *Conn) isOver() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// Handshake returns the configuration for a connection that is about to shake hands: the one given or, if the
// server is to be Silent after the handshake, one that notices when the handshake is over. It is to be called
// by GetConfigForClient. The configuration must require TLS 1.3, in which the server has nothing more to say
// once the client verified it.
func Handshake(hello *tls.ClientHelloInfo, config *tls.Config) *tls.Config {
	c, ok := hello.Conn.(*Conn)
	if !ok || !c.mayBeHeld() {
		return config
	}
	config = config.Clone()
	config.SessionTicketsDisabled = true
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		c.shaken.Store(true)
		if verify == nil {
			return nil
		}
		return verify(state)
	}
	return config
}
