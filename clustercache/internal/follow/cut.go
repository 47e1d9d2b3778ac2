package follow

import (
	"bytes"
	"fmt"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is an object of which not all fields were decoded. Its managedFields are not in its content, but only where
// GetManagedFields finds them.
type Object struct {
	unstructured.Unstructured

	managed []metav1.ManagedFieldsEntry
}

// GetManagedFields implements metav1.Object.
func (o *Object) GetManagedFields() []metav1.ManagedFieldsEntry { return o.managed }

// SetManagedFields implements metav1.Object.
func (o *Object) SetManagedFields(managed []metav1.ManagedFieldsEntry) { o.managed = managed }

// fields are those of a JSON object that matter.
type fields struct {
	named  map[string]*field
	others bool // so do all that have no name here
}

// field is one of them: with what beneath it matters, nil for all of it.
type field struct {
	beneath *fields
	apart   bool // it is not decoded with the rest
}

// fieldsOfEvent are those of an event with an object.
func fieldsOfEvent(object *fields) *fields {
	return &fields{named: map[string]*field{"type": {}, "object": {beneath: object}}}
}

// fieldsOfObject are those of an object that matter: beside what says which object it is, fields at some paths.
func fieldsOfObject(paths [][]string) *fields {
	object := &fields{named: map[string]*field{
		"apiVersion": {}, "kind": {},
		"metadata": {beneath: &fields{named: map[string]*field{"managedFields": {apart: true}}, others: true}},
	}}
	for _, path := range paths {
		if len(path) > 0 && path[0] != "metadata" {
			object.add(path)
		}
	}
	return object
}

// shared are the fields of events and objects by their paths. Targets are watched for the same ones, and no code
// asks for more sets of paths than this holds.
var shared = newShared(256)

type eventAndObject struct{ event, object *fields }

func newShared(size int) *lru.Cache[string, eventAndObject] {
	cache, err := lru.New[string, eventAndObject](size)
	if err != nil {
		panic(err) // the size is a constant
	}
	return cache
}

// sharedFields returns the fields of events and objects, the same ones for the same paths. They are never changed.
func sharedFields(paths [][]string) (event, object *fields) {
	key := fmt.Sprintf("%q", paths)
	if known, is := shared.Get(key); is {
		return known.event, known.object
	}
	object = fieldsOfObject(paths)
	event = fieldsOfEvent(object)
	shared.Add(key, eventAndObject{event, object})
	return event, object
}

// everything is a field all of which matters.
var everything field

// add adds a field with all that is beneath it.
func (f *fields) add(path []string) {
	known := f.named[path[0]]
	switch {
	case len(path) == 1:
		f.named[path[0]] = &field{}
	case known == nil:
		known = &field{beneath: &fields{named: map[string]*field{}}}
		f.named[path[0]] = known
		known.beneath.add(path[1:])
	case known.beneath != nil:
		known.beneath.add(path[1:])
	}
}

// cuts are what is left of documents while they are decoded.
var cuts = sync.Pool{New: func() any { return new(cutter) }}

// keptCut is the largest that is kept for other documents.
const keptCut = 64 << 10

// cutter copies what matters of a JSON document. The schema of a CustomResourceDefinition has thousands of values, of
// which no consumer asks for one: to skip them takes a hundredth of what it takes to decode them.
type cutter struct {
	text  []byte // what is left to be read
	out   []byte
	apart []byte // the field that is not decoded with the rest, as it stands in the text
}

// cut calls decode with a document in which there is only what matters, and with what is kept apart. It returns false
// if the document is malformed: then decoding it as a whole returns the error.
func cut(text []byte, which *fields, decode func(text, apart []byte)) bool {
	c, _ := cuts.Get().(*cutter)
	c.text, c.out, c.apart = text, c.out[:0], nil
	ok := c.object(which)
	if ok {
		decode(c.out, c.apart)
	}
	if c.text, c.apart = nil, nil; cap(c.out) <= keptCut {
		cuts.Put(c)
	}
	return ok
}

// object copies the fields of an object. What is none is copied as it is.
func (c *cutter) object(which *fields) bool {
	if c.peek() != '{' {
		return c.all()
	}
	c.text = c.text[1:]
	c.out = append(c.out, '{')
	for first := true; ; {
		if c.peek() == '}' {
			c.text = c.text[1:]
			c.out = append(c.out, '}')
			return true
		}
		name, ok := c.name()
		if !ok {
			return false
		}
		f := which.named[string(name)]
		if f == nil && which.others {
			f = &everything
		}
		switch {
		case f == nil:
			_, ok = c.skip()
		case f.apart:
			c.apart, ok = c.skip()
		default:
			if !first {
				c.out = append(c.out, ',')
			}
			first = false
			c.out = append(append(append(c.out, '"'), name...), '"', ':')
			if f.beneath == nil {
				ok = c.all()
			} else {
				ok = c.object(f.beneath)
			}
		}
		if !ok {
			return false
		}
		switch c.peek() {
		case ',':
			c.text = c.text[1:]
		case '}':
		default:
			return false
		}
	}
}

// all copies a value.
func (c *cutter) all() bool {
	value, ok := c.skip()
	c.out = append(c.out, value...)
	return ok
}

// name reads the name of a field with its colon.
func (c *cutter) name() ([]byte, bool) {
	name, ok := c.skip()
	if !ok || len(name) < 2 || name[0] != '"' || c.peek() != ':' {
		return nil, false
	}
	c.text = c.text[1:]
	return name[1 : len(name)-1], true
}

// peek returns the next byte that is no blank, zero at the end.
func (c *cutter) peek() byte {
	for len(c.text) > 0 && isSpace(c.text[0]) {
		c.text = c.text[1:]
	}
	if len(c.text) == 0 {
		return 0
	}
	return c.text[0]
}

// skip reads a value. Whether what is in it is valid is for the decoder to say.
func (c *cutter) skip() (value []byte, ok bool) {
	var end int
	switch c.peek() {
	case 0:
		return nil, false
	case '"':
		end = endOfText(c.text)
	case '{', '[':
		end = endOfBrackets(c.text)
	default:
		end = bytes.IndexAny(c.text, ",]} \n\r\t")
	}
	if end <= 0 {
		return nil, false
	}
	value, c.text = c.text[:end], c.text[end:]
	return value, true
}

// endOfText returns where a string ends that begins at the start, -1 if it does not.
func endOfText(text []byte) int {
	for at := 1; at < len(text); {
		quote := bytes.IndexByte(text[at:], '"')
		if quote < 0 {
			return -1
		}
		end := at + quote
		escapes := 0
		for end-escapes > at && text[end-escapes-1] == '\\' {
			escapes++
		}
		if at = end + 1; escapes%2 == 0 {
			return at
		}
	}
	return -1
}

// endOfBrackets returns where an object or list ends that begins at the start, -1 if it does not.
func endOfBrackets(text []byte) int {
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			length := endOfText(text[at:])
			if length < 0 {
				return -1
			}
			at += length - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return -1
}

// managers returns how many entries managedFields have that stand for themselves, with what is in each of them, but not
// of their fields, which are kept as text. It returns false if they are malformed.
func managers(text []byte) (entries int, ok bool) {
	c := cutter{text: text}
	if len(text) == 0 || c.peek() != '[' {
		return 0, true // nothing is decoded of it
	}
	for c.text = c.text[1:]; ; {
		switch c.peek() {
		case ']':
			return entries, true
		case ',':
			c.text = c.text[1:]
			continue
		}
		entry, ok := c.skip()
		if !ok {
			return 0, false
		}
		if entries++; entries > maxManagers {
			return entries, true
		}
		_ = entry
	}
}
