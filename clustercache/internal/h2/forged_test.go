package h2

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
)

// An answer that is none fails, and others on the connection do not.
func TestAnswersThatAreNone(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(v *visit, id uint32)
		says   string
	}{
		"data first":       {func(v *visit, id uint32) { _ = v.WriteData(id, false, []byte("x")) }, "no beginning"},
		"no status":        {func(v *visit, id uint32) { v.head(id, true, "a", "b") }, "valid status"},
		"a foreign status": {func(v *visit, id uint32) { v.head(id, true, ":status", "20x") }, "valid status"},
		"another protocol": {func(v *visit, id uint32) { v.head(id, false, ":status", "101") }, "101"},
		"a foreign length": {func(v *visit, id uint32) { v.head(id, false, ":status", "200", "content-length", "-1") }, "valid length"},
		"several lengths": {func(v *visit, id uint32) {
			v.head(id, false, ":status", "200", "content-length", "1", "content-length", "2")
		}, "several lengths"},
		"shorter than said": {func(v *visit, id uint32) {
			v.head(id, false, ":status", "200", "content-length", "2")
			_ = v.WriteData(id, true, []byte("x"))
		}, "unexpected EOF"},
		"long headers": {func(v *visit, id uint32) {
			v.head(id, false, ":status", "200", "a", strings.Repeat("x", 100<<10), "b", strings.Repeat("x", 40<<10))
		}, "bytes of headers"},
		"headers in its midst": {func(v *visit, id uint32) {
			v.head(id, false, ":status", "200")
			v.head(id, false, ":status", "200")
		}, "midst"},
		"an invalid header": {func(v *visit, id uint32) { v.head(id, false, ":status", "200", "A", "b") }, "no HTTP/2"},
		"reset": {func(v *visit, id uint32) {
			v.head(id, false, ":status", "200")
			_ = v.WriteRSTStream(id, http2.ErrCodeInternal)
		}, "INTERNAL_ERROR"},
		"more than it may": {func(v *visit, id uint32) {
			v.head(id, false, ":status", "200")
			for range streamWindow/readFrame + 1 {
				_ = v.WriteData(id, false, make([]byte, readFrame))
			}
		}, "more than it may"},
		"informational answers without end": {func(v *visit, id uint32) {
			for range informedLimit + 1 {
				v.head(id, false, ":status", "103", "link", "a")
			}
		}, "before the answer"},
		"a window of nothing": {func(v *visit, id uint32) { _ = v.WriteRawFrame(http2.FrameWindowUpdate, 0, id, make([]byte, 4)) }, "no HTTP/2"},
		"a window beyond all": {func(v *visit, id uint32) { _ = v.WriteWindowUpdate(id, lastID) }, "more than there is"},
	} {
		t.Run(name, func(t *testing.T) {
			f := forge(t, Options{}, func(v *visit) {
				_ = v.WriteSettings()
				first := v.next()
				v.head(first, false, ":status", "200")
				test.answer(v, v.next())
				_ = v.WriteData(first, true, []byte("well"))
				third := v.next()
				v.head(third, true, ":status", "204")
				_, _ = io.Copy(io.Discard, v.conn)
			})
			answers := make(chan string, 1)
			begun := make(chan struct{})
			go func() {
				response, err := f.pool.RoundTrip(httptest.NewRequestWithContext(t.Context(), "GET", f.url, nil))
				close(begun)
				if err == nil {
					all, _ := io.ReadAll(response.Body)
					answers <- string(all)
				}
			}()
			f.Eventually(begun).Should(BeClosed())
			if name == "more than it may" {
				response, err := f.pool.RoundTrip(httptest.NewRequestWithContext(t.Context(), "GET", f.url, nil))
				f.Expect(err).NotTo(HaveOccurred())
				stream := response.Body.(*body).stream //nolint:errcheck,forcetypeassert // it is one; nobody reads it
				c := stream.conn
				f.Eventually(func() error { c.mu.Lock(); defer c.mu.Unlock(); return stream.err }).Should(MatchError(ContainSubstring(test.says)))
			} else {
				_, err := f.get()
				f.Expect(err).To(MatchError(ContainSubstring(test.says)))
			}
			f.Eventually(answers).Should(Receive(Equal("well")))
			f.Expect(f.get()).To(BeEmpty())
		})
	}
}

// What is no HTTP/2 at all ends the connection, and nobody waits.
func TestConnectionsThatAreNone(t *testing.T) {
	for name, play := range map[string]func(v *visit){
		"nothing":              func(*visit) {},
		"text":                 func(v *visit) { _, _ = v.conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) },
		"no settings":          func(v *visit) { _ = v.WritePing(false, [8]byte{}) },
		"stream of nobody":     func(v *visit) { _ = v.WriteSettings(); v.head(99, true, ":status", "200") },
		"stream of the server": func(v *visit) { _ = v.WriteSettings(); v.head(2, true, ":status", "200") },
		"push": func(v *visit) {
			_ = v.WriteSettings()
			_ = v.WritePushPromise(http2.PushPromiseParam{StreamID: v.next(), PromiseID: 2, EndHeaders: true})
		},
		"a frame that is too large": func(v *visit) { _ = v.WriteSettings(); _ = v.WriteData(v.next(), false, make([]byte, readFrame+1)) },
		"settings that are none":    func(v *visit) { _ = v.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}) },
		"a window beyond all":       func(v *visit) { _ = v.WriteSettings(); _ = v.WriteWindowUpdate(0, lastID) },
		"headers that are none": func(v *visit) {
			_ = v.WriteSettings()
			_ = v.WriteHeaders(http2.HeadersFrameParam{StreamID: v.next(), BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true})
		},
		"the end in the midst of answer": func(v *visit) { _ = v.WriteSettings(); v.head(v.next(), false, ":status", "200") },
	} {
		t.Run(name, func(t *testing.T) {
			f := forge(t, Options{}, func(v *visit) {
				play(v)
				if name != "nothing" && !strings.HasPrefix(name, "the end") {
					_, _ = io.Copy(io.Discard, v.conn) // until the client ends it
				}
			})
			_, err := f.get()
			f.Expect(err).To(HaveOccurred())
			f.Expect(err).NotTo(MatchError(ContainSubstring("deadline")))
			f.Eventually(func() int { f.pool.mu.Lock(); defer f.pool.mu.Unlock(); return len(f.pool.conns) }).Should(BeZero())
		})
	}
}

// A server sends frames that have to be answered, or that serve no stream, without end. It reads nothing,
// or everything.
func TestFloods(t *testing.T) {
	tables := make([]http2.Setting, readFrame/6)
	for i := range tables {
		tables[i] = http2.Setting{ID: http2.SettingHeaderTableSize, Val: uint32(i)} //nolint:gosec // small
	}
	for name, write := range map[string]func(*http2.Framer){
		"pings":                   func(v *http2.Framer) { _ = v.WritePing(false, [8]byte{}) },
		"settings":                func(v *http2.Framer) { _ = v.WriteSettings() },
		"settings of many tables": func(v *http2.Framer) { _ = v.WriteSettings(tables...) },
		"acknowledged settings":   func(v *http2.Framer) { _ = v.WriteSettingsAck() },
		"unknown frames":          func(v *http2.Framer) { _ = v.WriteRawFrame(0xcc, 0, 0, nil) },
		"priorities":              func(v *http2.Framer) { _ = v.WritePriority(1, http2.PriorityParam{}) },
		"farewells":               func(v *http2.Framer) { _ = v.WriteGoAway(lastID, http2.ErrCodeNo, nil) },
		"empty data":              func(v *http2.Framer) { _ = v.WriteData(1, false, nil) },
	} {
		for how, reads := range map[string]bool{"reads": true, "does not read": false} {
			t.Run(name+", "+how, func(t *testing.T) {
				// One by one they take half a minute on a busy machine, until the sockets are full.
				var flood bytes.Buffer
				for many := http2.NewFramer(&flood, nil); flood.Len() < 1<<16; {
					write(many)
				}
				f := forge(t, Options{}, func(v *visit) {
					socket := v.conn.(*tls.Conn).NetConn() //nolint:errcheck // it is one
					if tcp, is := socket.(*net.TCPConn); is && !reads {
						_ = tcp.SetReadBuffer(1 << 10)
					}
					_ = v.WriteSettings()
					v.head(v.next(), false, ":status", "200")
					if reads {
						go func() { _, _ = io.Copy(io.Discard, v.conn) }()
					}
					for err := error(nil); err == nil; {
						_, err = v.conn.Write(flood.Bytes())
					}
				})
				response, err := f.pool.RoundTrip(httptest.NewRequestWithContext(t.Context(), "GET", f.url, nil))
				if err == nil {
					queued := 0
					c := response.Body.(*body).stream.conn //nolint:errcheck,forcetypeassert // it is one
					f.Eventually(func() error {
						c.mu.Lock()
						defer c.mu.Unlock()
						queued = max(queued, len(c.queue))
						return c.err
					}).Should(HaveOccurred())
					f.Expect(queued).To(BeNumerically("<=", queueLimit+10))
					_, err = io.ReadAll(response.Body)
				}
				f.Expect(err).To(Or(MatchError(errFlood), MatchError(errUnwritten), MatchError(errSettings)))
			})
		}
	}
}

// FuzzServer has servers say anything. No request waits for longer than the connection is open.
func FuzzServer(f *testing.F) {
	frames := func(write func(v *http2.Framer)) []byte {
		var b strings.Builder
		v := http2.NewFramer(&b, nil)
		_ = v.WriteSettings()
		write(v)
		return []byte(b.String())
	}
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	f.Add(frames(func(v *http2.Framer) {
		_ = v.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}, EndHeaders: true})
		_ = v.WriteData(1, true, []byte("well"))
	}))
	f.Add(frames(func(v *http2.Framer) { _ = v.WriteGoAway(1, http2.ErrCodeNo, []byte("bye")) }))
	f.Add(frames(func(v *http2.Framer) {
		_ = v.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
		_ = v.WriteDataPadded(1, false, nil, make([]byte, 100))
		_ = v.WriteRSTStream(1, http2.ErrCodeRefusedStream)
	}))
	f.Fuzz(func(t *testing.T, said []byte) {
		s := forge(t, Options{}, func(v *visit) { v.next(); _, _ = v.conn.Write(said) })
		_, err := s.get()
		if err != nil {
			s.Expect(err).NotTo(MatchError(ContainSubstring("deadline")))
		}
	})
}
