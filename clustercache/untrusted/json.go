package untrusted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds are those of one JSON document. Zero fields do not bound anything.
type Bounds struct {
	// Bytes is the length of the document, spaces included.
	Bytes int64
	// Elements is how many values it has, those within others included: members of objects, elements of arrays.
	Elements int
	// Depth is how deeply objects and arrays are nested.
	Depth int
}

// ErrExceeded is wrapped by each *ExceededError.
var ErrExceeded = errors.New("the answer is larger than the hub accepts")

// ExceededError says which bound a document exceeds.
type ExceededError struct {
	What string // bytes, elements or levels of nesting
	Most int64
}

// Error implements error.
func (e *ExceededError) Error() string {
	return fmt.Sprintf("%v: more than %d %s", ErrExceeded, e.Most, e.What)
}

// Unwrap returns ErrExceeded.
func (e *ExceededError) Unwrap() error { return ErrExceeded }

// Check tells whether a document is within bounds; an *ExceededError if not. It does not tell whether it is valid.
func Check(document []byte, b Bounds) error {
	c := counter{bounds: b}
	return c.count(document)
}

// Reader counts what is read of one document, and fails with an *ExceededError in the place of what is too much.
type Reader struct {
	reader  io.Reader
	counter counter
	err     error
}

// NewReader returns a reader of one document.
func NewReader(r io.Reader, b Bounds) *Reader { return &Reader{reader: r, counter: counter{bounds: b}} }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.reader.Read(p)
	if exceeded := r.counter.count(p[:n]); exceeded != nil {
		r.err = exceeded
		return 0, exceeded
	}
	return n, err //nolint:wrapcheck // a reader is transparent
}

// counter counts elements and nesting of a text that comes piece by piece.
type counter struct {
	bounds                   Bounds
	bytes                    int64
	elements, depth, deepest int
	inText, escaped          bool
}

func (c *counter) count(piece []byte) error {
	c.bytes += int64(len(piece))
	if c.bounds.Bytes > 0 && c.bytes > c.bounds.Bytes {
		return &ExceededError{What: "bytes", Most: c.bounds.Bytes}
	}
	for len(piece) > 0 {
		if c.inText {
			piece = c.skipText(piece)
			continue
		}
		switch piece[0] {
		case '"':
			c.inText = true
		case '{', '[':
			c.elements++
			c.depth++
			c.deepest = max(c.deepest, c.depth)
		case ',':
			c.elements++
		case '}', ']':
			c.depth--
		}
		piece = piece[1:]
	}
	switch {
	case c.bounds.Elements > 0 && c.elements > c.bounds.Elements:
		return &ExceededError{What: "elements", Most: int64(c.bounds.Elements)}
	case c.bounds.Depth > 0 && c.deepest > c.bounds.Depth:
		return &ExceededError{What: "levels of nesting", Most: int64(c.bounds.Depth)}
	}
	return nil
}

// skipText returns what comes after the next quote or escape of a string.
func (c *counter) skipText(piece []byte) []byte {
	if c.escaped {
		c.escaped = false
		return piece[1:]
	}
	i := bytes.IndexByte(piece, '"')
	if i < 0 {
		i = len(piece)
	}
	if escape := bytes.IndexByte(piece[:i], '\\'); escape >= 0 {
		c.escaped = true
		return piece[escape+1:]
	}
	if i == len(piece) {
		return nil
	}
	c.inText = false
	return piece[i+1:]
}
