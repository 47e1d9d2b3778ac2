package untrusted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds are the bounds of one JSON document. A zero field means no bound.
type Bounds struct {
	// Bytes is the length of the document, spaces included.
	Bytes int64
	// Elements is the number of its values, including nested ones: members of objects, elements of arrays.
	Elements int
	// Depth is how deeply objects and arrays are nested.
	Depth int
	// Items is the number of objects at nesting level two, such as the items of a list. Even an empty typed item takes
	// a thousand bytes of memory.
	Items int
	// Stream allows any number of consecutive documents, and the bounds are those of each.
	Stream bool
}

// ErrExceeded is wrapped by each *ExceededError.
var ErrExceeded = errors.New("the answer is larger than the hub accepts")

// ExceededError says which bound a document exceeds.
type ExceededError struct {
	What string // bytes, elements, items or levels of nesting
	Most int64
}

// Error implements error.
func (e *ExceededError) Error() string {
	return fmt.Sprintf("%v: more than %d %s", ErrExceeded, e.Most, e.What)
}

// Unwrap returns ErrExceeded.
func (e *ExceededError) Unwrap() error { return ErrExceeded }

// Check returns an *ExceededError if a document exceeds bounds. It does not validate the document.
func Check(document []byte, b Bounds) error {
	c := counter{bounds: b}
	return c.count(document)
}

// Count returns the elements and the depth of a document, as in Bounds. It does not validate the document.
func Count(document []byte) (elements, depth int) {
	var c counter
	_ = c.count(document) // there are no bounds
	return c.elements, c.deepest
}

// Reader counts what is read of one document, and fails with an *ExceededError if a bound is exceeded.
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

// Counted returns how many bytes and elements were read so far; of a stream, those of the document that has begun.
func (r *Reader) Counted() (bytes int64, elements int) { return r.counter.bytes, r.counter.elements }

// counter counts elements and nesting of a text that it is given in pieces.
type counter struct {
	bounds                          Bounds
	bytes                           int64
	elements, depth, deepest, items int
	inText, escaped                 bool
}

// itemDepth is how deeply the items of a list are nested.
const itemDepth = 2

func (c *counter) count(piece []byte) error {
	c.bytes += int64(len(piece))
	if !c.bounds.Stream && c.bounds.Bytes > 0 && c.bytes > c.bounds.Bytes {
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
			if piece[0] == '{' && c.depth == itemDepth {
				c.items++
			}
			c.elements++
			c.depth++
			c.deepest = max(c.deepest, c.depth)
		case ',':
			c.elements++
		case '}', ']':
			c.depth--
			if c.bounds.Stream && c.depth <= 0 {
				c.bytes -= int64(len(piece) - 1)
				if err := c.exceeded(); err != nil {
					return err
				}
				*c = counter{bounds: c.bounds, bytes: int64(len(piece) - 1)}
			}
		}
		piece = piece[1:]
	}
	return c.exceeded()
}

// exceeded returns which bound the document exceeds.
func (c *counter) exceeded() error {
	switch {
	case c.bounds.Bytes > 0 && c.bytes > c.bounds.Bytes:
		return &ExceededError{What: "bytes", Most: c.bounds.Bytes}
	case c.bounds.Items > 0 && c.items > c.bounds.Items:
		return &ExceededError{What: "items", Most: int64(c.bounds.Items)}
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
