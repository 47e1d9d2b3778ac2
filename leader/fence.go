package leader

import (
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// ErrNotLeading is why a fenced request was not sent.
var ErrNotLeading = errors.New("this replica does not provably lead, so it writes nothing")

// Fence lets writes through while this process provably holds the Lease. It is closed until a term begins. All methods may be
// called from any goroutine.
type Fence struct {
	clock    clock.PassiveClock
	validity time.Duration // of a renewal; zero: without an end
	renewed  atomic.Pointer[time.Time]
	inTerm   atomic.Bool
	refused  atomic.Int64
}

// newFence returns a fence that trusts a renewal for as long as validity says; zero means for ever, which is for hubs without
// a Lease.
func newFence(validity time.Duration, clock clock.PassiveClock) *Fence {
	return &Fence{clock: clock, validity: validity}
}

// Leading tells whether a term is under way, fenced or not.
func (f *Fence) Leading() bool { return f.inTerm.Load() }

// Refused is how many requests were not sent so far.
func (f *Fence) Refused() int64 { return f.refused.Load() }

// extend notes a renewal that was sent at a time.
func (f *Fence) extend(sent time.Time) { f.renewed.Store(&sent) }

// lapsed tells whether the last renewal counts no more.
func (f *Fence) lapsed() bool {
	if f.validity == 0 {
		return false
	}
	renewed := f.renewed.Load()
	if renewed == nil {
		return true
	}
	now := f.clock.Now()
	// Sub uses the clock that counts only forward if it can, which stands still while a machine sleeps.
	return max(now.Sub(*renewed), now.Round(0).Sub(renewed.Round(0))) >= f.validity
}

// Wrap fences the requests of a transport that would change something.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper { return fenced{next: next, fence: f} }

type fenced struct {
	next  http.RoundTripper
	fence *Fence
}

func (t fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if isWrite(request) && (!t.fence.Leading() || t.fence.lapsed()) {
		t.fence.refused.Add(1)
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, ErrNotLeading
	}
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the transport under this one.
func (t fenced) WrappedRoundTripper() http.RoundTripper { return t.next }

// isWrite tells whether a request would change something. Reviews are asked for by creating them, and are kept nowhere.
func isWrite(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	case http.MethodPost:
		return !review.MatchString(request.URL.Path)
	}
	return true
}

// review is the path of those, below that of the server.
var review = regexp.MustCompile(`/apis/(authentication|authorization)\.k8s\.io/v1/(namespaces/[^/]+/)?[a-z]+reviews$`)

// Dial opens sockets on which nothing is sent once the Lease ran out in the middle of a term. Until the term is over that holds
// for all that goes over them, because a socket cannot tell a write from a read.
func (f *Fence) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return fencedConn{Conn: conn, fence: f}, nil
}

type fencedConn struct {
	net.Conn
	fence *Fence
}

func (c fencedConn) Write(p []byte) (int, error) {
	if c.fence.Leading() && c.fence.lapsed() {
		return 0, ErrNotLeading
	}
	return c.Conn.Write(p)
}
