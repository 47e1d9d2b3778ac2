package h2

import (
	"crypto/tls"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// streamWindow is how much of an answer may wait to be read; connWindow how much of all answers may be on its way. An
	// answer that waits for others is not read, so a server can make the hub keep the first times the number of streams.
	streamWindow = 256 << 10
	connWindow   = 16 << 20
	// keptLimit bounds the bytes of all answers of a connection that wait to be read. An answer that would exceed it is
	// reset: to stop reading the connection instead would delay the answers that readers wait for.
	keptLimit = 8 << 20
	// keptAnyway is how many unread bytes each answer may have in any case: a probe must not fail because lists wait.
	keptAnyway = 16 << 10
	// fresh is how long a connection is kept that was never used, and how long it is said of one why it was closed before that.
	fresh = time.Second
	// headerLimit bounds the headers of an answer.
	headerLimit = 128 << 10
	// streamsAtFirst is how many streams are opened before the server has said how many it allows, streamsUnsaid how many if it says
	// nothing of it.
	streamsAtFirst = 100
	streamsUnsaid  = 1000
	// initialWindow and initialTable are what a server allows that has not said anything else.
	initialWindow = 1<<16 - 1
	initialTable  = 4 << 10
	// readFrame is the size of the largest frame that a server may send.
	readFrame = 16 << 10
	// lastID is the number of the last stream that a connection may have.
	lastID = 1<<31 - 1
	// writeTimeout bounds how long a write to the socket may take.
	writeTimeout = 30 * time.Second
	// queueLimit bounds how many answers to what the server asks for, such as pings, may wait to be written.
	queueLimit = 1000
	// idleFrames is how many frames that serve no stream, such as pings, a server may send within idlePeriod.
	idleFrames = 10_000
	idlePeriod = 10 * time.Second
	// settingsLimit is how many settings a frame may have. There are less than twenty different ones.
	settingsLimit = 64
	// informedLimit is how many informational answers may come before the answer, as in net/http.
	informedLimit = 5
)

// errFlood ends a connection whose server sends too many frames that serve no stream.
var errFlood error = &untrusted.ExceededError{
	What: "frames that serve no stream in " + idlePeriod.String(), Most: idleFrames,
}

// errSettings ends a connection whose server sends too many settings in one frame.
var errSettings error = &untrusted.ExceededError{What: "settings at once", Most: settingsLimit}

// errUnwritten ends a connection whose server asks for answers and does not take them.
var errUnwritten error = &untrusted.ExceededError{What: "queued answers that are not read", Most: queueLimit}

// errHeader ends a stream.
var errHeader error = &untrusted.ExceededError{What: "bytes of headers", Most: headerLimit}

// errLost ends a connection that gives no sign of life. Clients look for the text.
var errLost = errors.New("http2: client connection lost: there was no answer to a ping")

// errKept ends an answer that would exceed keptLimit.
var errKept = errors.New("too many unread bytes in the answers of the server")

// errClosed ends a connection that nobody needs any more.
var errClosed = errors.New("the connection is closed")

// notProcessedError says that the server did not look at a request, so that it may be sent once more.
type notProcessedError struct{ why string }

func (e *notProcessedError) Error() string { return "the server did not take the request: " + e.why }

// fullError is that of a connection that cannot take another stream. net/http knows it by its method.
type fullError struct{}

func (fullError) Error() string { return "the connection has no room for another stream" }

// IsHTTP2NoCachedConnError has net/http forget a connection and try another one.
func (fullError) IsHTTP2NoCachedConnError() {}

// Options are those of a connection.
type Options struct {
	// PingInterval is how long the server may be silent before it is asked for a sign of life, PingTimeout how long that may take before
	// the connection counts as lost. Zero: it is never asked, and 15s.
	PingInterval, PingTimeout time.Duration
	// DisableCompression has no compressed answers asked for.
	DisableCompression bool
}

// Conn is a connection to a server.
type Conn struct {
	socket  *tls.Conn
	options Options
	changed func() // called without locks when it is closed, or has no streams any more

	framer *http2.Framer // reads; only used by the goroutine that does
	unread uint32        // bytes that came and for which the window of the connection was not given back; the same
	idle   int           // frames that served no stream since idleAt; the same
	idleAt time.Time     // the same
	began  time.Time
	heard  atomic.Int64 // when something came last, in nanoseconds since then

	mu       sync.Mutex
	kept     int   // bytes of all answers that were not read yet
	err      error // why it is closed
	ended    time.Time
	leaving  bool // no further streams
	streams  map[uint32]*stream
	reserved int  // places of streams that are about to be opened
	emptied  bool // changed is to be called
	nextID   uint32
	pinged   int64       // when a ping was sent that nothing came after, as heard; zero if there is none
	timer    *time.Timer // of pings; nil if there are none

	// What the server allows.
	maxStreams uint32
	window     int64 // of all that is sent
	atFirst    int64 // of what is sent in a new stream
	starved    int   // streams that wait for window

	queue   []frame
	asked   int     // frames in the queue that the server asked for
	table   *uint32 // how large the table of headers may be, nil unless the server has said so since the last write
	writing bool
	encoder *hpack.Encoder // only used by the goroutine that writes
	header  headerBlock    // the same
}

// newConn begins to speak HTTP/2 on a socket. changed is called when the connection is closed, and when it has no streams any more.
func newConn(socket *tls.Conn, options Options, changed func()) *Conn {
	if options.PingTimeout == 0 {
		options.PingTimeout = 15 * time.Second
	}
	c := &Conn{
		socket: socket, options: options, changed: changed,
		framer: http2.NewFramer(nil, socket), streams: map[uint32]*stream{}, nextID: 1,
		maxStreams: streamsAtFirst, window: initialWindow, atFirst: initialWindow, began: time.Now(),
	}
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(readFrame)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(initialTable, nil)
	c.framer.MaxHeaderListSize = headerLimit
	c.encoder = hpack.NewEncoder(&c.header)
	c.mu.Lock()
	c.writeLocked(frame{kind: writePreface})
	if options.PingInterval > 0 {
		c.timer = time.AfterFunc(options.PingInterval, c.listen)
	}
	c.mu.Unlock()
	go c.read()
	return c
}

// RoundTrip implements http.RoundTripper. It fails without a look at the request if there is no room for another stream. net/http opens
// another connection then, at once and as often as it takes: not so if there never was any room.
func (c *Conn) RoundTrip(request *http.Request) (*http.Response, error) {
	if c.reserve() {
		return c.send(request)
	}
	if err := c.stillborn(); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	return nil, fullError{}
}

// stillborn tells why a connection is of no use that never had a stream; nil if another one may be.
func (c *Conn) stillborn() error {
	c.mu.Lock()
	defer c.unlock()
	switch {
	case c.nextID > 1:
	case c.err == nil && (c.leaving || c.maxStreams == 0):
		c.leaving = true
		c.emptied = len(c.streams)+c.reserved == 0
		return &notProcessedError{"it allows no streams"}
	case c.err == nil || time.Since(c.ended) > fresh: // it may have been remembered since
	case errors.Is(c.err, errClosed):
		return &notProcessedError{"it is about to close the connection"}
	default:
		return c.err
	}
	return nil
}

// reserve keeps a place for a stream, if there is one.
func (c *Conn) reserve() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hasRoomLocked() {
		return false
	}
	c.reserved++
	return true
}

func (c *Conn) usableLocked() bool { return c.err == nil && !c.leaving }

// hasRoom tells whether there is a place for a stream.
func (c *Conn) hasRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hasRoomLocked()
}

func (c *Conn) hasRoomLocked() bool {
	return c.usableLocked() && len(c.streams)+c.reserved < int(c.maxStreams)
}

// isRoomy tells whether there is place for more streams than a few, or as much as there will ever be.
func (c *Conn) isRoomy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := len(c.streams) + c.reserved
	return c.usableLocked() && (open == 0 || open < int(c.maxStreams-c.maxStreams/4))
}

// isClosed tells whether the connection is closed.
func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil
}

// retire has the connection take no further streams if it has none, and is not about to have the first one; useless tells that there are
// better ones. It returns whether it is to be closed.
func (c *Conn) retire(useless bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.streams)+c.reserved > 0 || !c.leaving && (!useless || c.nextID == 1 && time.Since(c.began) < fresh) {
		return false
	}
	c.leaving = true
	return true
}

// releaseLocked gives a place back that was reserved.
func (c *Conn) releaseLocked() {
	c.reserved--
	c.emptied = c.emptied || len(c.streams)+c.reserved == 0
}

// unlock has it looked at whether the connection is still of use if the last stream ended.
func (c *Conn) unlock() {
	emptied := c.emptied
	c.emptied = false
	c.mu.Unlock()
	if emptied {
		c.changed()
	}
}

// send sends a request for which a place is reserved, and waits for the begin of the answer.
func (c *Conn) send(request *http.Request) (*http.Response, error) {
	header, unzips, err := headerOf(request, c.options.DisableCompression)
	if err == nil {
		err = request.Context().Err() // or it might be carried out
	}
	body := request.Body
	if body == http.NoBody {
		body = nil
	}
	var s *stream
	if err == nil {
		s, err = c.open(header, body == nil, request.Method == http.MethodHead)
	} else {
		c.mu.Lock()
		c.releaseLocked()
		c.unlock()
	}
	if err != nil {
		if body != nil {
			_ = body.Close()
		}
		return nil, err
	}
	s.bind(request.Context())
	if body != nil {
		s.upload(body, request.ContentLength)
	}
	return s.answer(request, unzips)
}

// open begins a stream in the place that was reserved for it. last is true if the request has no body, bare if the answer has none.
func (c *Conn) open(header []hpack.HeaderField, last, bare bool) (*stream, error) {
	c.mu.Lock()
	defer c.unlock()
	c.releaseLocked()
	if !c.usableLocked() || len(c.streams) >= int(c.maxStreams) {
		return nil, &notProcessedError{"the connection takes no further ones"}
	}
	c.emptied = false
	s := &stream{conn: c, id: c.nextID, window: c.atFirst, granted: streamWindow, sent: last, bare: bare, expected: -1}
	s.wake.L = &c.mu
	if c.nextID += 2; c.nextID > lastID {
		c.leaving = true
	}
	c.streams[s.id] = s
	c.writeLocked(frame{kind: writeHeaders, id: s.id, header: header, last: last})
	return s, nil
}

// endLocked ends a stream. What came until then can be read.
func (c *Conn) endLocked(s *stream, err error) {
	if s.err != nil {
		return
	}
	s.err = err
	delete(c.streams, s.id)
	s.unpark()
	s.wake.Broadcast()
	c.emptied = c.emptied || len(c.streams)+c.reserved == 0
}

// resetLocked ends a stream and tells the server so.
func (c *Conn) resetLocked(s *stream, code http2.ErrCode, err error) {
	if s.err == nil {
		c.endLocked(s, err)
		c.writeLocked(frame{kind: writeReset, id: s.id, value: uint32(code)})
	}
}

// close ends the connection and all that goes over it.
func (c *Conn) close(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err, c.queue, c.ended = err, nil, time.Now()
	if c.timer != nil {
		c.timer.Stop()
	}
	for _, s := range c.streams {
		c.endLocked(s, err)
	}
	c.mu.Unlock()
	_ = c.socket.NetConn().Close() // to say good-bye may take as long as the socket is full
	c.changed()
}

// listen asks the server for a sign of life if it is silent, and ends the connection if it stays so.
func (c *Conn) listen() {
	c.mu.Lock()
	heard, now := c.heard.Load(), int64(time.Since(c.began))
	silent, lost := time.Duration(now-heard), false
	if heard > c.pinged {
		c.pinged = 0
	}
	switch {
	case c.err != nil:
	case c.pinged > 0:
		lost = true
	case silent < c.options.PingInterval:
		c.timer.Reset(c.options.PingInterval - silent)
	default:
		c.pinged = now
		c.writeLocked(frame{kind: writePing})
		c.timer.Reset(c.options.PingTimeout)
	}
	c.emptied = len(c.streams)+c.reserved == 0 // there may be a better one by now
	c.unlock()
	if lost {
		c.close(errLost)
	}
}

var _ http.RoundTripper = &Conn{}
