package h2

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"golang.org/x/net/http2"
)

// frameSize is how much is sent in a frame of data. With its head it fits into one record of TLS.
const frameSize = readFrame - 9

// stream is a request and its answer. All of it is guarded by the lock of the connection.
type stream struct {
	conn   *Conn
	id     uint32
	unbind func() bool // from the context of the request
	wake   sync.Cond   // of who sends the request or reads the answer
	parked Reader      // who is to be called when there is something to read, nil if nobody is
	err    error       // why it ended; io.EOF if in order

	sent   bool  // the request is, or will be, without being waited for
	window int64 // of what may be sent

	response *http.Response // from its headers until it is returned, and then without any
	informed int            // informational answers that came before it
	bare     bool           // the answer has no body, whatever it says
	expected int64          // bytes of the answer that are to come, -1 if it did not say so
	granted  int64          // bytes that the server may send
	consumed int64          // bytes that were read, and that the server does not know of

	unread unread
}

// bind has a stream end with a context.
func (s *stream) bind(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		s.conn.mu.Lock()
		defer s.conn.unlock()
		s.conn.resetLocked(s, http2.ErrCodeCancel, ctx.Err())
	})
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.unbind = stop
}

// upload sends the body of the request, unless the stream ends meanwhile.
func (s *stream) upload(body io.ReadCloser, length int64) {
	defer func() { _ = body.Close() }()
	for last := false; !last; {
		allowed := frameSize
		if length > 0 {
			allowed = int(min(frameSize, length))
		}
		if allowed = s.admit(allowed); allowed == 0 {
			return
		}
		piece := newPiece()
		n, err := fill(body, (*piece)[:allowed])
		last = errors.Is(err, io.EOF)
		if last {
			err = nil
		}
		if length > 0 {
			length -= int64(n)
			if last && length > 0 {
				err = errors.New("the body of the request is shorter than it was said to be")
			}
			last = last || length == 0
		}
		s.conn.mu.Lock()
		if err != nil {
			s.conn.resetLocked(s, http2.ErrCodeCancel, err)
		}
		if s.err != nil {
			s.giveBackLocked(allowed)
			s.conn.unlock()
			keepPiece(piece)
			return
		}
		s.giveBackLocked(allowed - n)
		s.sent = last
		s.conn.writeLocked(frame{kind: writeData, id: s.id, piece: piece, size: n, last: last})
		s.conn.unlock()
	}
}

// fill reads until there is no room, or an error.
func fill(from io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var more int
		more, err = from.Read(p[n:])
		n += more
	}
	return n, err
}

// giveBackLocked gives back what was admitted and is not sent.
func (s *stream) giveBackLocked(n int) {
	if n > 0 {
		s.window += int64(n)
		s.conn.window += int64(n)
		s.conn.feedLocked()
	}
}

// admit waits until some of so many bytes may be sent, and returns how many; zero if the stream ended.
func (s *stream) admit(most int) int {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for s.err == nil && (s.window <= 0 || c.window <= 0) {
		c.starved++
		s.wake.Wait()
		c.starved--
	}
	if s.err != nil {
		return 0
	}
	n := min(int64(most), s.window, c.window)
	s.window -= n
	c.window -= n
	return int(n)
}

// answer waits for the begin of the answer.
func (s *stream) answer(request *http.Request, unzips bool) (*http.Response, error) {
	c := s.conn
	c.mu.Lock()
	for s.response == nil && s.err == nil {
		s.wake.Wait()
	}
	response, err := s.response, s.err
	s.response = answered
	empty := errors.Is(err, io.EOF) && s.unread.empty()
	if s.bare && response != nil && !empty {
		c.resetLocked(s, http2.ErrCodeNo, io.EOF)
		s.dropLocked()
		empty = true
	}
	c.unlock()
	switch {
	case response == nil:
		s.unbind()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	case empty:
		s.unbind()
		response.Body = http.NoBody
	default:
		response.Body = &body{s}
	}
	response.Request = request
	if unzips && response.Header.Get("Content-Encoding") == "gzip" && !empty {
		response.Header.Del("Content-Encoding")
		response.Header.Del("Content-Length")
		response.ContentLength, response.Uncompressed = -1, true
		response.Body = &unzipped{body: response.Body}
	}
	return response, nil
}

// answered stands for all responses that were returned.
var answered = &http.Response{}

// put keeps what came until it is read, unless who would be called for it takes it.
func (s *stream) put(data []byte) {
	if s.parked != nil && s.parked.Offer(data) {
		if s.expected > 0 {
			s.expected -= int64(len(data))
		}
		s.consume(len(data))
		return
	}
	s.unpark()
	s.expected -= int64(len(data))
	s.unread.add(data)
	s.conn.kept += len(data)
}

// dropLocked discards the bytes that were not read.
func (s *stream) dropLocked() {
	s.conn.kept -= s.unread.size()
	s.unread.drop()
}

// body is what is read of an answer.
type body struct{ stream *stream }

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	s, c := b.stream, b.stream.conn
	if len(p) == 0 {
		return 0, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for s.unread.empty() && s.err == nil {
		s.wake.Wait()
	}
	if s.unread.empty() {
		s.unbind()
		return 0, s.err
	}
	n := s.unread.read(p)
	c.kept -= n
	s.consume(n)
	return n, nil
}

// consume notes that so much was read, and lets the server send as much again.
func (s *stream) consume(n int) {
	if s.consumed += int64(n); s.consumed >= streamWindow/2 && s.err == nil {
		s.granted += s.consumed
		s.conn.writeLocked(frame{kind: writeWindow, id: s.id, value: uint32(s.consumed)}) //nolint:gosec // less than streamWindow
		s.consumed = 0
	}
}

// Reader reads the body of an answer, and need not be there while there is nothing to read.
type Reader = interface {
	// Offer is called with what came, by the goroutine that reads the connection. If it returns true, that counts as read, and Wake is
	// still to be called. All that comes from the server waits meanwhile, so it must not wait for anything, nor call the body. What
	// it is given is valid until it returns.
	Offer(data []byte) bool
	// Wake is called in a goroutine of its own.
	Wake()
}

// Park has Wake called, once, when there is something to read that Offer does not take, or will not be any more. It returns false if that
// is so already.
func (b *body) Park(reader Reader) bool {
	s, c := b.stream, b.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.unread.empty() || s.err != nil {
		return false
	}
	s.parked = reader
	return true
}

func (s *stream) unpark() {
	if s.parked != nil {
		go s.parked.Wake()
		s.parked = nil
	}
}

// errBodyClosed is what comes of an answer that was closed.
var errBodyClosed = errors.New("read of an answer that was closed")

// Close implements io.Closer. The server need not send what was not read.
func (b *body) Close() error {
	s, c := b.stream, b.stream.conn
	c.mu.Lock()
	defer c.unlock()
	c.resetLocked(s, http2.ErrCodeCancel, errBodyClosed)
	s.dropLocked()
	if errors.Is(s.err, io.EOF) {
		s.err = errBodyClosed
	}
	s.unbind()
	return nil
}

// unzipped is an answer that was compressed.
type unzipped struct {
	body   io.ReadCloser
	reader *gzip.Reader // nil until something is read
	err    error
}

// Read implements io.Reader.
func (u *unzipped) Read(p []byte) (int, error) {
	if u.reader == nil && u.err == nil {
		u.reader, u.err = gzip.NewReader(u.body)
	}
	if u.err != nil {
		return 0, u.err
	}
	return u.reader.Read(p)
}

// Close implements io.Closer.
func (u *unzipped) Close() error { return u.body.Close() }
