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
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

// startProxy opens a way to an address.
func startProxy(to string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a way to %s: %w", to, err)
	}
	p := &proxy{listener: listener, to: to, conns: map[net.Conn]bool{}}
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

// carry carries what one connection says, in both directions.
func (p *proxy) carry(near net.Conn) {
	defer func() { _ = near.Close() }()
	if !p.keep(near) {
		return
	}
	defer p.forget(near)
	far, err := net.Dial("tcp", p.to)
	if err != nil {
		return // so it is for the one who asked
	}
	defer func() { _ = far.Close() }()
	if !p.keep(far) {
		return
	}
	defer p.forget(far)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(far, near)
	_ = far.Close()
	back.Wait()
}

// keep remembers a connection, unless the way is cut.
func (p *proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.conns[conn] = true
	return true
}

func (p *proxy) forget(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// set cuts the way, with all connections, or opens it again.
func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		for conn := range p.conns {
			_ = conn.Close()
		}
	}
}

// stop closes the way for good.
func (p *proxy) stop() {
	_ = p.listener.Close()
	p.set(true)
	p.done.Wait()
}
