// Package transport makes the HTTP transport of one connection to a target: sockets that are closed for certain when
// the connection ends, a token that can change while streams are open, the throttle that all connections of a target
// share, deadlines, and confinement to the target's own server. Answers are bounded by package answers, below
// everything else.
//
// Two round trippers come from it. Guarded is for callers: throttled, with a deadline for each call, and ended
// with the connection; watches that resume where they were wait for a seat. Control is for the few calls that
// keep the connection itself going; they bring deadlines of their own and must get through when callers have used
// up what is allowed.
package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/clustercache/internal/seats"
	"github.com/trellis-hub/trellis/semaphore"
)

const (
	// dialTimeout and tlsTimeout bound the two parts of opening a socket. Callers have less patience.
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	// keepAlive is the pause between the probes of TCP.
	keepAlive = 30 * time.Second
	// watchAnswer bounds how long a watch may wait for the beginning of its answer, watchOverrun how much longer than
	// asked for a server may keep it open.
	watchAnswer  = 30 * time.Second
	watchOverrun = 30 * time.Second
	// maxConns bounds the connections to one target. Over HTTP/1.1 each call under way has one, and each watch.
	maxConns = 512
	// streamWindow is how much of an answer may wait to be read over HTTP/2, and connWindow how much of all answers of a
	// connection. A target can make the hub keep that much.
	streamWindow = 256 << 10
	connWindow   = 8 << 20
	// maxFrame is the size of the largest HTTP/2 frame that a server may send. Each connection has a buffer for one.
	maxFrame = 16 << 10
	// writeTimeout is how long an HTTP/2 connection may take no bytes before it counts as lost. Until then a call
	// whose answer is being read can outlast its deadline: net/http reports to the server how much was read,
	// whatever the deadline.
	writeTimeout = 10 * time.Second
	// bearerTries is how often a request is sent whose token is exchanged each time that it is on its way.
	bearerTries = 4
)

// Options say what a transport is made of.
type Options struct {
	// Config says how to reach and trust the server, and holds all credentials but Token.
	Config *rest.Config
	// Token is the bearer token to begin with, or empty.
	Token string
	// Addresses says which addresses may be dialled, unless Config has a dialler of its own. The dial to a proxy is
	// not checked.
	Addresses addresses.Policy
	// WrapConn is put around each socket, unless Config has a dialler of its own. Nil: nothing is.
	WrapConn func(net.Conn) (net.Conn, error)
	// Resolver resolves the names that are dialled. Nil: the one of the system.
	Resolver *net.Resolver
	// Throttle is shared with other connections to the same target, and may be replaced at any time.
	Throttle *atomic.Pointer[Throttle]
	// Suspect is called, from any goroutine, when something suggests that the connection is dead or leads elsewhere: a
	// failed call, an answer 401, a socket that was opened again for a call of Guarded. Those that Control opens raise
	// no suspicion, for its calls are what finds out where the connection leads.
	Suspect func()
	// Unanswered is called, from any goroutine, with the errors of callers' calls that got no answer. Nil: it is not.
	Unanswered func(error)
	// Fenced reports whether a call failed because it was not let out on this side, which says nothing about the target.
	// Not nil.
	Fenced func(err error) bool
	// Calling is called with the context of each call but watches, and what it returns when the call has ended. Nil: it is
	// not.
	Calling func(ctx context.Context) (answered func())
	// Meter counts what goes over the connection.
	Meter *Meter
	// Answers is the budget of large answers, which all targets share, and Owner is the target in it. Nil: a separate one.
	Answers *answers.Budget
	Owner   semaphore.Owner
	// Openings are the seats for watches that resume where they were. Nil: no bound.
	Openings *seats.Flow
	// PingInterval is how long an HTTP/2 connection may be silent before the other end is asked for a sign of life,
	// PingTimeout how long that may take before the connection counts as lost. Zero: it is never asked, and 15s.
	PingInterval, PingTimeout time.Duration
}

// Transport is the transport of one connection.
type Transport struct {
	wire    *wire
	token   *atomic.Pointer[string]
	base    *url.URL
	control http.RoundTripper
	guarded http.RoundTripper
	gate    *Gate
}

// New builds a transport without any call. Calls end with ctx and then fail with its cause; call Shut as
// well, to close the sockets.
func New(ctx context.Context, options Options) (*Transport, error) {
	base, _, err := rest.DefaultServerUrlFor(options.Config)
	if err != nil {
		return nil, fmt.Errorf("address of the target: %w", err)
	}
	t := &Transport{base: base, token: &atomic.Pointer[string]{}, gate: &Gate{}}
	t.SetToken(options.Token)
	if t.wire, err = newWire(ctx, base, options); err != nil {
		return nil, err
	}
	if options.Answers == nil {
		options.Answers = answers.NewBudget()
	}
	bounded := &answers.Transport{Next: t.wire.http, Base: base, Budget: options.Answers, Owner: options.Owner}
	inner, err := rest.HTTPWrappersForConfig(options.Config, bearer{next: bounded, token: t.token})
	if err != nil {
		return nil, fmt.Errorf("cannot set up authentication: %w", err)
	}
	t.control = discreetly{next: inner, fenced: options.Fenced}
	t.guarded = &guard{
		next: inner, host: base.Host, ctx: ctx, gate: t.gate, unanswered: options.Unanswered,
		throttle: options.Throttle, suspect: options.Suspect, meter: options.Meter, openings: options.Openings,
		fenced: options.Fenced, calling: options.Calling,
	}
	return t, nil
}

// Host is the address of the server.
func (t *Transport) Host() string { return t.base.String() }

// Base is the address of the server. It is not to be changed.
func (t *Transport) Base() *url.URL { return t.base }

// Guarded is for callers.
func (t *Transport) Guarded() http.RoundTripper { return t.guarded }

// Control is for calls that keep the connection going.
func (t *Transport) Control() http.RoundTripper { return t.control }

// Gate is what callers, but not the calls that keep the connection going, have to pass.
func (t *Transport) Gate() *Gate { return t.gate }

// Cut closes all sockets, busy or not. What is sent next opens a new one.
func (t *Transport) Cut() { t.wire.cut() }

// SetToken exchanges the token. Streams that are open stay so.
func (t *Transport) SetToken(token string) { t.token.Store(&token) }

// Shut closes all sockets, busy or not, and lets no new ones be opened.
func (t *Transport) Shut() { t.wire.shut() }

// wire holds all sockets, so that they can be closed for certain.
type wire struct {
	http   *http.Transport
	ctx    context.Context
	cancel context.CancelFunc
	onDial func() // is called with each socket but the first, and those of control calls
	total  *Total

	mu     sync.Mutex
	conns  map[*trackedConn]struct{}
	dialed bool
}

func newWire(ctx context.Context, base *url.URL, options Options) (*wire, error) {
	config := options.Config
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot set up TLS: %w", err)
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	dial := config.Dial
	if dial == nil {
		if dial, err = newDial(options, base); err != nil {
			return nil, err
		}
	}
	w := &wire{conns: map[*trackedConn]struct{}{}, onDial: options.Suspect, total: options.Meter.total}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.http = &http.Transport{
		Proxy:               proxy,
		DialContext:         w.dialer(dial),
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: tlsTimeout,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     options.PingInterval + options.PingTimeout,
		DisableCompression:  config.DisableCompression,

		MaxResponseHeaderBytes: answers.MaxHeader,

		ForceAttemptHTTP2: true, // it is not the default with a dialler
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: maxFrame, MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connWindow,
			SendPingTimeout: options.PingInterval, PingTimeout: options.PingTimeout, WriteByteTimeout: writeTimeout,
		},
	}
	return w, nil
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newDial opens sockets to addresses that may be dialled. All requests of a wire have the same server.
func newDial(options Options, base *url.URL) (dialFunc, error) {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Resolver: options.Resolver}
	if err := options.Addresses.Guard(dialer, base, options.Config.Proxy); err != nil {
		return nil, fmt.Errorf("address of the target: %w", err)
	}
	if options.WrapConn == nil {
		return dialer.DialContext, nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return options.WrapConn(conn)
	}, nil
}

// dialer registers sockets while they are open and ends with the wire.
func (w *wire) dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		defer context.AfterFunc(w.ctx, cancel)() //nolint:contextcheck // a dial ends with the connection, too
		if w.open() >= maxConns {
			return nil, fmt.Errorf("there are %d connections to the target already", maxConns)
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ctx.Err() != nil {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		tracked := &trackedConn{Conn: meteredConn{conn, w.total}, wire: w}
		w.conns[tracked] = struct{}{}
		if w.dialed && ctx.Value(controlCall{}) == nil {
			w.onDial()
		}
		w.dialed = true
		return tracked, nil
	}
}

// controlCall is the key of the context of dials for calls of Control.
type controlCall struct{}

// open returns how many sockets there are.
func (w *wire) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns)
}

func (w *wire) cut() {
	w.mu.Lock()
	conns := slices.Collect(maps.Keys(w.conns))
	w.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
}

func (w *wire) shut() {
	w.cancel()
	w.mu.Lock()
	conns := w.conns
	w.conns = map[*trackedConn]struct{}{}
	w.mu.Unlock()
	for conn := range conns {
		_ = conn.Conn.Close()
	}
	w.http.CloseIdleConnections()
}

type trackedConn struct {
	net.Conn
	wire *wire
}

func (c *trackedConn) Close() error {
	c.wire.mu.Lock()
	delete(c.wire.conns, c)
	c.wire.mu.Unlock()
	return c.Conn.Close()
}

// bearer adds a token that can change at any time. The empty token is none.
type bearer struct {
	next  http.RoundTripper
	token *atomic.Pointer[string]
}

func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	if token, tried := request.Context().Value(triedToken{}).(string); tried {
		return b.send(request, token)
	}
	for try := 1; ; try++ {
		token := *b.token.Load()
		response, err := b.send(request, token)
		if err != nil || response.StatusCode != http.StatusUnauthorized || *b.token.Load() == token || try == bearerTries {
			return response, err
		}
		// It was on its way when the token was exchanged, and the old one is not taken any longer.
		again, ok := repeat(request)
		if !ok {
			return response, nil
		}
		_ = response.Body.Close()
		request = again
	}
}

// repeat returns a request that can be sent again, false if its body cannot.
func repeat(request *http.Request) (*http.Request, bool) {
	if request.Body == nil || request.Body == http.NoBody {
		return request, true
	}
	if request.GetBody == nil {
		return nil, false
	}
	body, err := request.GetBody()
	if err != nil {
		return nil, false
	}
	again := *request
	again.Body = body
	return &again, true
}

// triedToken is the key of a token in the context of a request.
type triedToken struct{}

// WithToken has the requests of a context sent with another token than the others of their connection: to try it.
func WithToken(ctx context.Context, token string) context.Context {
	return context.WithValue(ctx, triedToken{}, token)
}

func (b bearer) send(request *http.Request, token string) (*http.Response, error) {
	if token != "" {
		request = utilnet.CloneRequest(request) // its headers, and no more
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return b.next.RoundTrip(request)
}

// Throttle is what all connections of a target share: one token bucket and one bound on the calls in flight.
type Throttle struct {
	bucket  *rate.Limiter // nil: unlimited
	slots   chan struct{}
	timeout time.Duration
	breaker breaker
}

// NewThrottle returns a throttle. A negative qps means no rate limit; timeout bounds each call. broke, if not nil, is
// called each time that calls are refused from then on, since too many got no answer.
func NewThrottle(qps float64, burst, maxInFlight int, timeout time.Duration, broke func()) *Throttle {
	t := &Throttle{slots: make(chan struct{}, max(maxInFlight, 1)), timeout: timeout}
	t.breaker.opened = broke
	if qps > 0 {
		t.bucket = rate.NewLimiter(rate.Limit(qps), max(burst, 1))
	}
	return t
}

// Timeout bounds each call.
func (t *Throttle) Timeout() time.Duration { return t.timeout }

// InFlight is how many calls wait for their answers.
func (t *Throttle) InFlight() int { return len(t.slots) }

// MaxInFlight bounds how many calls wait for their answers.
func (t *Throttle) MaxInFlight() int { return cap(t.slots) }

// errDeadline is the end of a call that got no complete answer in time.
var errDeadline = fmt.Errorf("%w", context.DeadlineExceeded)

// guard is the outermost transport, which all clients use. It confines calls to the target's server, applies the
// throttle and the deadlines, ends all calls with the connection, and reports when a call suggests that it is dead.
type guard struct {
	next     http.RoundTripper
	host     string
	ctx      context.Context // of the connection; its cause is what calls get after the end
	gate     *Gate
	throttle *atomic.Pointer[Throttle]
	suspect  func()
	meter    *Meter
	openings *seats.Flow
	fenced   func(error) bool
	calling  func(context.Context) (answered func())

	unanswered func(error) // may be nil
}

func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := context.Cause(g.ctx); err != nil { //nolint:contextcheck // a call ends with the connection, too
		closeBody(request)
		return nil, err
	}
	if request.URL.Host != g.host {
		closeBody(request)
		return nil, errors.New("the connection only serves the API server of its target")
	}
	watch := isWatch(request)
	for {
		response, err := g.send(request, watch)
		if err == nil || !watch || g.gate.cause() == nil || request.Context().Err() != nil || g.ctx.Err() != nil {
			return response, err
		}
		// The connection was lost while the watch was opened. It waits at the gate like those that were open: otherwise its
		// caller would begin again, with a list.
	}
}

// send sends a request when it may be sent.
func (g *guard) send(request *http.Request, watch bool) (*http.Response, error) {
	call := newCall(g.ctx, request.Context(), g.gate, g.fenced)
	if !watch && g.calling != nil {
		call.answered = g.calling(request.Context())
	}
	if err := g.gate.pass(call, watch); err != nil {
		return nil, refused(request, call, err)
	}
	t := g.throttle.Load()
	arrived := time.Now()
	err := g.admit(call, t, watch)
	g.meter.throttled.Add(int64(time.Since(arrived)))
	if err != nil {
		return nil, refused(request, call, err)
	}
	opened, err := g.awaitOpening(call, watch && !lists(request))
	if err != nil {
		return nil, refused(request, call, err)
	}
	sent := time.Now()
	call.sent = true
	limit := t.timeout
	if watch {
		limit = watchAnswer
	}
	call.expireAfter(limit)
	//nolint:contextcheck // it derives from the request's
	request = request.WithContext(answers.WithPause(call.ctx, call.pause))
	response, err := g.next.RoundTrip(request)
	opened(err == nil)
	if err != nil {
		err = call.unanswered(err)
		fenced := g.fenced(err)
		if !fenced {
			g.meter.answered(verbOf(request, watch), NoAnswer, 0)
		}
		suspended := g.gate.cause()
		switch {
		case suspended != nil && !watch:
			err = suspended
		case answers.IsRefused(err):
		case suspended == nil && !fenced && request.Context().Err() == nil && g.ctx.Err() == nil:
			g.suspect()
		}
		if suspended == nil && !fenced && call.caller.Err() == nil && g.ctx.Err() == nil && g.unanswered != nil {
			g.unanswered(err)
		}
		call.end(err)
		return nil, err
	}
	g.meter.answered(verbOf(request, watch), response.StatusCode, time.Since(sent))
	if !call.ticket.answered(response, request.URL.Path, time.Now()) {
		call.ticket = ticket{}
	}
	if response.StatusCode == http.StatusUnauthorized {
		g.suspect()
	}
	if watch {
		call.expireAfter(watchDuration(request))
	}
	response.Body = &callBody{ReadCloser: response.Body, call: call}
	return response, nil
}

// awaitOpening delays a watch that resumes where another ended, while very many are being opened. Otherwise the watches
// of all targets that are reachable again would delay the first calls, by which their connections are found to work. A
// watch that begins with a list has the seat of that list.
func (g *guard) awaitOpening(c *call, reopens bool) (done func(completed bool), err error) {
	if !reopens || g.openings == nil {
		return func(bool) {}, nil
	}
	for {
		if done, err = g.openings.Acquire(c.ctx); err != nil {
			return nil, c.explain(err)
		}
		if g.gate.cause() == nil {
			return done, nil
		}
		done(false) // the connection was lost meanwhile
		if err := g.gate.pass(c, true); err != nil {
			return nil, err
		}
	}
}

// admit holds a call up until it may be sent.
func (g *guard) admit(c *call, t *Throttle, watch bool) error {
	if !watch {
		var pause time.Duration
		var err error
		if c.ticket, pause, err = t.breaker.admit(time.Now()); err != nil {
			return err
		}
		if err := c.sleep(pause); err != nil {
			return err
		}
	}
	return c.wait(t, watch)
}

// call is one request from its admission to the end of its answer.
type call struct {
	sent    bool // one that had to wait too long for the hub's own limits says nothing of the target
	ctx     context.Context
	cancel  context.CancelCauseFunc
	caller  context.Context
	unbind  func() bool
	release func()
	once    sync.Once
	// answered, if not nil, is called at the end.
	answered func()

	gate   *Gate
	fenced func(error) bool
	ticket ticket

	mu      sync.Mutex // guards what follows
	timer   *time.Timer
	expires time.Time // when the timer cancels the call
	limit   time.Duration
	ended   bool
}

func newCall(connection, caller context.Context, gate *Gate, fenced func(error) bool) *call {
	c := &call{caller: caller, gate: gate, fenced: fenced, release: func() {}}
	c.ctx, c.cancel = context.WithCancelCause(caller)
	c.unbind = context.AfterFunc(connection, func() { c.cancel(context.Cause(connection)) })
	return c
}

// wait holds the call up until the throttle admits it.
func (c *call) wait(t *Throttle, watch bool) error {
	if t.bucket != nil {
		if err := t.bucket.Wait(c.ctx); err != nil {
			return c.explain(fmt.Errorf("waiting for the rate limit of the target: %w", err))
		}
	}
	if watch {
		return nil
	}
	select {
	case t.slots <- struct{}{}:
		c.release = func() { <-t.slots }
		return nil
	case <-c.ctx.Done():
		return c.explain(fmt.Errorf("waiting for the calls in flight to the target: %w", c.ctx.Err()))
	}
}

// sleep holds the call up because the target asked for it.
func (c *call) sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ctx.Done():
		return c.explain(fmt.Errorf("waiting since the target asked for it: %w", c.ctx.Err()))
	}
}

// expireAfter sets the deadline; zero removes it.
func (c *call) expireAfter(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopTimerLocked()
	if d > 0 && !c.ended {
		c.expires, c.limit = time.Now().Add(d), d
		c.startTimerLocked()
	}
}

func (c *call) startTimerLocked() {
	limit := c.limit
	c.timer = time.AfterFunc(time.Until(c.expires), func() {
		c.cancel(fmt.Errorf("no complete answer within %s: %w", limit, errDeadline))
	})
}

// stopTimerLocked returns whether there was a deadline that did not pass yet.
func (c *call) stopTimerLocked() bool {
	running := c.timer != nil && c.timer.Stop()
	c.timer = nil
	return running
}

// pause calls wait with the deadline suspended: the answer waits for those of other targets.
func (c *call) pause(wait func() error) error {
	c.mu.Lock()
	paused := c.stopTimerLocked()
	c.mu.Unlock()
	began := time.Now()
	err := wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if paused && !c.ended {
		c.expires = c.expires.Add(time.Since(began))
		c.startTimerLocked()
	}
	return err
}

// explain replaces an error by the reason why the call was ended, if there is one: the caller need not give any.
func (c *call) explain(err error) error {
	if cause := context.Cause(c.caller); cause != nil && !errors.Is(cause, c.caller.Err()) {
		return cause
	}
	if cause := context.Cause(c.ctx); cause != nil && c.caller.Err() == nil {
		return cause
	}
	return err
}

// unanswered is explain for a call that was sent. Its caller learns only that it got no answer, or none in time.
func (c *call) unanswered(err error) error {
	err = c.explain(discreet(err, c.fenced))
	if errors.Is(err, errDeadline) {
		return discreet(err, c.fenced)
	}
	return err
}

// end ends the call; result is nil if the answer came.
func (c *call) end(result error) {
	c.once.Do(func() {
		broken := result != nil && c.sent && c.ctx.Err() == nil && c.gate.cause() == nil && !c.fenced(result)
		if answers.IsRefused(result) {
			result = nil // it was answered
		}
		c.ticket.outcome(result, broken && !errors.Is(result, answers.ErrNoSeat), time.Now())
		c.mu.Lock()
		c.ended = true
		c.stopTimerLocked()
		c.mu.Unlock()
		c.unbind()
		c.cancel(nil)
		c.release()
		if c.answered != nil {
			c.answered()
		}
	})
}

// callBody ends its call when the answer is read to its end or closed.
type callBody struct {
	io.ReadCloser
	call *call
}

func (b *callBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.call.unanswered(err)
	}
	switch {
	case errors.Is(err, io.EOF):
		b.call.end(nil)
	case err != nil:
		b.call.end(err)
	}
	return n, err
}

func (b *callBody) Close() error {
	b.call.end(nil) // first, for over HTTP/2 closing may wait until the server takes bytes
	return b.ReadCloser.Close()
}

func isWatch(request *http.Request) bool {
	if request.Method != http.MethodGet {
		return false
	}
	watch, err := strconv.ParseBool(request.URL.Query().Get("watch"))
	return err == nil && watch
}

// lists reports whether a watch begins with all objects there are.
func lists(watch *http.Request) bool {
	all, err := strconv.ParseBool(watch.URL.Query().Get("sendInitialEvents"))
	return err == nil && all
}

// watchDuration returns how long a watch may stay open; zero if it did not ask for an end.
func watchDuration(request *http.Request) time.Duration {
	seconds, err := strconv.Atoi(request.URL.Query().Get("timeoutSeconds"))
	if err != nil || seconds <= 0 {
		return 0
	}
	return time.Duration(seconds)*time.Second + watchOverrun
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
}
