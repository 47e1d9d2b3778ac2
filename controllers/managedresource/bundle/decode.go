package bundle

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxFaults is how many faults are collected before the rest of the bundle is given up. A document that is refused costs
// no memory, but time; this bounds it, and the length of what is reported.
const maxFaults = 100

// Decode reads everything the Secrets hold, in the given order (spec 2.7). It always returns a bundle; what could not be
// read is among its Faults. Without sources the bundle is empty and complete: it means "manage nothing".
func Decode(sources []Source, limits Limits) *Bundle {
	return decode(HashOf(sources), sources, limits).bundle(sources)
}

// decode is Decode without the names.
func decode(hash Hash, sources []Source, limits Limits) *content {
	limits = limits.withDefaults()
	d := &decoder{limits: limits, textLeft: limits.Bytes, memoryLeft: limits.Memory, keys: map[string]string{}}
	for i, source := range sources {
		for _, key := range source.keys() {
			if !d.key(place{source: i, key: key}, source.Data[key]) {
				return d.content(hash, sources)
			}
		}
	}
	return d.content(hash, sources)
}

// decoder collects what a bundle holds while it is being read.
type decoder struct {
	limits Limits
	// textLeft is how many more bytes of text may come, memoryLeft how many more bytes the objects may take.
	textLeft, memoryLeft int64
	documents            int
	// keys are the map keys seen so far; "apiVersion" and its like are kept once.
	keys map[string]string

	objects []item
	faults  []flaw
}

// key reads one value of a Secret. It returns false if a limit on the whole bundle is reached, which ends the reading.
func (d *decoder) key(at place, value []byte) bool {
	text, err := read(at.key, value, d.textLeft)
	if err != nil {
		return d.fault(at, err)
	}
	d.textLeft -= int64(len(text))

	for chunk := range chunks(text) {
		for value, err := range parse(chunk, d.limits) {
			at.index++
			if d.documents++; d.documents > d.limits.Documents {
				return d.fault(at, ErrTooManyDocuments)
			}
			if err == nil && value != nil {
				err = d.document(at, value)
			}
			if err != nil && !d.fault(at, err) {
				return false
			}
		}
	}
	return true
}

// document adds a parsed document to the objects.
func (d *decoder) document(at place, value any) error {
	n := &normalizer{
		maxDepth:   d.limits.Depth,
		jsonLeft:   d.limits.DocumentBytes,
		memoryLeft: d.memoryLeft,
		keys:       d.keys,
	}
	normalized, err := n.value(value, 0)
	if err != nil {
		return err
	}
	d.memoryLeft = n.memoryLeft
	object, isMap := normalized.(map[string]any)
	if !isMap {
		return fmt.Errorf("not an object but a %s", typeName(normalized))
	}
	d.objects = append(d.objects, item{
		place:      at,
		object:     &unstructured.Unstructured{Object: object},
		modeIgnore: modeIgnore(object),
	})
	return nil
}

// fault records why something could not be read, and returns whether reading goes on.
func (d *decoder) fault(at place, err error) bool {
	d.faults = append(d.faults, flaw{place: at, err: err})
	switch {
	case errors.Is(err, ErrTooManyDocuments), errors.Is(err, ErrTooManyBytes):
		return false
	case len(d.faults) == maxFaults:
		d.faults = append(d.faults, flaw{place: at, err: ErrTooManyFaults})
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
