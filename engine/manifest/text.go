package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// Text is the JSON of a manifest, field by field. It is made on first use and is safe for concurrent use. A nil Text
// has no fields, so that all of an object is encoded.
type Text struct {
	content map[string]any
	fields  func() map[string][]byte
}

// TextOf returns the text of a manifest, which must not change any longer.
func TextOf(content map[string]any) *Text {
	return &Text{content: content, fields: sync.OnceValue(func() map[string][]byte { return encode(content) })}
}

// encode encodes the fields of a manifest that are as they are in all targets. One that cannot be encoded is left out:
// encoding the object fails then, and says why.
func encode(content map[string]any) map[string][]byte {
	fields := make(map[string][]byte, len(content))
	for name, value := range content {
		if name == "metadata" {
			continue
		}
		if text, err := json.Marshal(value); err == nil {
			fields[name] = text
		}
	}
	return fields
}

// Append appends an object in JSON, with its keys in order as json.Marshal has them.
func (t *Text) Append(to []byte, object map[string]any) ([]byte, error) {
	b := bytes.NewBuffer(slices.Grow(to, t.length()+restBytes))
	err := t.Write(b, object)
	return b.Bytes(), err
}

// Write writes what Append appends, piece by piece.
func (t *Text) Write(to io.Writer, object map[string]any) error {
	separator := byte('{')
	for _, name := range slices.Sorted(maps.Keys(object)) {
		key, err := json.Marshal(name)
		if err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
		text, err := t.of(name, object[name])
		if err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
		for _, piece := range [][]byte{{separator}, key, {':'}, text} {
			if _, err := to.Write(piece); err != nil {
				return fmt.Errorf("field %q: %w", name, err)
			}
		}
		separator = ','
	}
	end := []byte("}")
	if len(object) == 0 {
		end = []byte("{}")
	}
	_, err := to.Write(end)
	return err
}

// restBytes is the usual size of metadata and field names.
const restBytes = 1 << 10

// length is the length of all fields that are cached.
func (t *Text) length() (sum int) {
	if t != nil {
		for _, text := range t.fields() {
			sum += len(text)
		}
	}
	return sum
}

// of encodes a field of an object.
func (t *Text) of(name string, value any) ([]byte, error) {
	if t != nil {
		if known, has := t.content[name]; has && isSame(known, value) {
			if text := t.fields()[name]; text != nil {
				return text, nil
			}
		}
	}
	return json.Marshal(value)
}

// isSame reports whether two values are identical, that is, share their memory. Values that are not may still be equal.
func isSame(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, isMap := b.(map[string]any)
		return isMap && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	case []any:
		b, isList := b.([]any)
		return isList && len(a) == len(b) && (len(a) == 0 && (a == nil) == (b == nil) || len(a) > 0 && &a[0] == &b[0])
	case string:
		b, isString := b.(string)
		return isString && a == b
	}
	return false // next to nothing to encode
}
