package h2

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// What is written.
const (
	writePreface = iota
	writeSettled
	writeHeaders
	writeData
	writeReset
	writeWindow
	writePing
	writePong
)

// frame is something that is to be written.
type frame struct {
	kind   int
	id     uint32
	last   bool
	header []hpack.HeaderField
	piece  *[]byte // of which size bytes are data
	size   int
	value  uint32
	opaque [8]byte
}

// pieces are buffers of data that are to be written, or came and are to be read.
var pieces = sync.Pool{New: func() any { return new(make([]byte, readFrame)) }}

// smallPiece is how much data is not worth a piece.
const smallPiece = 2 << 10

func newPiece() *[]byte {
	piece, _ := pieces.Get().(*[]byte)
	return piece
}

func keepPiece(piece *[]byte) { pieces.Put(piece) }

// page collects frames for the socket. There are as many as goroutines that write.
type page struct {
	bytes.Buffer
	framer *http2.Framer
}

var pagesOfAll = sync.Pool{New: func() any {
	p := &page{}
	p.framer = http2.NewFramer(&p.Buffer, nil)
	return p
}}

// pageSize is when a page is written although there is more to come.
const pageSize = 16 << 10

// headerBlock collects what the encoder of headers writes.
type headerBlock struct{ bytes []byte }

func (b *headerBlock) Write(p []byte) (int, error) {
	b.bytes = append(b.bytes, p...)
	return len(p), nil
}

// writeLocked has a frame written after those before it.
func (c *Conn) writeLocked(f frame) {
	if c.err != nil {
		return
	}
	c.queue = append(c.queue, f)
	if !c.writing {
		c.writing = true
		go c.write()
	}
}

// write writes what is queued, until there is nothing left or the connection is closed.
func (c *Conn) write() {
	p, _ := pagesOfAll.Get().(*page)
	defer func() {
		p.Reset()
		pagesOfAll.Put(p)
	}()
	var spare []frame
	for {
		c.mu.Lock()
		frames := c.queue
		if len(frames) == 0 {
			c.writing = false
			c.mu.Unlock()
			return
		}
		c.queue, c.asked = spare, 0
		table := c.table
		c.table = nil
		c.mu.Unlock()
		if table != nil {
			c.encoder.SetMaxDynamicTableSizeLimit(*table)
		}
		for i := range frames {
			if err := c.encode(p, &frames[i]); err != nil {
				c.close(err)
				return
			}
			if p.Len() >= pageSize || i == len(frames)-1 {
				if err := c.flush(p); err != nil {
					c.close(err)
					return
				}
			}
		}
		clear(frames)
		spare = frames[:0]
	}
}

// flush writes a page to the socket.
func (c *Conn) flush(p *page) error {
	if err := c.socket.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err //nolint:wrapcheck // it says what was done
	}
	if _, err := p.WriteTo(c.socket); err != nil {
		return err //nolint:wrapcheck // it says what was done
	}
	return c.socket.SetWriteDeadline(time.Time{}) //nolint:wrapcheck // TLS may have something to write of its own
}

// encode appends a frame to a page.
func (c *Conn) encode(p *page, f *frame) error {
	switch f.kind {
	case writePreface:
		p.WriteString(http2.ClientPreface)
		settings := []http2.Setting{
			{ID: http2.SettingEnablePush, Val: 0},
			{ID: http2.SettingInitialWindowSize, Val: streamWindow},
			{ID: http2.SettingMaxHeaderListSize, Val: headerLimit},
		}
		if err := p.framer.WriteSettings(settings...); err != nil {
			return err //nolint:wrapcheck // it says what is wrong
		}
		return p.framer.WriteWindowUpdate(0, connWindow-initialWindow) //nolint:wrapcheck // it says what is wrong
	case writeSettled:
		return p.framer.WriteSettingsAck() //nolint:wrapcheck // it says what is wrong
	case writeHeaders:
		return c.encodeHeader(p, f)
	case writeData:
		defer keepPiece(f.piece)
		return p.framer.WriteData(f.id, f.last, (*f.piece)[:f.size]) //nolint:wrapcheck // it says what is wrong
	case writeReset:
		return p.framer.WriteRSTStream(f.id, http2.ErrCode(f.value)) //nolint:wrapcheck // it says what is wrong
	case writeWindow:
		return p.framer.WriteWindowUpdate(f.id, f.value) //nolint:wrapcheck // it says what is wrong
	case writePing, writePong:
		return p.framer.WritePing(f.kind == writePong, f.opaque) //nolint:wrapcheck // it says what is wrong
	}
	return nil
}

// encodeHeader appends the headers of a request, in as many frames as they take.
func (c *Conn) encodeHeader(p *page, f *frame) error {
	c.header.bytes = c.header.bytes[:0]
	for _, field := range f.header {
		if err := c.encoder.WriteField(field); err != nil {
			return err //nolint:wrapcheck // it says what is wrong
		}
	}
	block := c.header.bytes
	first := true
	for part := range slices.Chunk(block, readFrame) {
		block = block[len(part):]
		var err error
		if first {
			err = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.id, BlockFragment: part, EndStream: f.last, EndHeaders: len(block) == 0})
		} else {
			err = p.framer.WriteContinuation(f.id, len(block) == 0, part)
		}
		if first = false; err != nil {
			return err //nolint:wrapcheck // it says what is wrong
		}
	}
	return nil
}
