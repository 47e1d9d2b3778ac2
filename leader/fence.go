package leader

import (
	"context"
	"errors"
	"io"
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
	validity time.Duration // of a renewal; zero: without an end, which is for hubs without a Lease
	patience time.Duration // with writes that nobody waits for any more; zero without a Lease, which nobody waits for either
	renewed  atomic.Pointer[time.Time]
	inTerm   atomic.Bool
	givenUp  atomic.Bool // a write of this term, by its caller or its timeout
	refused  atomic.Int64
	sockets  sockets
}

// Leading reports whether a term is under way, fenced or not.
func (f *Fence) Leading() bool { return f.inTerm.Load() }

// Refused is how many requests were not sent so far.
func (f *Fence) Refused() int64 { return f.refused.Load() }

// extend notes a renewal that was sent at a time.
func (f *Fence) extend(sent time.Time) { f.renewed.Store(&sent) }

// revoke closes the fence until the next renewal: the Lease is given back, gone or somebody else's.
func (f *Fence) revoke() { f.renewed.Store(nil) }

// open begins a term.
func (f *Fence) open() {
	f.givenUp.Store(false)
	f.inTerm.Store(true)
}

// close ends a term. Without the Lease, or if a write was given up, something of the term may be in the buffers of sockets; these
// are of no use from then on.
func (f *Fence) close() {
	if f.lapsed() || f.givenUp.Load() {
		// Before the end of the term, because sockets let everything through after it.
		f.sockets.retire()
	}
	f.inTerm.Store(false)
}

// lapsed reports whether the last renewal counts no more.
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
	if !isWrite(request) {
		return t.next.RoundTrip(request)
	}
	if err := t.fence.admit(request.Context()); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := t.fence.finishing(request.Context())
	answer, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	answer.Body = body{ReadCloser: answer.Body, closed: cancel}
	return answer, nil
}

// admit tells why a write must not be sent, nil if it may.
func (f *Fence) admit(ctx context.Context) error {
	if !f.Leading() || f.lapsed() {
		f.refused.Add(1)
		return ErrNotLeading
	}
	return ctx.Err()
}

// finishing returns the context of a write. That its caller gives up, as at the end of a term, does not end it at once: what
// is under way is waited for, because nobody would know whether and when the server does it. A timeout does, be it its own or
// the one for which the term fails. Either way, what was sent of it may be on its way still.
func (f *Fence) finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	finishing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unbind := context.AfterFunc(ctx, func() {
		defer cancel()
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			select {
			case <-time.After(f.patience):
			case <-finishing.Done():
				return
			}
		}
		f.givenUp.Store(true)
	})
	return finishing, func() {
		unbind()
		cancel()
	}
}

// body is that of an answer to a write.
type body struct {
	io.ReadCloser
	closed func()
}

func (b body) Close() error {
	defer b.closed()
	return b.ReadCloser.Close()
}

// WrappedRoundTripper lets client-go find the transport under this one.
func (t fenced) WrappedRoundTripper() http.RoundTripper { return t.next }

// isWrite reports whether a request would change something. Reviews are asked for by creating them, and are kept
// nowhere.
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
