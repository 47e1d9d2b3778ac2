package h2

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
)

// hold answers and waits until it is let go.
func hold(letGo <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-letGo:
			_, _ = w.Write([]byte("done"))
		case <-r.Context().Done():
		}
	}
}

func TestConnectionsThatAreFullGetCompany(t *testing.T) {
	letGo := make(chan struct{})
	s := serve(t, hold(letGo), Options{}, func(s *httptest.Server) { s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2} })
	var bodies []io.ReadCloser
	for range 7 {
		response, err := s.get(t.Context(), "/")
		s.Expect(err).NotTo(HaveOccurred())
		bodies = append(bodies, response.Body)
	}
	s.Expect(s.sockets()).To(Equal(4))
	close(letGo)
	for _, body := range bodies {
		s.Expect(io.ReadAll(body)).To(BeEquivalentTo("done"))
	}
	s.Eventually(s.sockets).Should(Equal(1), "of no use")
	s.Expect(s.text("/")).To(Equal("done"))
	s.Expect(s.sockets()).To(Equal(1))
}

// The server is about to end: what is under way ends in order, and what comes goes elsewhere.
func TestServerThatGoesAway(t *testing.T) {
	letGo := make(chan struct{})
	s := serve(t, hold(letGo), Options{})
	response, err := s.get(t.Context(), "/")
	s.Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- s.server.Config.Shutdown(context.WithoutCancel(t.Context())) }()
	c := s.connection()
	s.Eventually(c.hasRoom).Should(BeFalse())
	_, err = s.get(t.Context(), "/")
	s.Expect(err).To(MatchError(ContainSubstring("refused")), "nobody listens any more")
	close(letGo)
	s.Expect(io.ReadAll(response.Body)).To(BeEquivalentTo("done"))
	s.Eventually(ended).Should(Receive(Succeed()))
	s.Eventually(s.sockets).Should(BeZero())
}

func TestSocketsThatAreCut(t *testing.T) {
	s := serve(t, hold(nil), Options{})
	for range 3 {
		response, err := s.get(t.Context(), "/")
		s.Expect(err).NotTo(HaveOccurred())
		s.cut()
		_, err = io.ReadAll(response.Body)
		s.Expect(err).To(HaveOccurred())
	}
	s.Expect(s.dials.Load()).To(BeEquivalentTo(3))
	s.Eventually(s.sockets).Should(BeZero())
	s.Eventually(s.conns).Should(BeZero())
}

func TestServerOfHTTP1(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Proto)) }, Options{}, func(s *httptest.Server) {
		s.EnableHTTP2 = false
	})
	for range 3 {
		s.Expect(s.text("/")).To(Equal("HTTP/1.1"))
	}
	s.Expect(s.dials.Load()).To(BeEquivalentTo(1))
}

// A server that does not answer pings is lost; one that has nothing else to say is not.
func TestPings(t *testing.T) {
	options := Options{PingInterval: 100 * time.Millisecond, PingTimeout: patience}
	s := serve(t, hold(nil), options)
	fine, err := s.get(t.Context(), "/")
	s.Expect(err).NotTo(HaveOccurred())
	options.PingTimeout = 200 * time.Millisecond
	f := forge(t, options, func(v *visit) {
		_ = v.WriteSettings()
		v.head(v.next(), false, ":status", "200")
		_, _ = io.Copy(io.Discard, v.conn)
	})
	_, err = f.get()
	f.Expect(err).To(MatchError(errLost))
	s.Expect(s.connection().hasRoom()).To(BeTrue())
	s.Expect(fine.Body.Close()).To(Succeed())
}

func TestRequestsThatTheServerDoesNotLookAt(t *testing.T) {
	for name, refuse := range map[string]func(v *visit, id uint32){
		"refused stream": func(v *visit, id uint32) { _ = v.WriteRSTStream(id, 7) },
		"going away": func(v *visit, _ uint32) {
			_ = v.WriteGoAway(0, 0, nil)
			_, _ = io.Copy(io.Discard, v.conn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			f := forge(t, Options{}, func(v *visit) {
				_ = v.WriteSettings()
				for {
					id := v.next()
					if id == 0 {
						return
					}
					if asked.Add(1) < 3 {
						refuse(v, id)
						continue
					}
					v.head(id, false, ":status", "200")
					_ = v.WriteData(id, true, []byte("well"))
				}
			})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader("body"))
			f.Expect(err).NotTo(HaveOccurred())
			response, err := f.pool.RoundTrip(r)
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(io.ReadAll(response.Body)).To(BeEquivalentTo("well"))
			asked.Store(-100)
			_, err = f.get()
			f.Expect(err).To(MatchError(ContainSubstring("did not take the request")), "not for ever")
			f.Expect(asked.Load()).To(BeEquivalentTo(-100 + tries))
		})
	}
}

// One connection is full for as long as its streams are open. The second one, for calls that come and go, is kept.
func TestConnectionThatStaysFull(t *testing.T) {
	letGo := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			hold(letGo)(w, r)
		}
	}, Options{}, func(s *httptest.Server) { s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 4} })
	var bodies []io.ReadCloser
	for range 4 {
		response, err := s.get(t.Context(), "/hold")
		s.Expect(err).NotTo(HaveOccurred())
		bodies = append(bodies, response.Body)
	}
	for range 20 {
		s.Expect(s.text("/")).To(BeEmpty())
	}
	s.Expect(s.dials.Load()).To(BeEquivalentTo(2))
	close(letGo)
	for _, body := range bodies {
		s.Expect(io.ReadAll(body)).To(BeEquivalentTo("done"))
	}
	s.Eventually(s.sockets).Should(Equal(1))
}

func TestRequestThatIsGivenUpBeforeItIsSent(t *testing.T) {
	var asked atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) }, Options{})
	s.Expect(s.text("/")).To(BeEmpty())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		_, err := s.get(ctx, "/")
		s.Expect(err).To(MatchError(context.Canceled))
	}
	s.Expect(s.text("/")).To(BeEmpty())
	s.Expect(asked.Load()).To(BeEquivalentTo(2))
	s.Expect(s.streams()).To(BeZero())
}

// A place was reserved when more streams were allowed, or any.
func TestPlacesThatAreGone(t *testing.T) {
	s := serve(t, echo, Options{})
	s.Expect(s.text("/")).To(BeEmpty())
	c := s.connection()
	for _, change := range []func(){
		func() { c.maxStreams = 0 }, // fewer are allowed
		func() { c.maxStreams, c.leaving = 10, true },
	} {
		s.Expect(c.reserve()).To(BeTrue())
		c.mu.Lock()
		change()
		c.mu.Unlock()
		_, err := c.send(s.request(t.Context(), http.MethodGet, "/", nil))
		s.Expect(err).To(MatchError(ContainSubstring("takes no further ones")))
		c.mu.Lock()
		c.maxStreams = 10
		c.mu.Unlock()
	}
	s.Eventually(s.sockets).Should(BeZero(), "nobody needs it")
	s.Expect(s.text("/")).To(BeEmpty())
}

// What is wrong with connections that are closed before anything was sent is said, and not asked for for ever.
func TestConnectionsThatAreStillborn(t *testing.T) {
	f := forge(t, Options{}, func(v *visit) { _ = v.conn.Close() })
	for range 20 {
		_, err := f.get()
		f.Expect(err).To(HaveOccurred())
		f.Expect(err).NotTo(MatchError(ContainSubstring("deadline")))
	}
}

func TestAnswersWithoutABody(t *testing.T) {
	for name, test := range map[string]struct {
		method string
		answer func(v *visit, id uint32)
		fails  bool
	}{
		"head": {http.MethodHead, func(v *visit, id uint32) { v.head(id, true, ":status", "200", "content-length", "5") }, false},
		"head with an end of its own": {http.MethodHead, func(v *visit, id uint32) {
			v.head(id, false, ":status", "200", "content-length", "5")
			_ = v.WriteData(id, true, nil)
		}, false},
		"head with a body": {http.MethodHead, func(v *visit, id uint32) {
			v.head(id, false, ":status", "200")
			_ = v.WriteData(id, true, []byte("hello"))
		}, false},
		"not modified":       {http.MethodGet, func(v *visit, id uint32) { v.head(id, true, ":status", "304", "content-length", "5") }, false},
		"after more to come": {http.MethodGet, func(v *visit, id uint32) { v.head(id, false, ":status", "103"); v.head(id, true, ":status", "200") }, false},
		"that is missing":    {http.MethodGet, func(v *visit, id uint32) { v.head(id, true, ":status", "200", "content-length", "5") }, true},
		"that is longer": {http.MethodGet, func(v *visit, id uint32) {
			v.head(id, false, ":status", "200", "content-length", "5")
			_ = v.WriteData(id, true, []byte("longer"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := forge(t, Options{}, func(v *visit) {
				_ = v.WriteSettings()
				test.answer(v, v.next())
				v.head(v.next(), true, ":status", "204")
				_, _ = io.Copy(io.Discard, v.conn)
			})
			r, err := http.NewRequestWithContext(t.Context(), test.method, f.url, nil)
			f.Expect(err).NotTo(HaveOccurred())
			response, err := f.pool.RoundTrip(r)
			f.Expect(err).NotTo(HaveOccurred())
			all, err := io.ReadAll(response.Body)
			f.Expect(err != nil).To(Equal(test.fails))
			f.Expect(all).To(BeEmpty())
			f.Expect(f.get()).To(BeEmpty(), "the connection goes on")
		})
	}
}

// The server changes what it allows while streams are open, and pads what it says.
func TestWhatTheServerAllowsChanges(t *testing.T) {
	const size = 200_000
	got := make(chan int, 1)
	f := forge(t, Options{}, func(v *visit) {
		_ = v.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
		id := v.next()
		_ = v.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) // it owes
		_ = v.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		_ = v.WriteWindowUpdate(0, 1<<20)
		sum := 0
		for sum < size {
			frame, err := v.ReadFrame()
			if err != nil {
				return
			}
			if data, is := frame.(*http2.DataFrame); is {
				sum += len(data.Data())
			}
		}
		got <- sum
		v.head(id, false, ":status", "200")
		allowed := map[uint32]int{0: connWindow, id: streamWindow}
		for range 2 * connWindow / 300 {
			for allowed[0] < 257 || allowed[id] < 257 {
				frame, err := v.ReadFrame()
				if err != nil {
					return
				}
				if more, is := frame.(*http2.WindowUpdateFrame); is {
					allowed[more.StreamID] += int(more.Increment)
				}
			}
			_ = v.WriteDataPadded(id, false, []byte("x"), make([]byte, 255))
			allowed[0] -= 257
			allowed[id] -= 257
		}
		_ = v.WriteData(id, true, nil)
		_, _ = io.Copy(io.Discard, v.conn)
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, bytes.NewReader(make([]byte, size)))
	f.Expect(err).NotTo(HaveOccurred())
	response, err := f.pool.RoundTrip(r)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(got).To(Receive(Equal(size)))
	f.Expect(io.Copy(io.Discard, response.Body)).To(BeEquivalentTo(2 * connWindow / 300))
}
