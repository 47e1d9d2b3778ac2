package histories

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// call is one request of the hub.
type call struct {
	instance  *instance
	via       string // the registration through which it goes, empty for the source
	cluster   int
	method    string
	resource  string // "" for paths that are not of resources
	namespace string
	name      string
	sub       string
	watch     bool
	body      []byte

	// What the judge notes.
	object   int // number plus one
	deletion *deletion
}

func (c *call) write() bool { return c.method != http.MethodGet && c.method != http.MethodHead }

func (c *call) String() string {
	verb := c.method
	if c.watch {
		verb = "WATCH"
	}
	text := fmt.Sprintf("hub%d %s %s", c.instance.number, clusterNames[c.cluster], verb)
	for _, part := range []string{c.resource, c.namespace, c.name, c.sub} {
		if part != "" {
			text += " " + part
		}
	}
	if c.via != "" {
		text += " via " + c.via
	}
	return text
}

// mishap is what happens to a call.
type mishap int

const (
	none        mishap = iota
	refused            // it is not executed, and the connection fails
	lost               // it is executed, and the connection fails
	failing            // it answers 500, and is not executed
	throttled          // it answers 429
	unavailable        // it answers 503 and asks to come again
	conflicting        // it answers 409 without another write
	slow               // it is executed late
	crashBefore        // the hub dies, and it is not executed
	crashAfter         // it is executed, and the hub dies before the answer
	mishaps
)

var mishapNames = [mishaps]string{"none", "refuse", "lose", "500", "429", "503", "409", "slow", "crash-before", "crash-after"}

// due is a mishap that waits for its call.
type due struct {
	mishap mishap
	after  int  // how many calls pass before
	writes bool // only writes count
}

// observer sees what the hub does.
type observer interface {
	// before is called with calls that are about to be executed.
	before(c *call)
	// after is called when the answer is there, even if the hub never sees it. body is the whole answer of a write.
	after(c *call, status int, body []byte, err error)
}

// wire is between the hub and its clusters.
type wire struct {
	hosts    map[string]int
	observer observer

	mu      sync.Mutex
	pending []due
	crashed func(*instance)
	counts  map[string]int
	bodies  map[*stream]struct{}
	stalled [clusters]time.Time

	lastWrite atomic.Int64 // in nanoseconds
}

// instance is one life of the hub.
type instance struct {
	number   int
	started  time.Time
	dead     atomic.Bool
	cancel   context.CancelFunc
	ended    chan struct{} // closed when it has ended
	inFlight atomic.Int64
}

var errDead = errors.New("this hub has crashed")

// transport is the wire of an instance to one cluster.
func (w *wire) transport(i *instance, via string, next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) { return w.roundTrip(i, via, next, req) })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func broken(what string) error {
	return &net.OpError{Op: what, Net: "tcp", Err: syscall.ECONNRESET}
}

func (w *wire) roundTrip(i *instance, via string, next http.RoundTripper, req *http.Request) (*http.Response, error) {
	if i.dead.Load() {
		return nil, errDead
	}
	if _, known := w.hosts[req.URL.Host]; !known {
		return next.RoundTrip(req) // requests to the impostor are not judged
	}
	c := w.parse(i, via, req)
	if c.write() && req.Body != nil {
		raw, err := io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		c.body = raw
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(raw))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
		if c.resource == "managedresources" {
			req.Header.Set("Accept", "application/json") // the hub asks for metadata only, the observer wants to see all of it
		}
	}
	i.inFlight.Add(1)
	defer i.inFlight.Add(-1)
	switch m := w.next(c); m {
	case refused:
		return nil, broken("dial")
	case failing:
		return answer(req, http.StatusInternalServerError, "InternalError", 0), nil
	case throttled:
		return answer(req, http.StatusTooManyRequests, "TooManyRequests", 0), nil
	case unavailable:
		return answer(req, http.StatusServiceUnavailable, "ServiceUnavailable", 1), nil
	case conflicting:
		return answer(req, http.StatusConflict, "Conflict", 0), nil
	case crashBefore:
		w.crash(i)
		return nil, errDead
	case slow:
		select {
		case <-time.After(300 * time.Millisecond):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
		return w.execute(c, next, req, none)
	default:
		return w.execute(c, next, req, m)
	}
}

func (w *wire) crash(i *instance) {
	if !i.dead.CompareAndSwap(false, true) {
		return
	}
	i.cancel()
	w.cut(-1)
	w.crashed(i)
}

func (w *wire) execute(c *call, next http.RoundTripper, req *http.Request, m mishap) (*http.Response, error) {
	if c.instance.dead.Load() {
		return nil, errDead
	}
	w.observer.before(c)
	resp, err := next.RoundTrip(req)
	var raw []byte
	status := 0
	if err == nil {
		status = resp.StatusCode
		if c.write() {
			raw, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(raw))
		} else if c.watch && status == http.StatusOK {
			resp.Body = w.track(c, resp.Body)
		}
	}
	if c.write() {
		w.lastWrite.Store(time.Now().UnixNano())
	}
	w.observer.after(c, status, raw, err)
	if m == crashAfter {
		w.crash(c.instance)
	}
	if c.instance.dead.Load() || m == lost {
		if resp != nil {
			_ = resp.Body.Close()
		}
		if m == lost {
			return nil, broken("read")
		}
		return nil, errDead
	}
	return resp, err
}

// parse returns what a request is about.
func (w *wire) parse(i *instance, via string, req *http.Request) *call {
	c := &call{instance: i, via: via, cluster: w.hosts[req.URL.Host], method: req.Method, watch: req.URL.Query().Get("watch") != ""}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return c
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		c.namespace, parts = parts[1], parts[2:]
	}
	c.resource = parts[0]
	if len(parts) > 1 {
		c.name = parts[1]
	}
	if len(parts) > 2 {
		c.sub = parts[2]
	}
	return c
}

// next takes the mishap of a call, if one is due.
func (w *wire) next(c *call) mishap {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts["calls"]++
	chosen := none
	kept := w.pending[:0]
	for _, d := range w.pending {
		switch {
		case d.writes && !c.write(), chosen != none && d.after <= 0:
		case d.after > 0:
			d.after--
		case d.mishap == conflicting && (!c.write() || c.method == http.MethodDelete && c.name == ""):
		default:
			chosen = d.mishap
			continue
		}
		kept = append(kept, d)
	}
	w.pending = kept
	if chosen != none {
		w.counts[mishapNames[chosen]]++
	}
	return chosen
}

func (w *wire) plan(d due) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, d)
}

// mend lets all calls pass.
func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = nil
	w.stalled = [clusters]time.Time{}
}

// stall holds back what watches of a cluster deliver.
func (w *wire) stall(cluster int, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalled[cluster] = time.Now().Add(d)
}

func (w *wire) stalledUntil(cluster int) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stalled[cluster]
}

// cut ends the watches of a cluster, or of all.
func (w *wire) cut(cluster int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.bodies {
		if cluster < 0 || s.call.cluster == cluster {
			delete(w.bodies, s)
			_ = s.ReadCloser.Close()
		}
	}
}

// stream is the answer to a watch.
type stream struct {
	io.ReadCloser
	wire *wire
	call *call
}

func (w *wire) track(c *call, body io.ReadCloser) io.ReadCloser {
	s := &stream{ReadCloser: body, wire: w, call: c}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bodies[s] = struct{}{}
	return s
}

// Read holds back events while the cluster's watches are stalled.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	for time.Now().Before(s.wire.stalledUntil(s.call.cluster)) && !s.call.instance.dead.Load() {
		time.Sleep(5 * time.Millisecond)
	}
	if s.call.instance.dead.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (s *stream) Close() error {
	s.wire.mu.Lock()
	delete(s.wire.bodies, s)
	s.wire.mu.Unlock()
	return s.ReadCloser.Close()
}

// answer is what a server says that does not execute a request.
func answer(req *http.Request, code int, reason string, retryAfter int) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"a mishap of this history","reason":%q,"code":%d}`, reason, code)
	resp := &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
	if retryAfter > 0 {
		resp.Header.Set("Retry-After", fmt.Sprint(retryAfter))
	}
	return resp
}
