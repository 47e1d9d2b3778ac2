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

// ErrNotLeading is the error of a fenced request that was not sent.
var ErrNotLeading = errors.New("this replica does not provably lead, so it writes nothing")

// Fence lets writes through while this process provably holds the Lease. It is closed until a term begins. It is safe
// for concurrent use.
type Fence struct {
	clock    clock.PassiveClock
	validity time.Duration // of a renewal; zero means forever, for hubs without a Lease
	patience time.Duration // for writes whose caller has canceled them; zero without a Lease
	renewed  atomic.Pointer[time.Time]
	inTerm   atomic.Bool
	givenUp  atomic.Bool // a write of this term was aborted
	refused  atomic.Int64
	sockets  sockets
}

// Leading reports whether a term is under way, fenced or not.
func (f *Fence) Leading() bool { return f.inTerm.Load() }

// Refused returns how many requests were not sent so far.
func (f *Fence) Refused() int64 { return f.refused.Load() }

// extend records a renewal that was sent at a time.
func (f *Fence) extend(sent time.Time) { f.renewed.Store(&sent) }

// revoke closes the fence until the next renewal: the Lease is released, deleted or held by another replica.
func (f *Fence) revoke() { f.renewed.Store(nil) }

// open begins a term.
func (f *Fence) open() {
	f.givenUp.Store(false)
	f.inTerm.Store(true)
}

// close ends a term. If the Lease was lost or a write was aborted, data of the term may be in the buffers of sockets,
// so these are closed.
func (f *Fence) close() {
	if f.lapsed() || f.givenUp.Load() {
		// Before the end of the term, because sockets do not check writes after it.
		f.sockets.retire()
	}
	f.inTerm.Store(false)
}

// lapsed reports whether the last renewal has expired or was revoked.
func (f *Fence) lapsed() bool {
	if f.validity == 0 {
		return false
	}
	renewed := f.renewed.Load()
	if renewed == nil {
		return true
	}
	now := f.clock.Now()
	// Sub uses the monotonic clock if possible, which may stop while a machine sleeps.
	return max(now.Sub(*renewed), now.Round(0).Sub(renewed.Round(0))) >= f.validity
}

// Wrap fences the writes of a transport.
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

// admit returns why a write must not be sent, nil if it may.
func (f *Fence) admit(ctx context.Context) error {
	if !f.Leading() || f.lapsed() {
		f.refused.Add(1)
		return ErrNotLeading
	}
	return ctx.Err()
}

// finishing returns the context of a write. It does not end immediately when the caller cancels, as at the end of a
// term: the write is waited for, because otherwise it would not be known whether and when the server executes it. A
// timeout ends it immediately, be it its own or the one that makes the term fail. Either way, data that was sent may
// still be in flight.
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

// body is the body of a response to a write.
type body struct {
	io.ReadCloser
	closed func()
}

func (b body) Close() error {
	defer b.closed()
	return b.ReadCloser.Close()
}

// WrappedRoundTripper lets client-go find the underlying transport.
func (t fenced) WrappedRoundTripper() http.RoundTripper { return t.next }

// isWrite reports whether a request changes something. Reviews are created, but are not stored.
func isWrite(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	case http.MethodPost:
		return !review.MatchString(request.URL.Path)
	}
	return true
}

// review matches the path of reviews, below that of the server.
var review = regexp.MustCompile(`/apis/(authentication|authorization)\.k8s\.io/v1/(namespaces/[^/]+/)?[a-z]+reviews$`)
