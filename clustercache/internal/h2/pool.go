package h2

import (
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// tries is how often a request is sent that the server does not look at.
	tries = 4
	// retryPause is the pause before the second time; it doubles.
	retryPause = 50 * time.Millisecond
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
		if try > 1 { // the first time it may have been a connection that was about to be closed
			timer := time.NewTimer(retryPause << (try - 2))
			select {
			case <-timer.C:
			case <-request.Context().Done():
				timer.Stop()
				return nil, request.Context().Err() //nolint:wrapcheck // as net/http does
			}
		}
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
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if c.hasRoom() {
			_ = socket.NetConn().Close()
			return c
		}
	}
	c := newConn(socket, p.options, p.changed)
	p.conns = append(p.conns, c)
	return c
}

// changed looks whether connections are of use that have no streams.
func (p *Pool) changed(*Conn) {
	p.mu.Lock()
	usable := 0
	var useless []*Conn
	p.conns = slices.DeleteFunc(p.conns, func(c *Conn) bool {
		state := c.state()
		if state.usable {
			usable++
		}
		if state.idle && (!state.usable || usable > 1) {
			useless = append(useless, c)
			return true
		}
		return state.closed
	})
	p.mu.Unlock()
	for _, c := range useless {
		c.close(errClosed)
	}
	if len(useless) > 0 {
		p.opener.CloseIdleConnections() // it remembers them otherwise
	}
}
