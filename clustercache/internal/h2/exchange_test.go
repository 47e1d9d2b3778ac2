package h2

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	. "github.com/onsi/gomega"
)

// echo says what it was told, once it was told all.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Method", r.Method)
	w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
	if all, err := io.ReadAll(r.Body); err == nil {
		_, _ = w.Write(all)
	}
}

// narrow has a server let little come at a time.
func narrow(s *httptest.Server) {
	s.Config.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 16, MaxReceiveBufferPerConnection: 1 << 16}
}

func TestBodies(t *testing.T) {
	s := serve(t, echo, Options{}, narrow)
	for _, size := range []int{0, 1, frameSize - 1, frameSize, frameSize + 1, 2 * frameSize, 1<<16 + 1, 3 << 20} {
		content := bytes.Repeat([]byte{byte(size)}, size)
		for name, body := range map[string]io.Reader{"of known length": bytes.NewReader(content), "of unknown length": io.MultiReader(bytes.NewReader(content))} {
			t.Run(fmt.Sprint(size, " bytes ", name), func(t *testing.T) {
				g := newGomega(t)
				response, err := s.pool.RoundTrip(s.request(t.Context(), http.MethodPatch, "/", body))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(response.StatusCode).To(Equal(http.StatusOK))
				g.Expect(response.Proto).To(Equal("HTTP/2.0"))
				g.Expect(response.Header.Get("X-Method")).To(Equal("PATCH"))
				if name == "of known length" {
					g.Expect(response.Header.Get("X-Length")).To(Equal(fmt.Sprint(size)))
				}
				back, err := io.ReadAll(response.Body)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(bytes.Equal(back, content)).To(BeTrue())
				g.Expect(response.Body.Close()).To(Succeed())
			})
		}
	}
	s.Expect(s.dials.Load()).To(BeEquivalentTo(1))
}

func TestHeaders(t *testing.T) {
	var mu sync.Mutex
	var got *http.Request
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = r
		w.Header().Add("Warning", "one")
		w.Header().Add("Warning", "two")
		w.WriteHeader(http.StatusConflict)
	}, Options{})
	long := strings.Repeat("token", 8000) // in three frames
	for range 3 {
		r := s.request(t.Context(), http.MethodPost, "/api/v1/things?watch=true&a=b%20c", nil)
		r.Header = http.Header{"Authorization": {"Bearer " + long}, "Accept": {"a", "b"}, "Connection": {"close"}, "User-Agent": {"trellis"}}
		given := maps.Clone(r.Header)
		response, err := s.pool.RoundTrip(r)
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(response.Status).To(Equal("409 Conflict"))
		s.Expect(response.Header["Warning"]).To(Equal([]string{"one", "two"}))
		s.Expect(response.Request).To(BeIdenticalTo(r))
		s.Expect(r.Header).To(Equal(given))
		s.Expect(io.ReadAll(response.Body)).To(BeEmpty())
		mu.Lock()
		s.Expect(got.RequestURI).To(Equal("/api/v1/things?watch=true&a=b%20c"))
		s.Expect(got.Host).To(Equal(strings.TrimPrefix(s.server.URL, "https://")))
		s.Expect(got.Header).To(Equal(http.Header{
			"Authorization": {"Bearer " + long}, "Accept": {"a", "b"}, "User-Agent": {"trellis"}, "Accept-Encoding": {"gzip"}, "Content-Length": {"0"},
		}))
		mu.Unlock()
	}
}

func TestRequestsThatAreNone(t *testing.T) {
	s := serve(t, echo, Options{})
	_, err := s.text("/")
	s.Expect(err).NotTo(HaveOccurred())
	for name, break_ := range map[string]func(r *http.Request){
		"name of a header":  func(r *http.Request) { r.Header["X Y"] = []string{"z"} },
		"value of a header": func(r *http.Request) { r.Header["X"] = []string{"secret\n"} },
		"host":              func(r *http.Request) { r.Host = "a b" },
		"upgrade":           func(r *http.Request) { r.Header.Set("Upgrade", "spdy") },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGomega(t)
			r := s.request(t.Context(), http.MethodPost, "/", strings.NewReader("x"))
			break_(r)
			_, err := s.pool.RoundTrip(r)
			g.Expect(err).To(MatchError(Not(ContainSubstring("secret"))))
		})
	}
	s.Expect(s.text("/")).To(BeEmpty())
	s.Expect(s.dials.Load()).To(BeEquivalentTo(1))
}

func TestManyAtOnce(t *testing.T) {
	s := serve(t, echo, Options{}, narrow)
	var all sync.WaitGroup
	for worker := range 40 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 0)) //nolint:gosec // to be repeated
			for range 20 {
				content := make([]byte, random.IntN(200_000))
				for i := range content {
					content[i] = byte(random.Uint32())
				}
				ctx, cancel := context.WithCancel(t.Context())
				response, err := s.pool.RoundTrip(s.request(ctx, http.MethodPost, "/", bytes.NewReader(content)))
				if !s.Expect(err).NotTo(HaveOccurred()) {
					cancel()
					return
				}
				switch random.IntN(3) {
				case 0:
					cancel()
					_, _ = io.ReadAll(response.Body)
				case 1: // nobody reads it
				default:
					back, err := io.ReadAll(response.Body)
					s.Expect(err).NotTo(HaveOccurred())
					s.Expect(bytes.Equal(back, content)).To(BeTrue())
				}
				_ = response.Body.Close()
				cancel()
			}
		})
	}
	all.Wait()
	s.Eventually(func() int { return s.streams() }).Should(BeZero())
}

// streams is how many are open.
func (s *site) streams() (n int) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for _, c := range s.pool.conns {
		c.mu.Lock()
		n += len(c.streams) + c.reserved
		c.mu.Unlock()
	}
	return n
}

// One answer is not read at all, and another one comes over the same connection, much longer than all that may be on its way.
func TestAnswerThatIsNotReadHoldsUpNoOther(t *testing.T) {
	const much = 4 * connWindow
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for sent := 0; sent < much && r.Context().Err() == nil; sent += 1 << 16 {
			_, _ = w.Write(make([]byte, 1<<16))
		}
	}, Options{DisableCompression: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 20 {
		_, err := s.get(ctx, "/")
		s.Expect(err).NotTo(HaveOccurred())
	}
	response, err := s.get(t.Context(), "/")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(io.Copy(io.Discard, response.Body)).To(BeEquivalentTo(much))
	s.Expect(s.unread()).To(HaveEach(BeNumerically("<=", streamWindow)))
	s.Expect(s.dials.Load()).To(BeEquivalentTo(1))
}

func TestCompressedAnswers(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		if r.URL.Path == "/broken" {
			_, _ = w.Write([]byte("this was never compressed"))
			return
		}
		z := gzip.NewWriter(w)
		_, _ = z.Write(bytes.Repeat([]byte("trellis"), 100_000))
		_ = z.Close()
	}, Options{})
	response, err := s.get(t.Context(), "/")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(response.Uncompressed).To(BeTrue())
	s.Expect(response.Header).NotTo(HaveKey("Content-Encoding"))
	all, err := io.ReadAll(response.Body)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(all).To(HaveLen(700_000))
	_, err = s.text("/broken")
	s.Expect(err).To(MatchError(ContainSubstring("gzip")))
	asked := s.request(t.Context(), http.MethodGet, "/", nil)
	asked.Header.Set("Accept-Encoding", "gzip")
	response, err = s.pool.RoundTrip(asked)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(response.Header.Get("Content-Encoding")).To(Equal("gzip"), "who asks for it gets it")
	s.Expect(response.Body.Close()).To(Succeed())
}

// What the client gives up, the server hears of.
func TestGivenUp(t *testing.T) {
	for name, giveUp := range map[string]func(cancel func(), body io.Closer){
		"context": func(cancel func(), _ io.Closer) { cancel() },
		"body":    func(_ func(), body io.Closer) { _ = body.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte("begin"))
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				close(gone)
			}, Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			response, err := s.get(ctx, "/")
			s.Expect(err).NotTo(HaveOccurred())
			begin := make([]byte, 5)
			_, err = io.ReadFull(response.Body, begin)
			s.Expect(err).NotTo(HaveOccurred())
			time.AfterFunc(50*time.Millisecond, func() { giveUp(cancel, response.Body) })
			_, err = response.Body.Read(begin)
			s.Expect(err).To(Or(MatchError(context.Canceled), MatchError(errBodyClosed)))
			s.Eventually(gone).Should(BeClosed())
			s.Expect(s.streams()).To(BeZero())
		})
	}
}

func TestGivenUpBeforeTheAnswer(t *testing.T) {
	gone := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			return
		}
		<-r.Context().Done()
		close(gone)
	}, Options{})
	warm := s.request(t.Context(), http.MethodOptions, "/", nil)
	response, err := s.pool.RoundTrip(warm)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(response.Body.Close()).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = s.get(ctx, "/")
	s.Expect(err).To(MatchError(context.DeadlineExceeded))
	s.Eventually(gone).Should(BeClosed())
}

func TestBodiesThatFail(t *testing.T) {
	s := serve(t, echo, Options{}, narrow)
	broken := errors.New("broken")
	for range 10 { // the window would be used up if what was not sent counted
		_, err := s.pool.RoundTrip(s.request(t.Context(), http.MethodPost, "/", io.MultiReader(strings.NewReader(strings.Repeat("x", 10_000)), iotest.ErrReader(broken))))
		s.Expect(err).To(MatchError(broken))
		short := s.request(t.Context(), http.MethodPost, "/", strings.NewReader("short"))
		short.ContentLength = 10_000
		_, err = s.pool.RoundTrip(short)
		s.Expect(err).To(MatchError(ContainSubstring("shorter than it was said to be")))
		cut := s.request(t.Context(), http.MethodPost, "/", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("cut"))))
		_, err = s.pool.RoundTrip(cut)
		s.Expect(err).To(MatchError(iotest.ErrTimeout))
	}
	c := s.connection()
	s.Eventually(func() int64 { c.mu.Lock(); defer c.mu.Unlock(); return c.window }).Should(BeNumerically(">=", initialWindow))
	s.Expect(s.text("/")).To(BeEmpty())
	s.Expect(s.dials.Load()).To(BeEquivalentTo(1))
}

// The server says no before it was told all.
func TestAnswerBeforeTheEndOfTheRequest(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = w.Write([]byte("too large"))
	}, Options{}, narrow)
	for range 20 { // a few times as much as the server lets come at all
		response, err := s.pool.RoundTrip(s.request(t.Context(), http.MethodPost, "/", bytes.NewReader(make([]byte, 1<<20))))
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(response.StatusCode).To(Equal(http.StatusRequestEntityTooLarge))
		s.Expect(io.ReadAll(response.Body)).To(BeEquivalentTo("too large"))
	}
}

// Hundreds of streams wait without a goroutine each, and without a buffer.
func TestStreamsThatWaitTakeLittle(t *testing.T) {
	var mu sync.Mutex
	speak := sync.NewCond(&mu)
	said := 0
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer context.AfterFunc(r.Context(), func() { mu.Lock(); defer mu.Unlock(); speak.Broadcast() })()
		flush := http.NewResponseController(w).Flush
		for heard := -1; r.Context().Err() == nil; {
			mu.Lock()
			for heard == said && r.Context().Err() == nil {
				speak.Wait()
			}
			heard = said
			mu.Unlock()
			_, _ = w.Write([]byte("something"))
			_ = flush()
		}
	}, Options{})
	var bodies []io.ReadCloser
	for range 80 {
		response, err := s.get(t.Context(), "/")
		s.Expect(err).NotTo(HaveOccurred())
		bodies = append(bodies, response.Body)
	}
	read := func() {
		for _, body := range bodies {
			word := make([]byte, len("something"))
			_, err := io.ReadFull(body, word)
			s.Expect(err).NotTo(HaveOccurred())
			s.Expect(string(word)).To(Equal("something"))
		}
	}
	read()
	ours := func() []string {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return slices.DeleteFunc(strings.Split(string(stacks), "\n\n"), func(stack string) bool { return !strings.Contains(stack, "h2.(*Conn)") })
	}
	s.Eventually(ours).Should(HaveLen(1), "the one that reads")
	mu.Lock()
	said++
	speak.Broadcast()
	mu.Unlock()
	read()
	s.Eventually(ours).Should(HaveLen(1))
	s.Expect(s.unread()).To(HaveEach(BeZero()))
	for _, body := range bodies {
		s.Expect(body.Close()).To(Succeed())
	}
	s.Expect(s.dials.Load()).To(BeEquivalentTo(1))
}

// repeating says what it is told to say, until it says end.
func repeating(say <-chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w).Flush
		_ = flush()
		for {
			select {
			case word := <-say:
				_, _ = w.Write([]byte(word))
				if _ = flush(); word == "end" {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}
}

// reader takes dots, and is called for everything else.
type reader struct {
	wake  chan struct{}
	taken atomic.Int64
}

func (r *reader) Offer(data []byte) bool {
	if data[0] != '.' {
		return false
	}
	r.taken.Add(int64(len(data)))
	return true
}

func (r *reader) Wake() { r.wake <- struct{}{} }

// A reader need not be there while there is nothing to read.
func TestReaderThatIsCalled(t *testing.T) {
	say := make(chan string)
	s := serve(t, repeating(say), Options{})
	for name, finish := range map[string]func(cancel func(), body io.ReadCloser){
		"end":     func(func(), io.ReadCloser) { say <- "end" },
		"context": func(cancel func(), _ io.ReadCloser) { cancel() },
		"close":   func(_ func(), body io.ReadCloser) { _ = body.Close() },
		"cut":     func(func(), io.ReadCloser) { s.cut() },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGomega(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			response, err := s.get(ctx, "/")
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { _ = response.Body.Close() }()
			b, is := response.Body.(*body)
			g.Expect(is).To(BeTrue())
			called := make(chan struct{}, 2)
			wake := &reader{wake: called}
			word := make([]byte, 10)
			for range 3 {
				g.Expect(b.Park(wake)).To(BeTrue())
				g.Consistently(called, 20*time.Millisecond).ShouldNot(Receive())
				say <- "word"
				g.Eventually(called).Should(Receive())
				g.Expect(b.Park(wake)).To(BeFalse(), "there is something")
				g.Expect(b.Read(word)).To(Equal(4))
			}
			g.Expect(b.Park(wake)).To(BeTrue())
			finish(cancel, response.Body)
			g.Eventually(called).Should(Receive())
			g.Expect(b.Park(wake)).To(BeFalse())
			_, err = io.ReadAll(response.Body)
			g.Expect(err != nil).To(Equal(name != "end"))
			g.Consistently(called, 20*time.Millisecond).ShouldNot(Receive(), "once each time")
		})
	}
}

// What a reader takes that need not be there is read: it is not called for it, and the server may send as much again.
func TestReaderThatTakesWhatComes(t *testing.T) {
	say := make(chan string)
	s := serve(t, repeating(say), Options{})
	g := newGomega(t)
	response, err := s.get(t.Context(), "/")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	b, is := response.Body.(*body)
	g.Expect(is).To(BeTrue())

	called := make(chan struct{}, 2)
	dotted := &reader{wake: called}
	g.Expect(b.Park(dotted)).To(BeTrue())
	dots := strings.Repeat(".", 16<<10)
	for range 3 * streamWindow / len(dots) {
		say <- dots
	}
	g.Eventually(dotted.taken.Load).Should(BeEquivalentTo(3 * streamWindow / len(dots) * len(dots)))
	g.Expect(called).NotTo(Receive())
	g.Expect(s.unread()).To(HaveEach(BeZero()))

	say <- "word"
	g.Eventually(called).Should(Receive())
	say <- "..."
	word := make([]byte, 7)
	_, err = io.ReadFull(b, word)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(word)).To(Equal("word..."), "who was called reads everything, until it parks again")
	g.Expect(b.Park(dotted)).To(BeTrue())
	s.cut()
	g.Eventually(called).Should(Receive())
}
