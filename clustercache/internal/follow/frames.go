package follow

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"

	"k8s.io/utils/clock"
)

const (
	// maxSpaces bounds the white space between two documents. API servers send a new line.
	maxSpaces = 64 << 10
	// firstRead is how much space there is at first for an event; it grows with what comes, for what is announced may not.
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
	spaces int // since the last document

	ctx   context.Context // of the stream; its cause says why it ended
	call  context.Context // of the request, for answers.Pause
	slow  func()          // ends the stream with errSlow
	share *Share
	clock clock.WithDelayedExecution
	seat  *seat // nil for a buffer of the first size
}

// errSlow says that a large document did not arrive in time.
var errSlow = fmt.Errorf("%w: it is large, and takes longer than %s to arrive", errUnreadable, slowDocument)

// buffers are shared by all streams, in four sizes. Few are in use at a time. A definition of custom resources has
// some 300 KB often enough for the largest: when a fleet starts, each target lists some.
var buffers = [...]struct {
	size int
	pool sync.Pool
}{{size: firstRead}, {size: 8 * firstRead}, {size: 64 * firstRead}, {size: 128 * firstRead}}

// newBuffer returns an empty buffer with space for at least so much.
func newBuffer(capacity int) *[]byte {
	for i := range buffers {
		b := &buffers[i]
		if capacity > b.size {
			continue
		}
		if kept, ok := b.pool.Get().(*[]byte); ok {
			return kept
		}
		return new(make([]byte, 0, b.size))
	}
	return new(make([]byte, 0, capacity))
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

func newFrames(ctx context.Context, end context.CancelCauseFunc, response *http.Response, c *Collection) *frames {
	// What cannot be parsed is JSON.
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	call := ctx //nolint:contextcheck // that of the request has the pause of its deadline
	if response.Request != nil {
		call = response.Request.Context()
	}
	return &frames{
		call: call, body: response.Body, protobuf: kind == mediaProtobuf,
		ctx: ctx, slow: func() { end(errSlow) }, share: c.Budget, clock: c.Clock,
	}
}

// close gives back what is left.
func (f *frames) close() {
	if f.buffer != nil {
		f.start = len(*f.buffer)
		f.free()
	}
}

// failed returns the error to report after an error of the body.
func (f *frames) failed(err error) error {
	if cause := context.Cause(f.ctx); errors.Is(cause, errSlow) {
		return cause
	}
	return &endedError{err}
}

// next returns a document, which is valid until it is called again, or until free.
func (f *frames) next() ([]byte, error) {
	if f.protobuf {
		return f.nextMessage()
	}
	return f.nextJSON()
}

// free gives the buffer back, unless there is something in it. It takes a smaller one for the beginning of what comes
// next.
func (f *frames) free() {
	if f.buffer == nil {
		return
	}
	rest := (*f.buffer)[f.start:]
	if len(rest) > 0 && f.seat == nil {
		return
	}
	if len(rest) > firstRead {
		size := f.seat.size
		if !f.seat.carryOver(len(rest), f.clock) {
			f.slow()
		}
		if f.seat.size < size {
			f.move(rest)
		}
		return
	}
	f.move(rest)
	f.seat.release()
	f.seat = nil
}

// move moves the beginning of the next document to a buffer of its size.
func (f *frames) move(rest []byte) {
	before := f.buffer
	f.buffer, f.start = nil, 0
	if len(rest) > 0 {
		f.buffer = newBuffer(len(rest))
		*f.buffer = append(*f.buffer, rest...)
	}
	keep(before)
}

// pass notes that there were spaces between documents.
func (f *frames) pass(spaces int) error {
	if f.spaces += spaces; f.spaces > maxSpaces {
		return fmt.Errorf("%w: there are more than %d spaces before it", errUnreadable, maxSpaces)
	}
	return nil
}

// ends notes that a document is complete.
func (f *frames) ends() {
	f.spaces = 0
	f.seat.end()
}

// await blocks without a buffer until there is something of the next document. All that waits for long waits here, so
// that the frames above it are few: those of next are not.
func (f *frames) await() error {
	for {
		if begun, err := f.look(); begun || err != nil {
			return err
		}
	}
}

// look blocks until something came, and reports whether it is of the next document: it may be space.
func (f *frames) look() (begun bool, err error) {
	if err := f.passSpace(); err != nil {
		return false, err
	}
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
		return false, f.failed(err)
	}
	return f.have > 0, f.pass(n - f.have)
}

// passSpace passes what is between JSON documents.
func (f *frames) passSpace() error {
	if f.buffer == nil || f.protobuf {
		return nil
	}
	start := f.start
	for b := *f.buffer; f.start < len(b) && isSpace(b[f.start]); {
		f.start++
	}
	return f.pass(f.start - start)
}

// nextMessage reads a message after its length.
func (f *frames) nextMessage() ([]byte, error) {
	if err := f.await(); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(f.body, f.head[f.have:]); err != nil {
		return nil, f.failed(err)
	}
	f.have = 0
	return f.message()
}

func (f *frames) message() ([]byte, error) {
	length := int(binary.BigEndian.Uint32(f.head[:]))
	if length > maxDocument {
		return nil, fmt.Errorf("%w: it has %d bytes", errUnreadable, length)
	}
	if err := f.borrow(min(length, firstRead)); err != nil {
		return nil, err
	}
	for have := 0; have < length; have = len(*f.buffer) {
		if err := f.borrow(1); err != nil {
			return nil, err
		}
		b := *f.buffer
		n, err := io.ReadFull(f.body, b[have:min(cap(b), length)])
		*f.buffer = b[:have+n]
		if err != nil {
			return nil, f.failed(err)
		}
	}
	f.start = length
	f.ends()
	return *f.buffer, nil
}

// borrow has a buffer with space for more bytes.
func (f *frames) borrow(more int) error {
	if f.buffer == nil {
		f.buffer = newBuffer(more) // no more than firstRead
		f.start = 0
	}
	b := f.buffer
	if cap(*b)-len(*b) >= more {
		return nil
	}
	size := min(max(2*cap(*b), len(*b)+more), maxDocument)
	seat, err := f.share.read(f, f.seat, size)
	if f.seat = seat; err != nil {
		return err
	}
	f.buffer = newBuffer(size)
	*f.buffer = append(*f.buffer, *b...)
	keep(b)
	return nil
}

// nextJSON reads a JSON document. They follow each other, usually one a line, and one ends where its outermost bracket
// does.
func (f *frames) nextJSON() ([]byte, error) {
	var s scanner
	return f.upTo(func(b []byte, at int) (int, bool, error) {
		for at < len(b) {
			if at += s.passes(b[at:]); at == len(b) {
				break
			}
			c := b[at]
			at++
			if s.outside() && isSpace(c) {
				f.start = at
				if err := f.pass(1); err != nil {
					return at, false, err
				}
				continue
			}
			if s.ends(c) {
				return at, true, nil
			}
		}
		return at, false, nil
	})
}

// peek returns the next byte of a document that is not a space, without consuming it.
func (f *frames) peek() (byte, error) {
	for {
		if err := f.passSpace(); err != nil {
			return 0, err
		}
		if f.buffer != nil && f.start < len(*f.buffer) {
			return (*f.buffer)[f.start], nil
		}
		if err := f.more(); err != nil {
			return 0, err
		}
	}
}

// expect consumes the given byte of a document.
func (f *frames) expect(c byte) error {
	next, err := f.peek()
	if err == nil && next != c {
		err = fmt.Errorf("%w: %q in the place of %q", errNoList, next, c)
	}
	if err == nil {
		f.start++
	}
	return err
}

// value reads a value of any kind within a document.
func (f *frames) value() ([]byte, error) {
	c, err := f.peek()
	if err != nil {
		return nil, err
	}
	switch c {
	case '{', '[':
		return f.nextJSON()
	case '"':
		var s scanner
		return f.upTo(func(b []byte, at int) (int, bool, error) {
			for at < len(b) {
				if at += s.passes(b[at:]); at == len(b) {
					break
				}
				s.ends(b[at])
				if at++; !s.inText {
					return at, true, nil
				}
			}
			return at, false, nil
		})
	}
	return f.upTo(func(b []byte, at int) (int, bool, error) {
		if end := bytes.IndexAny(b[at:], ",]} \n\r\t"); end >= 0 {
			return at + end, true, nil
		}
		return len(b), false, nil
	})
}

// upTo reads up to the position that end finds. end is called with what was read so far and the position up to which it
// has looked already, and returns the position up to which it has looked now.
func (f *frames) upTo(end func(b []byte, at int) (int, bool, error)) ([]byte, error) {
	at := f.start
	for {
		if f.buffer != nil {
			b := *f.buffer
			var found bool
			var err error
			if at, found, err = end(b, at); err != nil {
				return nil, err
			}
			if found {
				document := b[f.start:at]
				f.start = at
				f.ends()
				return document, nil
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
	if err := f.borrow(firstRead); err != nil {
		return err
	}
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
	if len(*f.buffer) == maxDocument {
		return fmt.Errorf("%w: it does not end after %d bytes", errUnreadable, maxDocument)
	}
	if err := f.borrow(1); err != nil {
		return err
	}
	b := *f.buffer
	n, err := f.body.Read(b[len(b):cap(b)])
	*f.buffer = b[:len(b)+n]
	if n == 0 && err != nil {
		return f.failed(err)
	}
	return nil
}

// spaces are the characters for which isSpace returns true.
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

// ends takes the next byte and reports whether the document ends with it.
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
