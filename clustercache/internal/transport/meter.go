package transport

import (
	"mime"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Verb is what a request does, as far as it is counted.
type Verb int

// The verbs.
const (
	VerbGet Verb = iota // lists included
	VerbWatch
	VerbPost
	VerbPut
	VerbPatch
	VerbApply
	VerbDelete
	verbOther
	verbs
)

var verbNames = [verbs]string{"GET", "WATCH", "POST", "PUT", "PATCH", "APPLY", "DELETE", "other"}

// String returns the verb as metrics call it.
func (v Verb) String() string { return verbNames[v] }

// Verbs are all there are.
func Verbs() []Verb {
	all := make([]Verb, verbs)
	for i := range all {
		all[i] = Verb(i)
	}
	return all
}

func verbOf(request *http.Request, watch bool) Verb {
	switch request.Method {
	case http.MethodGet, "":
		if watch {
			return VerbWatch
		}
		return VerbGet
	case http.MethodPost:
		return VerbPost
	case http.MethodPut:
		return VerbPut
	case http.MethodDelete:
		return VerbDelete
	case http.MethodPatch:
		if isApply(request.Header.Get("Content-Type")) {
			return VerbApply
		}
		return VerbPatch
	}
	return verbOther
}

// The types of a patch that is a server-side apply.
const applyYAML, applyCBOR = "application/apply-patch+yaml", "application/apply-patch+cbor"

func isApply(contentType string) bool {
	if contentType == applyYAML {
		return true // without a look at parameters, which are not in use
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == applyYAML || media == applyCBOR)
}

// NoAnswer is the code of requests that got none.
const NoAnswer = 0

// codes is how many codes are counted separately: NoAnswer and all that HTTP allows.
const codes = 600

// Total counts what goes over the connections to all targets. The zero value is ready to use; counting takes no lock.
type Total struct {
	// Answered, if set, is called with the time from the sending of a request, watches excepted, to the begin of its
	// answer.
	Answered func(verb Verb, took time.Duration)

	requests       [verbs][codes]atomic.Uint64
	received, sent atomic.Uint64
}

// Each calls f for each verb and code that there were requests of. Codes without a meaning count together, as -1.
func (t *Total) Each(f func(verb Verb, code int, requests uint64)) {
	for v := range t.requests {
		unknown := uint64(0)
		for code := range t.requests[v] {
			n := t.requests[v][code].Load()
			switch {
			case n == 0:
			case code == NoAnswer || http.StatusText(code) != "":
				f(Verb(v), code, n)
			default:
				unknown += n
			}
		}
		if unknown > 0 {
			f(Verb(v), -1, unknown)
		}
	}
}

// Bytes returns what was received and sent, encrypted as it is.
func (t *Total) Bytes() (received, sent uint64) { return t.received.Load(), t.sent.Load() }

// Meter counts the requests of callers to one target. What keeps the connection itself going is not counted, but its
// bytes are.
type Meter struct {
	total     *Total
	succeeded atomic.Uint64
	failed    atomic.Uint64
	throttled atomic.Int64 // nanoseconds
}

// NewMeter returns a meter that counts into a total as well.
func NewMeter(total *Total) *Meter { return &Meter{total: total} }

// Requests returns how many requests got an answer, Not Found and Conflict among them, and how many an error or
// nothing.
func (m *Meter) Requests() (succeeded, failed uint64) { return m.succeeded.Load(), m.failed.Load() }

// Throttled returns how long requests have waited for the target's limits, added up.
func (m *Meter) Throttled() time.Duration { return time.Duration(m.throttled.Load()) }

func (m *Meter) answered(verb Verb, code int, took time.Duration) {
	if code < 0 || code >= codes {
		code = codes - 1 // of no meaning
	}
	m.total.requests[verb][code].Add(1)
	if isFailure(code) {
		m.failed.Add(1)
	} else {
		m.succeeded.Add(1)
	}
	if m.total.Answered != nil && code != NoAnswer && verb != VerbWatch {
		m.total.Answered(verb, took)
	}
}

// isFailure reports whether a status code means that something is wrong with the target, its limits or the credential.
// Not found and conflict are regular answers.
func isFailure(code int) bool {
	switch code {
	case NoAnswer:
		return true
	case http.StatusNotFound, http.StatusConflict:
		return false
	}
	return code >= http.StatusBadRequest
}

// meteredConn counts the bytes of a socket.
type meteredConn struct {
	net.Conn
	total *Total
}

func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.total.received.Add(uint64(max(n, 0))) //nolint:gosec // not negative
	return n, err
}

func (c meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.total.sent.Add(uint64(max(n, 0))) //nolint:gosec // not negative
	return n, err
}
