package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// tries is how often a request is sent that the server does not look at.
	tries = 7
	// retryPause is the least pause before the third time; it doubles. The second time comes at once: the first connection may just have
	// been about to be closed.
	retryPause = 100 * time.Millisecond
)

// Pool sends requests over the connections to one server.
type Pool struct {
	opener  *http.Transport
	options Options

	mu    sync.Mutex
	conns []*Conn // the oldest first
}

// NewPool has a transport, which must not have been used, speak HTTP/2 in the way of this package.
func NewPool(opener *http.Transport, options Options) *Pool {
	p := &Pool{opener: opener, options: options}
	if opener.TLSClientConfig == nil {
		opener.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if len(opener.TLSClientConfig.NextProtos) == 0 {
		opener.TLSClientConfig.NextProtos = []string{http2Protocol, "http/1.1"}
	}
	opener.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{http2Protocol: p.opened}
	return p
}

// http2Protocol is what TLS calls it.
const http2Protocol = "h2"

// RoundTrip implements http.RoundTripper.
func (p *Pool) RoundTrip(request *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		response, err := p.send(request)
		var refused *notProcessedError
		if err == nil || !errors.As(err, &refused) || try == tries {
			return response, err
		}
		again, ok := Repeat(request)
		if !ok {
			return nil, err
		}
		request = again
		if try > 1 {
			pause := retryPause << (try - 2)
			if err := sleep(request.Context(), pause+rand.N(pause/2)); err != nil {
				if request.Body != nil {
					_ = request.Body.Close()
				}
				return nil, err
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // as net/http does
	}
}

func (p *Pool) send(request *http.Request) (*http.Response, error) {
	if c := p.take(); c != nil {
		return c.send(request)
	}
	return p.opener.RoundTrip(request) //nolint:wrapcheck // this is a part of it
}

// Repeat returns a request that can be sent again, false if its body cannot.
func Repeat(request *http.Request) (*http.Request, bool) {
	if request.Body == nil || request.Body == http.NoBody {
		return request, true
	}
	if request.GetBody == nil {
		return nil, false
	}
	body, err := request.GetBody()
	if err != nil {
		return nil, false
	}
	again := *request
	again.Body = body
	return &again, true
}

// take reserves a place in a connection, nil if there is none.
func (p *Pool) take() *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if c.reserve() {
			return c
		}
	}
	return nil
}

// opened takes a connection that the opener made. If another one has got room meanwhile, it is not needed.
func (p *Pool) opened(_ string, socket *tls.Conn) http.RoundTripper {
	c, needed := p.choose(socket)
	if !needed {
		_ = socket.NetConn().Close()
	}
	return c
}

func (p *Pool) choose(socket *tls.Conn) (c *Conn, needed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if c.hasRoom() {
			return c, false
		}
	}
	c = newConn(socket, p.options, p.changed)
	p.conns = append(p.conns, c)
	return c, true
}

// changed forgets connections that are closed, and closes those without streams that are of no use: they take no further ones, or another
// connection has room for them.
func (p *Pool) changed() {
	p.mu.Lock()
	var useless []*Conn
	known := len(p.conns)
	for i := len(p.conns) - 1; i >= 0; i-- { // the youngest first
		c := p.conns[i]
		better := slices.ContainsFunc(p.conns, func(other *Conn) bool { return other != c && other.isRoomy() })
		switch {
		case c.isClosed():
		case c.retire(better):
			useless = append(useless, c)
		default:
			continue
		}
		p.conns = slices.Delete(p.conns, i, i+1)
	}
	known -= len(p.conns)
	p.mu.Unlock()
	for _, c := range useless {
		c.close(errClosed)
	}
	if known > 0 {
		p.opener.CloseIdleConnections() // it remembers them otherwise
	}
}
