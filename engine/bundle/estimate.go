package bundle

import (
	"bytes"
	"context"
	"io"
)

// Upper bounds of the memory for one element of a document: while it is parsed, and afterwards, in addition to its
// text. Maps with one entry take the most.
const (
	elementCost = 256
	objectCost  = 192
	// emptyElements is the fixed cost of a value, in elements.
	emptyElements = 8
)

// estimate is what is known of a bundle before it is decoded.
type estimate struct {
	// bytes is an upper bound of the memory for decoding it, without the data of the Secrets.
	bytes int64
	// lengths are the lengths of the compressed texts, decompressed.
	lengths map[place]int64
}

// estimateOf reads the text of a bundle without keeping any of it. A text that cannot be read counts up to the error,
// as it does when it is decoded. The caller holds a slot, since a Brotli window may take 16 MiB.
func estimateOf(ctx context.Context, sources []Source, limits Limits) (estimate, error) {
	f := estimate{lengths: map[place]int64{}}
	d, _ := decompressors.Get().(*decompressor)
	defer d.release()
	var text, largest, count int64
	expands := false
	for i, source := range sources {
		for _, key := range source.keys() {
			if err := context.Cause(ctx); err != nil {
				return f, err
			}
			value := source.Data[key]
			counted := counter{}
			if isCompressed(key) {
				_ = d.decompress(value, limits.Bytes-text, counted.readFrom)
				f.lengths[place{source: i, key: key}] = counted.bytes
				largest = max(largest, counted.bytes)
			} else {
				counted.add(value)
			}
			count += counted.elements + emptyElements
			expands = expands || counted.anchor && counted.alias
			if text += counted.bytes; text > limits.Bytes {
				text = limits.Bytes
			}
		}
	}
	parsing := min(count, int64(limits.Elements)) * elementCost
	objects := min(2*text+count*objectCost, limits.Memory)
	if expands { // to an unknown size
		parsing, objects = int64(limits.Elements)*elementCost, limits.Memory
	}
	f.bytes = largest + parsing + objects
	return f, nil
}

// counter counts bytes and elements of a text that it reads in chunks, and searches for possible anchors and aliases.
type counter struct {
	bytes, elements int64
	anchor, alias   bool
	last            byte // of the previous chunk
	buffer          [8 << 10]byte
}

func (c *counter) add(text []byte) {
	c.bytes += int64(len(text))
	c.elements += int64(elements(text))
	c.anchor = c.anchor || c.marks(text, '&')
	c.alias = c.alias || c.marks(text, '*')
	if len(text) > 0 {
		c.last = text[len(text)-1]
	}
}

// marks reports whether a mark stands before a name, at a place where YAML has anchors and aliases.
func (c *counter) marks(text []byte, mark byte) bool {
	for from := 0; ; {
		next := bytes.IndexByte(text[from:], mark)
		if next < 0 {
			return false
		}
		at := from + next
		before := c.last
		if at > 0 {
			before = text[at-1]
		}
		named := at+1 == len(text) || text[at+1] >= '0' || text[at+1] == '-' // the name may be in the next chunk
		if named && (before <= ' ' || bytes.IndexByte([]byte(",[{:-"), before) >= 0) {
			return true
		}
		from = at + 1
	}
}

func (c *counter) readFrom(from io.Reader) (int64, error) {
	for {
		n, err := from.Read(c.buffer[:])
		c.add(c.buffer[:n])
		if err == io.EOF {
			return c.bytes, nil
		}
		if err != nil {
			return c.bytes, err
		}
	}
}
