package fault

import (
	"bytes"
	"net/http"
	"time"
)

// answer is the way of an answer to its client, on which it may be struck at any time. Only one goroutine may use it, as
// with any http.ResponseWriter.
type answer struct {
	http.ResponseWriter
	faults   *Switch
	incoming *http.Request
	number   uint64
	read     *request // what faults match on, read from the request when the first of them is met

	code int
	sent int64 // bytes of the body
	// mine are the faults in state that strike this answer.
	state *state
	mine  []*active
	late  *line // of events of a slow watch; nil until the first
}

func (a *answer) request() *request {
	if a.read == nil {
		read := newRequest(a.incoming, a.number)
		a.read = &read
	}
	return a.read
}

func (a *answer) struckBy(f *active) bool {
	return f.Match.matches(a.request()) && a.faults.hits(f, a.number)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() } // there is no caller to return it to

// FlushError is what http.ResponseController calls.
func (a *answer) FlushError() error {
	if a.late != nil {
		return nil // each event is flushed when its time comes
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	if state := a.faults.state.Load(); state != a.state {
		a.state, a.mine = state, a.mine[:0]
		for _, f := range state.faults {
			if a.strikesBody(f.Kind) && a.struckBy(f) {
				a.mine = append(a.mine, f)
			}
		}
	}
	var slow, drip *active
	for _, f := range a.mine {
		switch f.Kind {
		case SilentWatch:
			f.struck.Add(1)
			return len(p), nil
		case Reset:
			if a.sent+int64(len(p)) >= f.After {
				f.struck.Add(1)
				a.cut(p[:max(0, f.After-a.sent)])
			}
		case SlowWatch:
			slow = f
		case Drip:
			drip = f
		}
	}
	var n int
	var err error
	switch {
	case slow != nil || a.late != nil:
		n, err = a.delay(p, slow)
	case drip != nil:
		n, err = a.drip(p, drip)
	default:
		n, err = a.ResponseWriter.Write(p)
	}
	a.sent += int64(n)
	return n, err
}

// strikesBody reports whether faults of a kind strike the body of this answer.
func (a *answer) strikesBody(kind Kind) bool {
	switch kind {
	case Reset, Drip:
		return true
	case SilentWatch, SlowWatch:
		return a.request().verb == "watch" && a.code == http.StatusOK
	default:
		return false
	}
}

// cut sends the last bytes and ends the connection.
func (a *answer) cut(last []byte) {
	if _, err := a.ResponseWriter.Write(last); err == nil {
		_ = http.NewResponseController(a.ResponseWriter).Flush() // the connection ends anyway
	}
	reset(a.incoming.Context())
}

// pieceTimeout is how long the client of a drip may take to make room for a piece.
const pieceTimeout = 30 * time.Second

// drip sends p in pieces, ten a second at most. The server's deadline for p counts for each piece, or a drip would end what it
// is to slow down.
func (a *answer) drip(p []byte, f *active) (int, error) {
	f.struck.Add(1)
	control := http.NewResponseController(a.ResponseWriter)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // all of it is flushed
	piece := int(min(max(1, f.Rate/10), int64(len(p))))
	for sent := 0; sent < len(p); {
		_ = control.SetWriteDeadline(time.Now().Add(pieceTimeout)) // not every connection can
		n, err := a.ResponseWriter.Write(p[sent:min(len(p), sent+piece)])
		sent += n
		if err == nil {
			err = control.Flush()
		}
		if err == nil {
			err = a.faults.pause(a.incoming.Context(), f, time.Duration(n)*time.Second/time.Duration(f.Rate))
		}
		if err != nil {
			return sent, err
		}
	}
	return len(p), nil
}

// lineLength is how many events of a slow watch may be on their way. When there are more, the server has to wait.
const lineLength = 1000

// line delivers the events of a slow watch, each at its time.
type line struct {
	events chan event
	ended  chan struct{} // closed when all of them are delivered
}

type event struct {
	content []byte
	due     time.Time
	fault   *active // nil: it was cleared before the event came
}

// delay puts an event into the line. Once there is one, all later events follow in it, so that their order stays.
func (a *answer) delay(p []byte, f *active) (int, error) {
	if a.late == nil {
		a.late = &line{events: make(chan event, lineLength), ended: make(chan struct{})}
		go a.deliver()
	}
	e := event{content: bytes.Clone(p), due: time.Now(), fault: f}
	if f != nil {
		e.due = e.due.Add(a.faults.delay(f, f.struck.Add(1)))
	}
	select {
	case a.late.events <- e:
		return len(p), nil
	case <-a.incoming.Context().Done():
		return 0, a.incoming.Context().Err()
	}
}

// deliver empties the line until finish closes it. After the client has left, it throws away what is left.
func (a *answer) deliver() {
	defer close(a.late.ended)
	var err error
	for e := range a.late.events {
		if err == nil && e.fault != nil {
			err = a.faults.pause(a.incoming.Context(), e.fault, max(0, time.Until(e.due)))
		}
		if err == nil {
			_, err = a.ResponseWriter.Write(e.content)
		}
		if err == nil {
			err = http.NewResponseController(a.ResponseWriter).Flush()
		}
	}
}

// finish waits for what is still on its way.
func (a *answer) finish() {
	if a.late != nil {
		close(a.late.events)
		<-a.late.ended
	}
}
