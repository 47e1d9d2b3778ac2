package observability

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// proxy is a way to an API server that can be cut.
type proxy struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	cut   bool
	conns map[conversation]bool
	done  sync.WaitGroup
}

// conversation is a connection of a client, and the connection to the server for it.
type conversation struct{ near, far net.Conn }

// startProxy opens a way to an address.
func startProxy(to string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a way to %s: %w", to, err)
	}
	p := &proxy{listener: listener, to: to, conns: map[conversation]bool{}}
	p.done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			p.done.Go(func() { p.carry(conn) })
		}
	})
	return p, nil
}

// carry copies the data of a conversation in both directions.
func (p *proxy) carry(near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := net.Dial("tcp", p.to)
	if err != nil {
		return // so it is for the one who asked
	}
	defer func() { _ = far.Close() }()
	c := conversation{near, far}
	if !p.keep(c) {
		return
	}
	defer p.forget(c)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(far, near)
	_ = far.Close()
	back.Wait()
}

// keep remembers a conversation, unless the way is cut.
func (p *proxy) keep(c conversation) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.conns[c] = true
	}
	return !p.cut
}

func (p *proxy) forget(c conversation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// set cuts the way, with all connections, or opens it again.
func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		p.hangUp(0)
	}
}

// narrow cuts the way, but for one of the connections that it has.
func (p *proxy) narrow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.hangUp(1)
}

// hangUp closes all connections but some.
func (p *proxy) hangUp(leave int) {
	for c := range p.conns {
		if leave--; leave < 0 {
			_ = c.near.Close()
			_ = c.far.Close()
		}
	}
}

// stop closes the way permanently.
func (p *proxy) stop() {
	_ = p.listener.Close()
	p.set(true)
	p.done.Wait()
}
