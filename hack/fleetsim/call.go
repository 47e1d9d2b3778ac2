package fleetsim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Call is a request that comes to a target from inside: past the network, faults and authentication.
type Call struct {
	// Method and Path, with its query, are those of HTTP.
	Method, Path string
	// ContentType of the body. Empty if there is none.
	ContentType string
	Body        []byte
	// UserAgent is who the journal takes for the caller. Empty: "fleetsim".
	UserAgent string
}

// CallError is the answer to a Call that failed.
type CallError struct {
	// Code is the HTTP status.
	Code    int
	message string
}

func (e *CallError) Error() string { return e.message }

// Call sends a request to the server as its administrator and returns the body of the answer.
func (t *Target) Call(ctx context.Context, c Call) ([]byte, error) {
	r, err := http.NewRequestWithContext(inside(ctx), c.Method, c.Path, bytes.NewReader(c.Body))
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", t.name, err)
	}
	r.Header.Set("User-Agent", cmp.Or(c.UserAgent, "fleetsim"))
	r.Header.Set("Accept", "application/json")
	if c.ContentType != "" {
		r.Header.Set("Content-Type", c.ContentType)
	}
	w := &recorder{header: http.Header{}, code: http.StatusOK}
	t.Server().ServeHTTP(w, r)
	if w.code < 300 {
		return w.body.Bytes(), nil
	}
	var status metav1.Status
	if json.Unmarshal(w.body.Bytes(), &status) == nil && status.Message != "" {
		return nil, &CallError{Code: w.code, message: status.Message}
	}
	return nil, &CallError{Code: w.code, message: "it answers " + http.StatusText(w.code)}
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }
