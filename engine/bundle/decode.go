package bundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-hub/trellis/engine/manifest"
)

// maxFaults is how many faults are collected before the rest of the bundle is given up. A document that is refused
// costs no memory, but time; this bounds it, and the length of what is reported.
const maxFaults = 100

// Decode reads everything the Secrets hold, in the given order. It always returns a bundle; what could not
// be read is among its Faults. Without sources the bundle is empty and complete: it means "manage nothing".
func Decode(sources []Source, limits Limits) *Bundle {
	decoded, _ := decode(context.Background(), hashOf(sources), sources, limits, nil, nil) // it fails only if ctx ends
	return decoded.bundle(sources)
}

// decode is Decode without the names of the Secrets. known, if not nil, returns what was read from an equal text
// before. lengths has the lengths of compressed texts. ctx is checked between documents; if it has ended, decode
// returns its error.
func decode(ctx context.Context, hash Hash, sources []Source, limits Limits,
	known func(digest [sha256.Size]byte) *piece, lengths map[place]int64) (*content, error) {
	limits = limits.withDefaults()
	d := &decoder{
		limits: limits, textLeft: limits.Bytes, memoryLeft: limits.Memory, known: known, lengths: lengths, ctx: ctx,
		keys: map[string]string{}, seen: map[string]struct{}{},
	}
	d.decompressor, _ = decompressors.Get().(*decompressor)
	defer d.decompressor.release()
	for i, source := range sources {
		for _, key := range source.keys() {
			if !d.key(place{source: i, key: key}, source.Data[key]) {
				if err := context.Cause(ctx); err != nil {
					return nil, err
				}
				return d.content(hash, sources), nil
			}
		}
	}
	return d.content(hash, sources), nil
}

// decoder collects what a bundle holds while it is being read.
type decoder struct {
	ctx    context.Context //nolint:containedctx // of the one call that it is made for
	limits Limits
	// textLeft is how many more bytes of text may come, memoryLeft how many more bytes the objects may take.
	textLeft, memoryLeft int64
	documents            int
	known                func(digest [sha256.Size]byte) *piece
	lengths              map[place]int64
	decompressor         *decompressor
	// keys are the map keys so far; "apiVersion" and the like are held once. seen are those of the current document.
	keys map[string]string
	seen map[string]struct{}

	objects []item
	faults  []flaw
	pieces  []*piece
}

// key reads one value of a Secret. It returns false if a limit on the whole bundle is reached or ctx has ended, which
// ends the reading.
func (d *decoder) key(at place, value []byte) bool {
	text, err := d.decompressor.read(at.key, value, d.textLeft, d.lengths[at])
	d.textLeft -= min(int64(len(text)), d.textLeft) // also of one that cannot be read, as in the estimate
	if err != nil {
		return d.fault(at, err)
	}

	for c := range chunks(text) {
		if !d.chunk(&at, c) {
			return false
		}
	}
	return true
}

// document makes an object of a parsed document. The size that it counts with does not depend on other documents.
func (d *decoder) document(read part) (document, error) {
	clear(d.seen)
	n := &normalizer{
		maxDepth:   d.limits.Depth,
		jsonLeft:   d.limits.DocumentBytes,
		memoryLeft: d.memoryLeft,
		keys:       d.keys,
		seen:       d.seen,
	}
	normalized, err := n.value(read.value, read.depth)
	if err != nil {
		return document{}, err
	}
	length := d.limits.DocumentBytes - n.jsonLeft
	if n.memoryLeft < length {
		return document{}, ErrTooManyBytes
	}
	memory := d.memoryLeft - n.memoryLeft
	d.memoryLeft = n.memoryLeft - length
	object, isMap := normalized.(map[string]any)
	if !isMap {
		return document{}, fmt.Errorf("not an object but a %s", typeName(normalized))
	}
	if err := checkName(object); err != nil {
		return document{}, err
	}
	return document{
		item:       read.item,
		object:     &unstructured.Unstructured{Object: object},
		text:       manifest.TextOf(object),
		modeIgnore: modeIgnore(object),
		memory:     memory,
		length:     length,
	}, nil
}

// fault records why something could not be read, and returns whether reading continues.
func (d *decoder) fault(at place, err error) bool {
	d.faults = append(d.faults, flaw{place: at, err: err})
	switch {
	case errors.Is(err, errTooManyDocuments), errors.Is(err, ErrTooManyBytes):
		return false
	case len(d.faults) == maxFaults:
		d.faults = append(d.faults, flaw{place: at, err: errTooManyFaults})
		return false
	default:
		return true
	}
}

// content returns what was read.
func (d *decoder) content(hash Hash, sources []Source) *content {
	const perEntry = 160 // An item or flaw with the header of its object.
	return &content{
		hash:     hash,
		checksum: checksum(sources, d.objects),
		objects:  d.objects,
		faults:   d.faults,
		pieces:   d.pieces,
		size:     d.limits.Memory - d.memoryLeft + perEntry*int64(len(d.objects)+len(d.faults)+1),
	}
}

// typeName names the type of a normalized value that is not a map, in words of YAML.
func typeName(value any) string {
	switch value.(type) {
	case []any:
		return "list"
	case string:
		return "string"
	case bool:
		return "boolean"
	default:
		return "number"
	}
}
