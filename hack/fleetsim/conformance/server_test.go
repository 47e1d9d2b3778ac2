package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// answerTimeout bounds a request, and the wait for an event or for the end of a watch.
	answerTimeout = 20 * time.Second
	// repeatInterval is between two tries of a patient step.
	repeatInterval = 100 * time.Millisecond
)

// server is one of the two that are compared.
type server struct {
	name   string
	url    string
	client *http.Client
	// compact has the server forget what it remembers of the past.
	compact func(context.Context) error
}

// answer is what a server made of a step.
type answer struct {
	code   int
	header http.Header
	// body is the decoded JSON, or the text if it is something else. Events of a watch are a list.
	body any
	// problem is set if there was no answer.
	problem error
}

// player runs one row on one server.
type player struct {
	*server
	memory  *memory
	watches map[string]*stream
}

func newPlayer(s *server, namespace string) *player {
	return &player{server: s, memory: &memory{namespace: namespace, saved: map[string]any{}}, watches: map[string]*stream{}}
}

// stop ends the watches that are still open.
func (p *player) stop() {
	for _, w := range p.watches {
		w.close()
	}
}

// play runs one step.
func (p *player) play(ctx context.Context, s *step, code int) answer {
	switch {
	case s.tick:
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
		return answer{code: http.StatusOK}
	case s.compacts:
		return answer{code: http.StatusOK, problem: p.compact(ctx)}
	case s.reads != "":
		w := p.watches[s.reads]
		if w == nil {
			return answer{problem: fmt.Errorf("no watch %q was opened", s.reads)}
		}
		list, err := w.read(ctx, s.events)
		p.memory.remember(s.name, list)
		return answer{code: http.StatusOK, body: list, problem: err}
	}
	deadline := time.Now().Add(answerTimeout)
	for {
		a := p.send(ctx, s)
		if !s.patient || a.code == code || a.problem != nil || time.Now().After(deadline) {
			return a
		}
		time.Sleep(repeatInterval)
	}
}

func (p *player) send(ctx context.Context, s *step) answer {
	request, err := p.request(s)
	if err != nil {
		return answer{problem: err}
	}
	ctx, cancel := context.WithCancel(ctx)
	silence := time.AfterFunc(answerTimeout, cancel)
	response, err := p.client.Do(request.WithContext(ctx))
	if err != nil {
		cancel()
		return answer{problem: err}
	}
	if s.opens != "" && response.StatusCode == http.StatusOK {
		silence.Stop()
		p.watches[s.opens] = newStream(response.Body, cancel)
		return answer{code: response.StatusCode, header: response.Header}
	}
	defer cancel()
	defer silence.Stop()
	content, err := io.ReadAll(response.Body)
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	a := answer{code: response.StatusCode, header: response.Header, body: decode(content), problem: err}
	p.memory.remember(s.name, a.body)
	if s.tag != "" {
		p.memory.saved[s.tag] = a.header.Get("ETag")
	}
	return a
}

func (p *player) request(s *step) (*http.Request, error) {
	path, err := p.memory.fill(expand(s.path))
	if err != nil {
		return nil, err
	}
	body, err := p.memory.fill(s.body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(s.method, p.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.URL.RawQuery = request.URL.Query().Encode() // steps are written without escapes
	request.Header = s.header.Clone()
	for _, values := range request.Header {
		for i := range values {
			if values[i], err = p.memory.fill(values[i]); err != nil {
				return nil, err
			}
		}
	}
	return request, nil
}

func decode(content []byte) any {
	var doc any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		return string(content)
	}
	if rest, _ := io.ReadAll(decoder.Buffered()); len(bytes.TrimSpace(rest)) > 0 {
		return string(content)
	}
	return doc
}

// stream reads the events of a watch.
type stream struct {
	events chan any // closed when the watch ended
	done   chan struct{}
	cancel context.CancelFunc
}

// maxEvents is more than any row makes.
const maxEvents = 1000

func newStream(body io.ReadCloser, cancel context.CancelFunc) *stream {
	w := &stream{events: make(chan any, maxEvents), done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(w.done)
		defer close(w.events)
		defer func() { _ = body.Close() }()
		decoder := json.NewDecoder(body)
		decoder.UseNumber()
		for range maxEvents {
			var event any
			if decoder.Decode(&event) != nil {
				return
			}
			w.events <- event
		}
	}()
	return w
}

func (w *stream) close() {
	w.cancel()
	<-w.done
}

// read returns the next n events, all to the end if n is negative.
func (w *stream) read(ctx context.Context, n int) ([]any, error) {
	list := []any{}
	patience := time.NewTimer(answerTimeout)
	defer patience.Stop()
	for n < 0 || len(list) < n {
		select {
		case event, more := <-w.events:
			if !more {
				if n >= 0 {
					return list, fmt.Errorf("the watch ended after %d of %d events", len(list), n)
				}
				return list, nil
			}
			list = append(list, event)
		case <-patience.C:
			return list, fmt.Errorf("%d events came within %s, waiting for %d", len(list), answerTimeout, n)
		case <-ctx.Done():
			return list, ctx.Err()
		}
	}
	return list, nil
}
