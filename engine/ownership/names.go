package ownership

import (
	"bytes"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// names are the keys of labels and annotations in an entry of managedFields, sorted. They are slices of its text.
type names struct{ labels, annotations [][]byte }

// has reports whether a name is among sorted names.
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

// namesIn reads the names from the text of an entry. The state of an object needs nothing else of our own entry, which
// is read for each write and each event of a watch; parsing all of it would cost twenty times as much. ok is false if
// the text is not in the form that API servers write: then the entry has to be parsed.
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

// namesOf returns the names in a parsed set.
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

// maxNesting is the depth of objects that fieldsText reads.
const maxNesting = 64

// fieldsText is a scanner of an entry, which consists of nested JSON objects without blanks. text is the rest of it.
type fieldsText struct {
	text  []byte
	depth int
}

// object reads an object. member is called with each key and reads its value.
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

// skip skips an object.
func (t *fieldsText) skip() bool { return t.object(func([]byte) bool { return t.skip() }) }

// leaves reads an object and appends the names of its fields, which have no children.
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

// key reads a key with its colon: a dot or a path element.
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

// next reads the given byte, if it is the next one.
func (t *fieldsText) next(c byte) bool {
	if len(t.text) == 0 || t.text[0] != c {
		return false
	}
	t.text = t.text[1:]
	return true
}
