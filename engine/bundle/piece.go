package bundle

import (
	"crypto/sha256"
	"iter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-hub/trellis/engine/manifest"
)

// piece is the documents of a chunk that was read without a fault. It never changes, except for uses.
type piece struct {
	digest    [sha256.Size]byte // of the text
	documents []document
	// size is about how many bytes of memory it takes, with the texts of the objects.
	size int64
	// uses counts the contents in the Cache that have it. The mutex of the Cache guards it.
	uses int
}

// document is one document, or an item of a list. Its object is nil if the document is empty.
type document struct {
	object     *unstructured.Unstructured
	text       *manifest.Text
	modeIgnore bool
	// item is its number in a list, 0 for a document of its own.
	item int
	// memory is about how many bytes the object takes, length how many as JSON.
	memory, length int64
}

// chunk reads the documents of a chunk, unless they are known. It returns false if a limit on the whole bundle is
// reached or ctx has ended.
func (d *decoder) chunk(at *place, c chunk) bool {
	var digest [sha256.Size]byte
	if d.known != nil {
		digest = sha256.Sum256(c.text)
		if found := d.known(digest); found != nil {
			return d.reuse(at, found)
		}
	}
	p, whole := &piece{digest: digest}, true
	for read, err := range d.parts(c) {
		if !d.next(at, read.item) {
			return false
		}
		doc := document{item: read.item}
		if err == nil && read.value != nil {
			doc, err = d.document(read)
		}
		if err != nil {
			whole = false
			if !d.fault(*at, err) {
				return false
			}
			continue
		}
		p.documents = append(p.documents, doc)
		p.size += doc.memory + doc.length
		d.take(*at, doc)
	}
	if whole {
		d.pieces = append(d.pieces, p)
	}
	return true
}

// parts returns the documents of a chunk, with lists expanded.
func (d *decoder) parts(c chunk) iter.Seq2[part, error] {
	return func(yield func(part, error) bool) {
		for value, err := range parse(c, d.limits) {
			if err != nil {
				if !yield(part{}, err) {
					return
				}
				continue
			}
			for read, err := range parts(value, d.limits.Depth) {
				if !yield(read, err) {
					return
				}
			}
		}
	}
}

// reuse takes documents that another bundle has as well. They count as if they had been read.
func (d *decoder) reuse(at *place, p *piece) bool {
	for _, doc := range p.documents {
		if !d.next(at, doc.item) {
			return false
		}
		if d.memoryLeft < doc.memory+doc.length {
			return d.fault(*at, ErrTooManyBytes)
		}
		d.memoryLeft -= doc.memory + doc.length
		d.take(*at, doc)
	}
	d.pieces = append(d.pieces, p)
	return true
}

// next goes to the next document, or to an item of a list. It returns false if there are too many, or ctx has ended.
func (d *decoder) next(at *place, item int) bool {
	if d.ctx.Err() != nil {
		return false
	}
	if item <= 1 {
		at.index++
	}
	at.item = item
	if d.documents++; d.documents > d.limits.Documents {
		return d.fault(*at, errTooManyDocuments)
	}
	return true
}

// take adds a document to the objects.
func (d *decoder) take(at place, doc document) {
	if doc.object != nil {
		d.objects = append(d.objects, item{at, doc})
	}
}
