package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/untrusted"
)

const patience = time.Minute

// site is a server, and a transport that leads to it.
type site struct {
	*WithT
	t          *testing.T
	url        string
	transport  *Transport
	dials      atomic.Int32
	suspicions atomic.Int32
}

// connect returns a site for the server of a certificate authority. At the end of the test it looks for goroutines that
// are left.
func connect(t *testing.T, url string, certificate []byte, options Options) *site {
	t.Helper()
	s := &site{WithT: NewWithT(t), t: t, url: url}
	s.SetDefaultEventuallyTimeout(patience)
	throttle := &atomic.Pointer[Throttle]{}
	throttle.Store(NewThrottle(-1, 0, 1000, patience, nil))
	options.Config = &rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
	}}
	options.Addresses = addresses.Any()
	options.Throttle, options.Meter = throttle, NewMeter(&Total{})
	options.Suspect = func() { s.suspicions.Add(1) }
	options.Fenced = func(error) bool { return false }
	options.WrapConn = func(conn net.Conn) (net.Conn, error) {
		s.dials.Add(1)
		return conn, nil
	}
	var err error
	s.transport, err = New(context.WithoutCancel(t.Context()), options)
	s.Expect(err).NotTo(HaveOccurred())
	return s
}

// serve starts a server and connects to it.
func serve(t *testing.T, handler http.HandlerFunc, change ...func(*httptest.Server)) *site {
	t.Helper()
	before := goleak.IgnoreCurrent()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	for _, f := range change {
		f(server)
	}
	server.StartTLS()
	s := connect(t, server.URL, server.Certificate().Raw, Options{})
	t.Cleanup(func() {
		s.transport.Shut()
		s.Expect(s.transport.wire.open()).To(BeZero())
		server.CloseClientConnections()
		server.Close()
		s.Eventually(func() error { return goleak.Find(before) }).Should(Succeed())
	})
	return s
}

func (s *site) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	s.Expect(err).NotTo(HaveOccurred())
	return s.transport.Guarded().RoundTrip(r)
}

func (s *site) get(ctx context.Context, path string) (*http.Response, error) {
	return s.send(ctx, http.MethodGet, path, nil)
}

// text returns the whole answer.
func (s *site) text(path string) (string, error) {
	response, err := s.get(s.t.Context(), path)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	return string(all), err
}

// held answers and continues when it is let go.
func held(letGo <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-letGo:
			_, _ = w.Write([]byte(`"done"`))
		case <-r.Context().Done():
		}
	}
}

func proto(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`"` + r.Proto + `"`))
}

func TestOneConnectionForAllRequests(t *testing.T) {
	for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(protocol, func(t *testing.T) {
			s := serve(t, proto, func(s *httptest.Server) { s.EnableHTTP2 = http2 })
			for range 5 {
				s.Expect(s.text("/")).To(Equal(`"` + protocol + `"`))
			}
			s.Expect(s.dials.Load()).To(BeEquivalentTo(1))
			s.Expect(s.suspicions.Load()).To(BeZero())
		})
	}
}

// A server allows so many streams, and others take another connection.
func TestConnectionsThatAreFullGetCompany(t *testing.T) {
	letGo := make(chan struct{})
	s := serve(t, held(letGo), func(s *httptest.Server) {
		s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2}
	})
	var bodies []io.ReadCloser
	for range 7 {
		response, err := s.get(t.Context(), "/")
		s.Expect(err).NotTo(HaveOccurred())
		bodies = append(bodies, response.Body)
	}
	s.Expect(s.transport.wire.open()).To(Equal(4))
	close(letGo)
	for _, body := range bodies {
		s.Expect(io.ReadAll(body)).To(BeEquivalentTo(`"done"`))
	}
	s.Expect(s.text("/")).To(Equal(`"done"`))
	s.Expect(s.dials.Load()).To(BeEquivalentTo(4))
}

// The server is about to end: what is under way ends in order, and what comes takes another connection.
func TestServerThatGoesAway(t *testing.T) {
	letGo := make(chan struct{})
	var server *httptest.Server
	s := serve(t, held(letGo), func(s *httptest.Server) { server = s })
	response, err := s.get(t.Context(), "/")
	s.Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- server.Config.Shutdown(context.WithoutCancel(t.Context())) }()
	s.Eventually(func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := s.get(ctx, "/")
		return reasoned(err)
	}).Should(MatchError(ContainSubstring("refused")), "the port is closed")
	close(letGo)
	s.Expect(io.ReadAll(response.Body)).To(BeEquivalentTo(`"done"`))
	s.Eventually(ended).Should(Receive(Succeed()))
	s.Eventually(s.transport.wire.open).Should(BeZero())
}

// reasoned returns the reason of an error that callers do not see.
func reasoned(err error) error {
	if u, is := err.(*UnreachableError); is { //nolint:errorlint // it is the outermost
		return u.reason
	}
	return err
}

func TestSocketsThatAreCut(t *testing.T) {
	s := serve(t, held(nil))
	for range 3 {
		response, err := s.get(t.Context(), "/")
		s.Expect(err).NotTo(HaveOccurred())
		s.transport.Cut()
		_, err = io.ReadAll(response.Body)
		s.Expect(err).To(HaveOccurred())
	}
	s.Expect(s.dials.Load()).To(BeEquivalentTo(3))
	s.Eventually(s.transport.wire.open).Should(BeZero())
}

// An answer that its caller does not read delays no other one, and what is buffered of each is bounded.
func TestAnswersThatAreNotRead(t *testing.T) {
	var sent [20]atomic.Int64
	var number atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/small" {
			_, _ = w.Write([]byte(`"small"`))
			return
		}
		n := number.Add(1) - 1
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			sent[n].Add(1 << 10)
		}
	})
	for range sent {
		response, err := s.get(t.Context(), watch)
		s.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
	}
	for i := range sent {
		s.Eventually(sent[i].Load).Should(BeNumerically(">=", streamWindow))
	}
	s.Consistently(func() int64 {
		var most int64
		for i := range sent {
			most = max(most, sent[i].Load())
		}
		return most
	}, 200*time.Millisecond).Should(BeNumerically("<", streamWindow+64<<10), "the server has a buffer, too")
	s.Expect(s.text("/small")).To(Equal(`"small"`), "probes do not suffer from what others leave unread")
	s.Expect(s.dials.Load()).To(BeEquivalentTo(1))
}

// The server is notified when the client gives up a request.
func TestGivenUp(t *testing.T) {
	gone := make(chan struct{}, 3)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			<-r.Context().Done()
		} else {
			held(nil)(w, r)
		}
		gone <- struct{}{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	response, err := s.get(ctx, "/")
	s.Expect(err).NotTo(HaveOccurred())
	cancel()
	_, err = response.Body.Read(make([]byte, 1))
	s.Expect(err).To(MatchError(context.Canceled))
	s.Eventually(gone).Should(Receive())
	response, err = s.get(t.Context(), "/")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(response.Body.Close()).To(Succeed())
	s.Eventually(gone).Should(Receive())
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = s.get(ctx, "/silent")
	s.Expect(err).To(MatchError(context.DeadlineExceeded))
	s.Eventually(gone).Should(Receive())
	s.Expect(s.dials.Load()).To(BeEquivalentTo(1))
}

// visit is a connection to a forged server, after both have said hello.
type visit struct {
	*http2.Framer
	conn   net.Conn
	encode *hpack.Encoder
	block  bytes.Buffer
}

// head sends the headers of an answer.
func (v *visit) head(id uint32, last bool, fields ...string) {
	v.block.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		_ = v.encode.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	block := v.block.Bytes()
	part := block[:min(len(block), maxFrame)]
	_ = v.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: part, EndHeaders: len(part) == len(block), EndStream: last,
	})
	for block = block[len(part):]; len(block) > 0; block = block[len(part):] {
		part = block[:min(len(block), maxFrame)]
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

// well answers a request in order.
func (v *visit) well(id uint32) {
	v.head(id, false, ":status", "200", "content-type", "application/json")
	_ = v.WriteData(id, true, []byte(`"well"`))
}

// forge starts a server whose connections are handled by play.
func forge(t *testing.T, options Options, play func(v *visit)) *site {
	t.Helper()
	before := goleak.IgnoreCurrent()
	identity := httptest.NewUnstartedServer(nil)
	identity.StartTLS() // for its certificate
	certificates, certificate := identity.TLS.Certificates, identity.Certificate().Raw
	identity.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
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
	s := connect(t, "https://"+listener.Addr().String(), certificate, options)
	t.Cleanup(func() {
		s.transport.Shut()
		_ = listener.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		visits.Wait()
		s.Eventually(func() error { return goleak.Find(before) }).Should(Succeed())
	})
	return s
}

// A server that does not answer pings is lost; one that has nothing else to say is not.
func TestPings(t *testing.T) {
	for name, answers := range map[string]bool{"answered": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			var pings atomic.Int32
			options := Options{PingInterval: 50 * time.Millisecond, PingTimeout: 500 * time.Millisecond}
			if answers {
				options.PingTimeout = patience
			}
			s := forge(t, options, func(v *visit) {
				_ = v.WriteSettings()
				v.head(v.next(), false, ":status", "200", "content-type", "application/json")
				for {
					f, err := v.ReadFrame()
					if err != nil {
						return
					}
					if ping, is := f.(*http2.PingFrame); is && !ping.IsAck() {
						pings.Add(1)
						if answers {
							_ = v.WritePing(true, ping.Data)
						}
					}
				}
			})
			response, err := s.get(t.Context(), watch)
			s.Expect(err).NotTo(HaveOccurred())
			if answers {
				s.Eventually(pings.Load).Should(BeNumerically(">", 3))
				s.Expect(s.transport.wire.open()).To(Equal(1))
			} else {
				_, err = response.Body.Read(make([]byte, 1))
				s.Expect(Reason(err)).To(ContainSubstring("connection lost"))
				s.Eventually(s.transport.wire.open).Should(BeZero())
			}
			s.Expect(response.Body.Close()).To(Succeed())
		})
	}
}

// A request that the server did not look at is sent again, over another connection if need be.
func TestRequestsThatTheServerDoesNotLookAt(t *testing.T) {
	for name, refuse := range map[string]func(v *visit, id uint32){
		"refused stream": func(v *visit, id uint32) { _ = v.WriteRSTStream(id, http2.ErrCodeRefusedStream) },
		"going away": func(v *visit, _ uint32) {
			_ = v.WriteGoAway(0, http2.ErrCodeNo, nil)
			_, _ = io.Copy(io.Discard, v.conn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			s := forge(t, Options{}, func(v *visit) {
				_ = v.WriteSettings()
				for id := v.next(); id != 0; id = v.next() {
					if asked.Add(1) < 3 {
						refuse(v, id)
					} else {
						v.well(id)
					}
				}
			})
			response, err := s.send(t.Context(), http.MethodPost, "/", strings.NewReader("body"))
			s.Expect(err).NotTo(HaveOccurred())
			s.Expect(io.ReadAll(response.Body)).To(BeEquivalentTo(`"well"`))
			s.Expect(response.Body.Close()).To(Succeed())
			asked.Store(-1_000_000)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = s.get(ctx, "/")
			s.Expect(err).To(MatchError(context.DeadlineExceeded), "not for longer than a call may take")
		})
	}
}

// An answer that is none fails, and others on the connection do not.
func TestAnswersThatAreNone(t *testing.T) {
	for name, answer := range map[string]func(v *visit, id uint32){
		"no status": func(v *visit, id uint32) { v.head(id, true, "a", "b") },
		"long headers": func(v *visit, id uint32) {
			long := strings.Repeat("x", answers.MaxHeader*3/4)
			v.head(id, false, ":status", "200", "a", long, "b", long, "c", "d")
		},
		"shorter than said": func(v *visit, id uint32) {
			v.head(id, false, ":status", "200", "content-type", "application/json", "content-length", "9")
			_ = v.WriteData(id, true, []byte("x"))
		},
		"reset": func(v *visit, id uint32) {
			v.head(id, false, ":status", "200", "content-type", "application/json")
			_ = v.WriteRSTStream(id, http2.ErrCodeInternal)
		},
		"informational answers without end": func(v *visit, id uint32) {
			for range 1000 {
				v.head(id, false, ":status", "103", "link", strings.Repeat("a", 1000))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := forge(t, Options{}, func(v *visit) {
				_ = v.WriteSettings()
				answer(v, v.next())
				for id := v.next(); id != 0; id = v.next() {
					v.well(id)
				}
			})
			_, err := s.text("/")
			s.Expect(err).To(HaveOccurred())
			if name == "long headers" {
				s.Expect(err).To(MatchError(untrusted.ErrExceeded))
				s.Expect(err).To(MatchError(ContainSubstring("bytes of headers")))
			}
			s.Expect(s.text("/")).To(Equal(`"well"`))
		})
	}
}

// Data that is no HTTP/2 ends the connection, and no call waits for its timeout.
func TestConnectionsThatAreNone(t *testing.T) {
	for name, play := range map[string]func(v *visit){
		"closed":      func(v *visit) { _ = v.conn.Close() },
		"text":        func(v *visit) { _, _ = v.conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) },
		"no settings": func(v *visit) { _ = v.WritePing(false, [8]byte{}) },
		"push": func(v *visit) {
			_ = v.WriteSettings()
			_ = v.WritePushPromise(http2.PushPromiseParam{StreamID: v.next(), PromiseID: 2, EndHeaders: true})
		},
		"a frame that is too large": func(v *visit) {
			_ = v.WriteSettings()
			_ = v.WriteData(v.next(), false, make([]byte, maxFrame+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := forge(t, Options{}, func(v *visit) {
				play(v)
				_, _ = io.Copy(io.Discard, v.conn) // until the client ends it
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := s.get(ctx, "/")
			s.Expect(err).To(HaveOccurred())
			s.Expect(Reason(err)).NotTo(ContainSubstring("deadline"))
			s.Eventually(s.transport.wire.open).Should(BeZero())
		})
	}
}

// A server sends frames that have to be answered, or that serve no stream, without end. What the hub keeps of them is
// bounded, whether the server reads the answers or not, and all ends with the connection.
func TestFloods(t *testing.T) {
	tables := make([]http2.Setting, maxFrame/6)
	for i := range tables {
		tables[i] = http2.Setting{ID: http2.SettingHeaderTableSize, Val: uint32(i)} //nolint:gosec // small
	}
	for name, write := range map[string]func(*http2.Framer){
		"pings":                   func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{}) },
		"settings":                func(f *http2.Framer) { _ = f.WriteSettings() },
		"settings of many tables": func(f *http2.Framer) { _ = f.WriteSettings(tables...) },
		"unknown frames":          func(f *http2.Framer) { _ = f.WriteRawFrame(0xcc, 0, 0, nil) },
		"priorities":              func(f *http2.Framer) { _ = f.WritePriority(1, http2.PriorityParam{}) },
		"empty data":              func(f *http2.Framer) { _ = f.WriteData(1, false, nil) },
	} {
		for how, reads := range map[string]bool{"reads": true, "does not read": false} {
			t.Run(name+", "+how, func(t *testing.T) {
				const much = 4 << 20
				var flood bytes.Buffer
				for many := http2.NewFramer(&flood, nil); flood.Len() < 1<<16; {
					write(many)
				}
				var sent atomic.Int64
				s := forge(t, Options{}, func(v *visit) {
					_ = v.WriteSettings()
					v.head(v.next(), false, ":status", "200", "content-type", "application/json")
					if reads {
						go func() { _, _ = io.Copy(io.Discard, v.conn) }()
					}
					for err := error(nil); err == nil && sent.Load() < much; {
						_ = v.conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
						_, err = v.conn.Write(flood.Bytes())
						sent.Add(int64(flood.Len()))
					}
					sent.Store(much)
				})
				before := heap()
				response, err := s.get(t.Context(), watch)
				s.Expect(err).NotTo(HaveOccurred())
				s.Eventually(sent.Load).Should(BeEquivalentTo(much), "all was taken, or the connection is full")
				// Frames that are being read are garbage in a moment.
				s.Eventually(heap).Should(BeNumerically("<", before+much/2))
				s.transport.Cut()
				_, err = io.ReadAll(response.Body)
				s.Expect(err).To(HaveOccurred())
			})
		}
	}
}

// heap is what lives.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
