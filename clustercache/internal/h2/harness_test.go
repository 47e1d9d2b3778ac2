package h2

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const patience = time.Minute

// site is a server of net/http, and a pool that leads to it.
type site struct {
	*WithT
	t      *testing.T
	server *httptest.Server
	pool   *Pool
	dials  atomic.Int32
	mu     sync.Mutex
	open   map[net.Conn]bool // at the client
}

// newGomega waits for as long as all tests here do.
func newGomega(t *testing.T) *WithT {
	t.Helper()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(patience)
	return g
}

// serve starts a server, and ends it, and looks for goroutines that are left, at the end of the test.
func serve(t *testing.T, handler http.HandlerFunc, options Options, change ...func(*httptest.Server)) *site {
	t.Helper()
	before := goleak.IgnoreCurrent()
	s := &site{WithT: newGomega(t), t: t, server: httptest.NewUnstartedServer(handler), open: map[net.Conn]bool{}}
	s.server.EnableHTTP2 = true
	for _, f := range change {
		f(s.server)
	}
	s.server.StartTLS()
	opener := &http.Transport{TLSClientConfig: s.server.Client().Transport.(*http.Transport).TLSClientConfig.Clone(), DialContext: s.dial} //nolint:errcheck,forcetypeassert // it is one
	opener.TLSClientConfig.NextProtos = nil
	s.pool = NewPool(opener, options)
	t.Cleanup(func() {
		s.cut()
		opener.CloseIdleConnections()
		s.server.CloseClientConnections()
		s.server.Close()
		s.Eventually(func() error { return goleak.Find(before) }).Should(Succeed())
	})
	return s
}

type countedConn struct {
	net.Conn
	site *site
}

func (c countedConn) Close() error {
	c.site.mu.Lock()
	delete(c.site.open, c.Conn)
	c.site.mu.Unlock()
	return c.Conn.Close()
}

func (s *site) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.dials.Add(1)
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[conn] = true
	return countedConn{conn, s}, nil
}

// sockets is how many are open at the client.
func (s *site) sockets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// conns is how many connections the pool knows.
func (s *site) conns() int {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return len(s.pool.conns)
}

// connection is the only one.
func (s *site) connection() *Conn {
	s.t.Helper()
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.Expect(s.pool.conns).To(HaveLen(1))
	return s.pool.conns[0]
}

// unread is how much streams keep of what was not read.
func (s *site) unread() (all []int) {
	c := s.connection()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, stream := range c.streams {
		all = append(all, stream.unread.size())
		if stream.unread.empty() {
			s.Expect(stream.unread).To(BeZero(), "nothing is kept")
		}
	}
	return all
}

// cut closes all sockets.
func (s *site) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.open {
		_ = conn.Close()
	}
}

func (s *site) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.server.URL+path, body)
	s.Expect(err).NotTo(HaveOccurred())
	return r
}

// get asks for a path.
func (s *site) get(ctx context.Context, path string) (*http.Response, error) {
	return s.pool.RoundTrip(s.request(ctx, http.MethodGet, path, nil))
}

// text asks for a path and returns the whole answer.
func (s *site) text(path string) (string, error) {
	response, err := s.get(s.t.Context(), path)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	return string(all), err
}

// forger is a server that says what a test has it say.
type forger struct {
	*WithT
	t    *testing.T
	pool *Pool
	url  string
}

// visit is a connection to a forger, after both have said hello.
type visit struct {
	*http2.Framer
	conn   net.Conn
	encode *hpack.Encoder
	block  strings.Builder
}

// head sends the headers of an answer.
func (v *visit) head(id uint32, last bool, fields ...string) {
	v.block.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		_ = v.encode.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	block := []byte(v.block.String())
	part := block[:min(len(block), readFrame)]
	_ = v.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: part, EndHeaders: len(part) == len(block), EndStream: last})
	for block = block[len(part):]; len(block) > 0; block = block[len(part):] {
		part = block[:min(len(block), readFrame)]
		_ = v.WriteContinuation(id, len(part) == len(block), part)
	}
}

// next returns the number of the next request.
func (v *visit) next() (id uint32) {
	for {
		f, err := v.ReadFrame()
		if err != nil {
			return 0
		}
		if h, is := f.(*http2.HeadersFrame); is {
			return h.StreamID
		}
	}
}

// forge starts a server whose connections are handled by play, one after the other.
func forge(t *testing.T, options Options, play func(v *visit)) *forger {
	t.Helper()
	before := goleak.IgnoreCurrent()
	identity := httptest.NewUnstartedServer(nil)
	identity.StartTLS() // for its certificate
	certificate, client := identity.TLS.Certificates, identity.Client()
	identity.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificate, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	f := &forger{WithT: newGomega(t), t: t}
	f.Expect(err).NotTo(HaveOccurred())
	f.url = "https://" + listener.Addr().String()
	var visits sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	visits.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			visits.Go(func() {
				defer func() { _ = conn.Close() }()
				v := &visit{Framer: http2.NewFramer(conn, conn), conn: conn}
				v.encode = hpack.NewEncoder(&v.block)
				hello := make([]byte, len(http2.ClientPreface))
				if _, err := io.ReadFull(conn, hello); err == nil && string(hello) == http2.ClientPreface {
					play(v)
				}
			})
		}
	})
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if tcp, is := conn.(*net.TCPConn); is && err == nil {
			err = tcp.SetWriteBuffer(8 << 10) // it is full before long
		}
		return conn, err
	}
	opener := &http.Transport{DialContext: dial, TLSClientConfig: client.Transport.(*http.Transport).TLSClientConfig.Clone()} //nolint:errcheck,forcetypeassert // it is one
	opener.TLSClientConfig.NextProtos = nil
	f.pool = NewPool(opener, options)
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		visits.Wait()
		opener.CloseIdleConnections()
		f.Eventually(func() error { return goleak.Find(before) }).Should(Succeed())
	})
	return f
}

// get returns the whole answer.
func (f *forger) get() (string, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	f.Expect(err).NotTo(HaveOccurred())
	response, err := f.pool.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	return string(all), err
}
