package admission

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
)

// shape is what a value is in JSON.
type shape int

const (
	// single are values that are compared and replaced as a whole: those that are neither objects nor lists, and those
	// of types that encode themselves.
	single shape = iota
	// object is a struct, dictionary a map, list a slice or an array.
	object
	dictionary
	list
	// nothing is null.
	nothing
)

// inner is what pointers and interfaces lead to. It is not valid if that is nil.
func inner(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

func shapeOf(v reflect.Value) shape {
	if !v.IsValid() {
		return nothing
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
		return layoutOf(v.Type()).shape
	default:
		return single
	}
}

// content is a value for encoding/json; nil if there is none.
func content(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	return v.Interface()
}

// same reports whether two values mean the same in JSON. What is empty is the same as what is nil.
func same(a, b reflect.Value) bool {
	a, b = inner(a), inner(b)
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	if a.Type() != b.Type() {
		return false
	}
	switch shapeOf(a) {
	case object:
		return sameFields(a, b)
	case dictionary:
		if a.Len() != b.Len() {
			return false
		}
		for entries := a.MapRange(); entries.Next(); {
			other := b.MapIndex(entries.Key())
			if !other.IsValid() || !same(entries.Value(), other) {
				return false
			}
		}
		return true
	case list:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	if a.Kind() == reflect.String || a.Kind() == reflect.Bool || a.CanInt() {
		return a.Equal(b) // most values are of these kinds
	}
	return equality.Semantic.DeepEqual(a.Interface(), b.Interface())
}

func sameFields(a, b reflect.Value) bool {
	known := layoutOf(a.Type())
	for i := range known.fields {
		f := &known.fields[i]
		was, is := f.of(a), f.of(b)
		if was.IsValid() != is.IsValid() || was.IsValid() && !same(was, is) {
			return false
		}
	}
	return true
}

// isEmpty reports whether a value is what omitempty leaves out.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

// layout is how values of a type are encoded.
type layout struct {
	shape  shape
	fields []field // of objects
	// identifying are the fields by which elements of a list are identified: by the first one that an element has.
	identifying []*field
}

// field is one that encoding/json knows.
type field struct {
	name                string
	index               []int
	omitEmpty, omitZero bool
}

// of is the field of a struct; not valid if the struct is encoded without it.
func (f *field) of(v reflect.Value) reflect.Value {
	if len(f.index) == 1 {
		v = v.Field(f.index[0])
	} else if inner, err := v.FieldByIndexErr(f.index); err == nil {
		v = inner
	} else {
		return reflect.Value{} // of an embedded pointer that is nil
	}
	if f.omitEmpty && isEmpty(v) || f.omitZero && v.IsZero() {
		return reflect.Value{}
	}
	return v
}

// layouts has those of the types that were met, which are compiled in.
var layouts sync.Map // of reflect.Type to *layout

func layoutOf(t reflect.Type) *layout {
	if known, is := layouts.Load(t); is {
		return known.(*layout) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	l := &layout{}
	switch kind := t.Kind(); {
	case encodesItself(t):
	case kind == reflect.Struct:
		l.shape, l.fields = object, fieldsOf(t)
	case kind == reflect.Map && t.Key().Kind() == reflect.String:
		l.shape = dictionary
	case kind != reflect.Map && t.Elem().Kind() != reflect.Uint8:
		l.shape = list
	}
	for _, name := range identifying {
		for i := range l.fields {
			if l.fields[i].name == name {
				l.identifying = append(l.identifying, &l.fields[i])
			}
		}
	}
	known, _ := layouts.LoadOrStore(t, l)
	return known.(*layout) //nolint:errcheck,forcetypeassert // nothing else is stored
}

func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// fieldsOf are the fields of a type as encoding/json has them. Those of types of objects have names of their own.
func fieldsOf(t reflect.Type) (fields []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if embedded := f.Type; f.Anonymous && name == "" {
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				for _, below := range fieldsOf(embedded) {
					below.index = append([]int{i}, below.index...)
					fields = append(fields, below)
				}
				continue
			}
		}
		if name == "" {
			name = f.Name
		}
		own := field{name: name, index: []int{i}}
		for option := range strings.SplitSeq(options, ",") {
			own.omitEmpty = own.omitEmpty || option == "omitempty"
			own.omitZero = own.omitZero || option == "omitzero"
		}
		fields = append(fields, own)
	}
	return fields
}

// identifying are the fields by which elements of lists are identified in objects of Kubernetes and of Gardener.
var identifying = []string{"mountPath", "name", "path", "topologyKey", "key", "ip", "uid"}

// identities are those of the elements of a list.
func identities(list reflect.Value) []string {
	ids := make([]string, list.Len())
	for i := range ids {
		ids[i] = identity(inner(list.Index(i)))
	}
	return ids
}

// identity identifies an element of a list: by one of its fields, or by its value. It is empty for objects and lists
// that have none, which are then identified by their places.
func identity(element reflect.Value) string {
	switch shapeOf(element) {
	case object:
		for _, f := range layoutOf(element.Type()).identifying {
			if id := inner(f.of(element)); id.Kind() == reflect.String {
				return f.name + "=" + id.String()
			}
		}
		return ""
	case dictionary:
		for _, key := range identifying {
			id := inner(element.MapIndex(reflect.ValueOf(key).Convert(element.Type().Key())))
			if id.Kind() == reflect.String {
				return key + "=" + id.String()
			}
		}
		return ""
	case list:
		return ""
	case nothing:
		return "null"
	}
	return fmt.Sprint(element.Interface())
}
