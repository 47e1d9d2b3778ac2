package h2

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
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
	s.Eventually(func() bool { return s.pool.take() == nil }).Should(BeTrue())
	_, err = s.get(t.Context(), "/") //nolint:bodyclose // there is none
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
	options := Options{PingInterval: 100 * time.Millisecond, PingTimeout: 200 * time.Millisecond}
	s := serve(t, hold(nil), options)
	fine, err := s.get(t.Context(), "/")
	s.Expect(err).NotTo(HaveOccurred())
	f := forge(t, options, func(v *visit) {
		_ = v.WriteSettings()
		v.head(v.next(), false, ":status", "200")
		_, _ = io.Copy(io.Discard, v.conn)
	})
	_, err = f.get()
	f.Expect(err).To(MatchError(errLost))
	f.Expect(fine.Body.(*body).stream.conn.state()).To(Equal(state{usable: true})) //nolint:errcheck,forcetypeassert // it is one
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
