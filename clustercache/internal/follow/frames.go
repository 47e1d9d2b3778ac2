package follow

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
)

const (
	// maxFrame bounds one event. API servers bound objects to a few MiB.
	maxFrame = 16 << 20
	// firstRead is how much room there is at first for an event; it grows with what comes, for what is announced may not.
	firstRead = 4 << 10
)

// frames splits a stream into documents. It has a buffer only while there is something in it.
type frames struct {
	body     io.Reader
	protobuf bool
	head     [4]byte // what an idle stream is read into
	have     int     // bytes in head that were not returned yet

	buffer *[]byte
	start  int // of what was not returned yet, for JSON
}

// buffers are shared by all streams, in four sizes. Few are in use at a time. A definition of custom resources has some 300 KB often
// enough for the largest: when a fleet starts, each target lists some.
var buffers = [...]struct {
	size int
	pool sync.Pool
}{{size: firstRead}, {size: 8 * firstRead}, {size: 64 * firstRead}, {size: 128 * firstRead}}

// newBuffer returns an empty buffer with room for at least so much.
func newBuffer(room int) *[]byte {
	for i := range buffers {
		b := &buffers[i]
		if room > b.size {
			continue
		}
		if kept, ok := b.pool.Get().(*[]byte); ok {
			return kept
		}
		return new(make([]byte, 0, b.size))
	}
	return new(make([]byte, 0, room))
}

// keep keeps a buffer for other events, unless it is larger than those.
func keep(buffer *[]byte) {
	for i := range buffers {
		if b := &buffers[i]; cap(*buffer) == b.size {
			*buffer = (*buffer)[:0]
			b.pool.Put(buffer)
			return
		}
	}
}

func newFrames(response *http.Response) *frames {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // what it is not is JSON
	return &frames{body: response.Body, protobuf: kind == mediaProtobuf}
}

// next returns a document, which is valid until it is called again, or until free.
func (f *frames) next() ([]byte, error) {
	if f.protobuf {
		return f.nextMessage()
	}
	return f.nextJSON()
}

// free gives the buffer back, unless there is something in it.
func (f *frames) free() {
	if f.buffer != nil && f.start == len(*f.buffer) {
		keep(f.buffer)
		f.buffer, f.start = nil, 0
	}
}

// await blocks without a buffer until there is something of the next document. All that waits for long waits here, so that the
// frames above it are few: those of next are not.
func (f *frames) await() error {
	for {
		if begun, err := f.look(); begun || err != nil {
			return err
		}
	}
}

// look blocks until something came, and tells whether it is of the next document: it may be space.
func (f *frames) look() (begun bool, err error) {
	f.passSpace()
	f.free()
	if f.buffer != nil || f.have > 0 {
		return true, nil
	}
	n, err := f.body.Read(f.head[:])
	f.have = n
	if !f.protobuf {
		f.have = copy(f.head[:], bytes.TrimLeft(f.head[:n], spaces))
	}
	if f.have == 0 && err != nil {
		return false, &endedError{err}
	}
	return f.have > 0, nil
}

// Parker is the body of an answer that calls back instead of having its reader wait.
type Parker interface {
	// Park has Wake called, once and from another goroutine, when there is something to read, or will not be any more. It returns
	// false if that is so already, or cannot be told. Offer is called first with what there is, which counts as read if it returns
	// true; it does not wait for anything.
	Park(reader interface {
		Offer(data []byte) bool
		Wake()
	}) bool
}

// park has the follower woken when something came that it does not take. It returns false if something did, or it cannot be told: then
// look knows. After it returned true, another goroutine may be reading.
func (f *frames) park(reader *parked) bool {
	f.passSpace()
	f.free()
	if reader.wake == nil || f.buffer != nil || f.have > 0 {
		return false
	}
	parker, ok := f.body.(Parker)
	return ok && parker.Park(reader)
}

// passSpace passes what is between JSON documents.
func (f *frames) passSpace() {
	if f.buffer != nil && !f.protobuf {
		for b := *f.buffer; f.start < len(b) && isSpace(b[f.start]); {
			f.start++
		}
	}
}

// nextMessage reads a message after its length.
func (f *frames) nextMessage() ([]byte, error) {
	if err := f.await(); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(f.body, f.head[f.have:]); err != nil {
		return nil, &endedError{err}
	}
	f.have = 0
	return f.message()
}

// alone returns the document that some bytes are; false if they are more than one, or less.
func (f *frames) alone(data []byte) ([]byte, bool) {
	if !f.protobuf {
		var s scanner
		for at := 0; at < len(data); {
			if at += s.passes(data[at:]); at == len(data) {
				break
			}
			at++
			if s.ends(data[at-1]) {
				return data[:at], len(bytes.TrimLeft(data[at:], spaces)) == 0
			}
		}
		return nil, false
	}
	if len(data) < len(f.head) || int64(binary.BigEndian.Uint32(data)) != int64(len(data)-len(f.head)) {
		return nil, false
	}
	return data[len(f.head):], true
}

func (f *frames) message() ([]byte, error) {
	length := int(binary.BigEndian.Uint32(f.head[:]))
	if length > maxFrame {
		return nil, fmt.Errorf("%w: it has %d bytes", errUnreadable, length)
	}
	f.borrow(min(length, firstRead))
	for have := 0; have < length; have = len(*f.buffer) {
		f.borrow(1)
		b := *f.buffer
		n, err := io.ReadFull(f.body, b[have:min(cap(b), length)])
		*f.buffer = b[:have+n]
		if err != nil {
			return nil, &endedError{err}
		}
	}
	f.start = length
	return *f.buffer, nil
}

// borrow has a buffer with room for more bytes.
func (f *frames) borrow(more int) {
	if f.buffer == nil {
		f.buffer = newBuffer(more)
		f.start = 0
	}
	if b := f.buffer; cap(*b)-len(*b) < more {
		f.buffer = newBuffer(max(2*cap(*b), len(*b)+more))
		*f.buffer = append(*f.buffer, *b...)
		keep(b)
	}
}

// nextJSON reads a JSON document. They follow each other, usually one a line, and one ends where its outermost bracket does.
func (f *frames) nextJSON() ([]byte, error) {
	var s scanner
	at := f.start
	for {
		if f.buffer != nil {
			for b := *f.buffer; at < len(b); {
				if at += s.passes(b[at:]); at == len(b) {
					break
				}
				c := b[at]
				at++
				if s.outside() && isSpace(c) {
					f.start = at
					continue
				}
				if s.ends(c) {
					document := b[f.start:at]
					f.start = at
					return document, nil
				}
			}
		}
		at -= f.start
		if err := f.more(); err != nil {
			return nil, err
		}
		at += f.start
	}
}

// more reads what comes next, and blocks without a buffer if there is nothing left of what came before.
func (f *frames) more() error {
	if f.free(); f.buffer != nil {
		return f.grow()
	}
	if err := f.await(); err != nil {
		return err
	}
	f.borrow(firstRead)
	*f.buffer = append(*f.buffer, f.head[:f.have]...)
	f.have = 0
	return nil
}

// grow reads what comes next of a document that has begun.
func (f *frames) grow() error {
	if b := *f.buffer; f.start > 0 {
		*f.buffer = b[:copy(b, b[f.start:])]
		f.start = 0
	}
	if len(*f.buffer) > maxFrame {
		return fmt.Errorf("%w: it does not end", errUnreadable)
	}
	f.borrow(1)
	b := *f.buffer
	n, err := f.body.Read(b[len(b):cap(b)])
	*f.buffer = b[:len(b)+n]
	if n == 0 && err != nil {
		return &endedError{err}
	}
	return nil
}

// spaces are what isSpace tells of.
const spaces = " \n\r\t"

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// scanner finds the end of a JSON document. Whether it is valid is for the decoder to say.
type scanner struct {
	depth            int
	inText, isEscape bool
}

func (s *scanner) outside() bool { return s.depth == 0 && !s.inText }

// passes returns how many of the next bytes mean nothing, since they are in a string.
func (s *scanner) passes(next []byte) int {
	if !s.inText || s.isEscape {
		return 0
	}
	quote := bytes.IndexByte(next, '"')
	if quote < 0 {
		quote = len(next)
	}
	if escape := bytes.IndexByte(next[:quote], '\\'); escape >= 0 {
		return escape
	}
	return quote
}

// ends takes the next byte and tells whether the document ends with it.
func (s *scanner) ends(c byte) bool {
	switch {
	case s.isEscape:
		s.isEscape = false
	case s.inText && c == '\\':
		s.isEscape = true
	case c == '"':
		s.inText = !s.inText
	case s.inText:
	case c == '{' || c == '[':
		s.depth++
	case c == '}' || c == ']':
		s.depth--
		return s.depth <= 0
	}
	return false
}
