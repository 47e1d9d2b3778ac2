package defaults

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// byType is what is done to values of a type.
var byType = map[reflect.Type]func(value reflect.Value){}

// on registers a function for a type. Only package variables call it.
func on[T any](set func(*T)) struct{} {
	byType[reflect.TypeFor[T]()] = func(value reflect.Value) {
		if pointer, ok := value.Addr().Interface().(*T); ok {
			set(pointer)
		}
	}
	return struct{}{}
}

// filler is an object that knows its own defaults.
type filler interface{ SetDefaults() }

// Set gives an object of a built-in kind its defaults.
func Set(obj runtime.Object) {
	if f, ok := obj.(filler); ok {
		f.SetDefaults()
		return
	}
	walk(reflect.ValueOf(obj).Elem())
}

// concerned remembers which types hold something that has defaults. Types are finitely many.
var (
	concernedMu sync.RWMutex
	concerned   = map[reflect.Type]bool{}
)

// concerns reports whether a walk through a value of this type can find anything.
func concerns(t reflect.Type) bool {
	concernedMu.RLock()
	found, ok := concerned[t]
	concernedMu.RUnlock()
	if ok {
		return found
	}
	found = search(t, map[reflect.Type]bool{})
	concernedMu.Lock()
	defer concernedMu.Unlock()
	concerned[t] = found
	return found
}

func search(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	if _, ok := byType[t]; ok {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return search(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() && search(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// walk goes through an addressable value. Maps hold nothing that has defaults but resource lists, which are types of their own.
func walk(v reflect.Value) {
	t := v.Type()
	if !concerns(t) {
		return
	}
	if set, ok := byType[t]; ok {
		set(v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if t.Field(i).IsExported() {
				walk(v.Field(i))
			}
		}
	}
}
