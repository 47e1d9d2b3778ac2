package ownership

import (
	"bytes"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// names are the labels and annotations that an entry of managedFields has, in order. They are parts of its text.
type names struct{ labels, annotations [][]byte }

// has reports whether a name is among names in order.
func has(names [][]byte, name string) bool {
	_, found := slices.BinarySearchFunc(names, name, func(a []byte, b string) int {
		switch { // without a copy
		case string(a) < b:
			return -1
		case string(a) > b:
			return 1
		}
		return 0
	})
	return found
}

// namesIn reads the names from the text of an entry. The state of an object asks no more of our own entry, which is
// read at each write and at each event of a watch, and to parse all of it costs twenty times as much. ok is false if
// the text is not written as API servers write it: then it is for the parser to say what it means.
func namesIn(text []byte) (n names, ok bool) {
	t := &fieldsText{text: text}
	ok = t.object(func(key []byte) bool {
		if string(key) != "f:metadata" {
			return t.skip()
		}
		return t.object(func(key []byte) bool {
			switch string(key) {
			case "f:labels":
				return t.leaves(&n.labels)
			case "f:annotations":
				return t.leaves(&n.annotations)
			default:
				return t.skip()
			}
		})
	})
	return n, ok && len(t.text) == 0
}

// namesOf returns the names in a set that was parsed.
func namesOf(set *fieldpath.Set) names {
	of := func(field string) (out [][]byte) {
		values := child(child(set, "metadata"), field)
		if values == nil {
			return nil
		}
		values.Members.Iterate(func(pe fieldpath.PathElement) {
			if pe.FieldName != nil {
				out = append(out, []byte(*pe.FieldName))
			}
		})
		return out
	}
	return names{labels: of("labels"), annotations: of("annotations")}
}

// maxNesting is how deep objects may be nested that fieldsText reads.
const maxNesting = 64

// fieldsText is what is left to be read of an entry: JSON objects in JSON objects, without blanks.
type fieldsText struct {
	text  []byte
	depth int
}

// object reads an object. member is called with each key, and reads its value.
func (t *fieldsText) object(member func(key []byte) bool) bool {
	if t.depth++; t.depth > maxNesting || !t.next('{') {
		return false
	}
	defer func() { t.depth-- }()
	if t.next('}') {
		return true
	}
	for {
		key, ok := t.key()
		if !ok || !member(key) {
			return false
		}
		if t.next('}') {
			return true
		}
		if !t.next(',') {
			return false
		}
	}
}

// skip reads an object that does not matter.
func (t *fieldsText) skip() bool { return t.object(func([]byte) bool { return t.skip() }) }

// leaves reads an object and appends the names of its fields, which have nothing beneath them.
func (t *fieldsText) leaves(out *[][]byte) bool {
	ok := t.object(func(key []byte) bool {
		name, isField := bytes.CutPrefix(key, []byte("f:"))
		if isField {
			*out = append(*out, name)
		}
		return (isField || string(key) == ".") && bytes.IndexByte(key, '\\') < 0 && t.next('{') && t.next('}')
	})
	if !slices.IsSortedFunc(*out, bytes.Compare) {
		slices.SortFunc(*out, bytes.Compare)
	}
	return ok
}

// key reads a key with its colon: a dot, or one of the kinds of path elements that there are.
func (t *fieldsText) key() (key []byte, ok bool) {
	if !t.next('"') {
		return nil, false
	}
	for end := 0; end < len(t.text); end++ {
		switch t.text[end] {
		case '\\':
			end++
		case '"':
			key, t.text = t.text[:end], t.text[end+1:]
			known := string(key) == "." || len(key) > 2 && key[1] == ':' && bytes.IndexByte([]byte("fkvi"), key[0]) >= 0
			return key, known && t.next(':')
		}
	}
	return nil, false
}

// next reads a byte if it is the next one.
func (t *fieldsText) next(c byte) bool {
	if len(t.text) == 0 || t.text[0] != c {
		return false
	}
	t.text = t.text[1:]
	return true
}
