package watching

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// perEntry is about what an entry of a map takes that has a key and a value of two words each, as those have in
	// which objects are kept: some of its slots are free.
	perEntry = 96
	// perMap is what a map takes that has one entry at least.
	perMap = 64
	// deepest is the depth to which values are walked. Decoded documents are nested less deeply.
	deepest = 300
)

var timeType = reflect.TypeFor[time.Time]()

// sizeOf estimates the memory of a value: all bytes of its texts, and what is around them. What several values have in
// common counts for each of them.
func sizeOf(key types.NamespacedName, value any) int64 {
	size := perEntry + len(key.Namespace) + len(key.Name)
	if v := reflect.ValueOf(value); v.IsValid() {
		size += boxed(v, deepest)
	}
	return int64(size)
}

// boxed is what a value takes that an interface holds.
func boxed(v reflect.Value, depth int) int {
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Map {
		return beneath(v, depth)
	}
	return int(v.Type().Size()) + beneath(v, depth)
}

// beneath is the size of what is reachable from a value, without the value itself.
func beneath(v reflect.Value, depth int) (size int) {
	if depth--; depth == 0 {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		return int(v.Type().Elem().Size()) + beneath(v.Elem(), depth)
	case reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return boxed(v.Elem(), depth)
	case reflect.Slice:
		size = v.Cap() * int(v.Type().Elem().Size())
		fallthrough
	case reflect.Array:
		if !isPlain(v.Type().Elem().Kind()) {
			for i := range v.Len() {
				size += beneath(v.Index(i), depth)
			}
		}
	case reflect.Map:
		if v.Len() == 0 {
			return 0
		}
		size = perMap + v.Len()*2*int(v.Type().Key().Size()+v.Type().Elem().Size())
		for entries := v.MapRange(); entries.Next(); {
			size += beneath(entries.Key(), depth) + beneath(entries.Value(), depth)
		}
	case reflect.Struct:
		if v.Type() == timeType {
			return 0 // all times share their locations
		}
		for i := range v.NumField() {
			size += beneath(v.Field(i), depth)
		}
	}
	return size
}

// isPlain reports whether values of a kind have nothing beneath.
func isPlain(kind reflect.Kind) bool { return kind <= reflect.Complex128 && kind != reflect.Invalid }
