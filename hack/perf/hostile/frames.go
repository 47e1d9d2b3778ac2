package hostile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// flood writes frames of HTTP/2 without end, and reads nothing meanwhile. The stream is one that the client has open,
// or zero. It returns when the client has left.
type flood struct {
	name string
	// open says that it needs an open stream: it begins with a watch. Otherwise it begins with the connection.
	open bool
	// first has it begin with the first request of any kind, not with a watch.
	first bool
	quick bool
	write func(framer *http2.Framer, stream uint32) error
}

// burst is how many small frames are written at a time.
const burst = 500

func times(n int, f func() error) error {
	for range n {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// headerBlock is an encoded list of headers.
func headerBlock(pairs ...string) []byte {
	var out bytes.Buffer
	encoder := hpack.NewEncoder(&out)
	for i := 0; i < len(pairs); i += 2 {
		// It writes to memory.
		_ = encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return out.Bytes()
}

var floods = []flood{
	{name: "SETTINGS", quick: true, write: func(f *http2.Framer, _ uint32) error {
		window := http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535}
		return times(burst, func() error { return f.WriteSettings(window) })
	}},
	{name: "SETTINGS with many values", write: func(f *http2.Framer, _ uint32) error {
		settings := make([]http2.Setting, 2000)
		for i := range settings {
			settings[i] = http2.Setting{ID: http2.SettingID(0x1000 + i), Val: 1} //nolint:gosec // it is small
		}
		return f.WriteSettings(settings...)
	}},
	{name: "PING", write: func(f *http2.Framer, _ uint32) error {
		return times(burst, func() error { return f.WritePing(false, [8]byte{1}) })
	}},
	{name: "WINDOW_UPDATE", write: func(f *http2.Framer, _ uint32) error {
		return times(burst, func() error { return f.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, []byte{0, 0, 0, 1}) })
	}},
	{name: "frames of unknown types", write: func(f *http2.Framer, _ uint32) error {
		return f.WriteRawFrame(0xfa, 0, 0, make([]byte, 16<<10))
	}},
	{name: "empty DATA", open: true, write: func(f *http2.Framer, stream uint32) error {
		return times(burst, func() error { return f.WriteData(stream, false, nil) })
	}},
	{name: "DATA that is padding", open: true, write: func(f *http2.Framer, stream uint32) error {
		return f.WriteDataPadded(stream, false, nil, make([]byte, 255))
	}},
	{name: "HEADERS of 1xx", open: true, write: func(f *http2.Framer, stream uint32) error {
		block := headerBlock(":status", "103", "link", strings.Repeat("x", 1000))
		return times(burst, func() error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true})
		})
	}},
	{name: "CONTINUATION", open: true, write: func(f *http2.Framer, stream uint32) error {
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: headerBlock(":status", "200")})
		block := headerBlock("a", strings.Repeat("x", 8000))
		for err == nil {
			err = f.WriteContinuation(stream, false, block)
		}
		return err
	}},
	{name: "empty CONTINUATION", open: true, write: func(f *http2.Framer, stream uint32) error {
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: headerBlock(":status", "200")})
		for err == nil {
			err = f.WriteContinuation(stream, false, nil)
		}
		return err
	}},
	{name: "HEADERS that refer to a table", open: true, write: func(f *http2.Framer, stream uint32) error {
		// A header that is in the dynamic table takes a byte each time, and 4 KiB in memory.
		block := headerBlock(":status", "200", "a", strings.Repeat("x", 3900))
		reference := append([]byte{}, bytes.Repeat([]byte{0x80 | 62}, 16<<10)...)
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block})
		for err == nil {
			err = f.WriteContinuation(stream, false, reference)
		}
		return err
	}},
	{name: "PUSH_PROMISE", open: true, write: func(f *http2.Framer, stream uint32) error {
		block := headerBlock(":method", "GET", ":path", "/", ":scheme", "https", ":authority", "a")
		return f.WritePushPromise(http2.PushPromiseParam{
			StreamID: stream, PromiseID: 2, BlockFragment: block, EndHeaders: true,
		})
	}},
}

// connection is one of HTTP/2 whose frames are written by hand.
type connection struct {
	server *server
	framer *http2.Framer
	flood  flood
	mu     sync.Mutex // serializes writes
	group  sync.WaitGroup
}

// floods serves a connection honestly, until the flood begins.
func (f flood) floods(s *server, conn *tls.Conn) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	c := &connection{server: s, framer: http2.NewFramer(conn, conn), flood: f}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer c.group.Wait()
	defer cancel()
	if c.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100}) != nil {
		return
	}
	if !f.open {
		c.pour(0)
		return
	}
	c.read(ctx)
}

// pour floods the connection. Other writers are blocked meanwhile.
func (c *connection) pour(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server.struck.Add(1)
	for {
		if c.flood.write(c.framer, stream) != nil {
			return
		}
	}
}

// read answers requests until a watch begins, and then floods.
func (c *connection) read(ctx context.Context) {
	isWatch := reads("watch")
	bodies := map[uint32]*bytes.Buffer{}
	requests := map[uint32]*http.Request{}
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		stream := frame.Header().StreamID
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() && c.locked(c.framer.WriteSettingsAck) != nil {
				return
			}
		case *http2.PingFrame:
			if !f.IsAck() && c.locked(func() error { return c.framer.WritePing(true, f.Data) }) != nil {
				return
			}
		case *http2.MetaHeadersFrame:
			r, err := requestOf(ctx, f)
			if err != nil {
				return
			}
			if c.flood.first || isWatch(r) {
				c.pour(stream)
				return
			}
			requests[stream], bodies[stream] = r, &bytes.Buffer{}
		case *http2.DataFrame:
			if bodies[stream] != nil {
				bodies[stream].Write(f.Data())
			}
		}
		if r := requests[stream]; r != nil && frame.Header().Flags.Has(http2.FlagDataEndStream) {
			r.Body = io.NopCloser(bodies[stream])
			delete(requests, stream)
			delete(bodies, stream)
			c.group.Go(func() { c.answer(stream, r) })
		}
	}
}

func requestOf(ctx context.Context, f *http2.MetaHeadersFrame) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, f.PseudoValue("method"), "https://hostile"+f.PseudoValue("path"), nil)
	if err != nil {
		return nil, err
	}
	for _, field := range f.RegularFields() {
		r.Header.Add(field.Name, field.Value)
	}
	return r, nil
}

func (c *connection) locked(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f()
}

// answer answers a request as the honest server does.
func (c *connection) answer(stream uint32, r *http.Request) {
	w := &recorded{header: http.Header{}, code: http.StatusOK}
	c.server.honest.ServeHTTP(w, r)
	pairs := []string{":status", strconv.Itoa(w.code)}
	for name, values := range w.header {
		pairs = append(pairs, strings.ToLower(name), values[0])
	}
	_ = c.locked(func() error { // a client that left gets no answer
		headers := http2.HeadersFrameParam{StreamID: stream, BlockFragment: headerBlock(pairs...), EndHeaders: true}
		if err := c.framer.WriteHeaders(headers); err != nil {
			return err
		}
		const largest = 16 << 10
		content := w.body.Bytes()
		for len(content) > largest {
			if err := c.framer.WriteData(stream, false, content[:largest]); err != nil {
				return err
			}
			content = content[largest:]
		}
		return c.framer.WriteData(stream, true, content)
	})
}

// recorded keeps an answer.
type recorded struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorded) Header() http.Header         { return r.header }
func (r *recorded) WriteHeader(code int)        { r.code = code }
func (r *recorded) Write(p []byte) (int, error) { return r.body.Write(p) }
func (r *recorded) Flush()                      {}

// framesCases are those of HTTP/2 connections, and of headers.
func framesCases() []attack {
	var out []attack
	for _, f := range floods {
		out = append(out, attack{
			row: 11, name: f.name, budget: oneTarget, quick: f.quick,
			begin: func(ctx context.Context, s *scene) error {
				return s.target(ctx, "t", true, serverOptions{connection: f.floods})
			},
		})
	}
	out = append(out, attack{
		row: 11, name: "all kinds of frames, a target each", budget: manyTargets,
		begin: func(ctx context.Context, s *scene) error {
			for i, f := range floods {
				if err := s.target(ctx, "t"+strconv.Itoa(i), true, serverOptions{connection: f.floods}); err != nil {
					return err
				}
			}
			return nil
		},
	})
	for _, v := range []struct {
		name  string
		http1 bool
		size  int
		each  int
	}{
		{"9 MiB in one, HTTP/1.1", true, 9 << 20, 9 << 20},
		{"9 MiB in many, HTTP/1.1", true, 9 << 20, 4 << 10},
		{"9 MiB in many, HTTP/2", false, 9 << 20, 4 << 10},
		{"120 KiB in many, HTTP/1.1", true, 120 << 10, 100},
	} {
		out = append(out, attack{
			row: 13, name: "response headers on 100 registrations, " + v.name,
			budget: manyTargets, quick: v.http1 && v.each > 4<<10,
			begin: func(ctx context.Context, s *scene) error {
				serve := headersOfHTTP2(v.size, v.each)
				if v.http1 {
					serve = headersOfHTTP1(v.size, v.each)
				}
				srv, err := s.server(serverOptions{http1: v.http1, connection: serve}) //nolint:contextcheck // it is closed
				if err != nil {
					return err
				}
				return s.registerAll(ctx, 100, srv.kubeconfig())
			},
		})
	}
	return out
}

// headersOfHTTP1 answers all requests of a connection with headers of a size. They are encoded once: the honest
// targets share the processors with the hostile servers.
func headersOfHTTP1(size, each int) func(*server, *tls.Conn) {
	const content = `{"gitVersion":"v1.36.3"}`
	var answer bytes.Buffer
	fmt.Fprintf(&answer, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(content))
	value := strings.Repeat("x", each)
	for i := range size / each {
		fmt.Fprintf(&answer, "X-%d: %s\r\n", i, value)
	}
	answer.WriteString("\r\n" + content)
	return func(s *server, conn *tls.Conn) {
		requests := bufio.NewReader(conn)
		for {
			r, err := http.ReadRequest(requests)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			s.struck.Add(1)
			if _, err := conn.Write(answer.Bytes()); err != nil {
				return
			}
		}
	}
}

// headersOfHTTP2 answers the first request of a connection with headers of a size, in as many frames as that takes.
func headersOfHTTP2(size, each int) func(*server, *tls.Conn) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0)
	value := strings.Repeat("x", each)
	_ = encoder.WriteField(hpack.HeaderField{Name: ":status", Value: "200"}) // it writes to memory
	for i := range size / each {
		_ = encoder.WriteField(hpack.HeaderField{Name: "x-" + strconv.Itoa(i), Value: value})
	}
	const largest = 16 << 10
	fragments := slices.Collect(slices.Chunk(block.Bytes(), largest))
	answers := flood{open: true, first: true, write: func(f *http2.Framer, stream uint32) error {
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: fragments[0], EndStream: true})
		for i := 1; i < len(fragments) && err == nil; i++ {
			err = f.WriteContinuation(stream, i == len(fragments)-1, fragments[i])
		}
		if err == nil {
			err = io.EOF // that was all
		}
		return err
	}}
	return answers.floods
}
