package bundle

import (
	"errors"
	"iter"
	"strings"
)

// part is a document, or an item of a list, as it was parsed.
type part struct {
	// value is nil for a document that is empty.
	value any
	// depth is how many maps and lists there are around it in its document.
	depth int
	// item is its number in a list, 0 for a document of its own.
	item int
}

// parts returns the objects of a parsed document: itself, or the items of a list, as in kubectl. Items of nested lists
// are numbered as if they were items of the outer one. A list without items is an empty document.
func parts(document any, maxDepth int) iter.Seq2[part, error] {
	return func(yield func(part, error) bool) {
		l, err := listOf(document)
		if l == nil || err != nil {
			yield(part{value: document}, err)
			return
		}
		number := 0
		l.unpack(0, maxDepth, func(p part, err error) bool {
			number++
			p.item = number
			return yield(p, err)
		})
	}
}

// list is a document, or an item of one, that stands for its items.
type list struct {
	items []any
	// apiVersion and kind are the type of items that have neither. They are empty for a list of kind List.
	apiVersion, kind string
}

// listOf returns a parsed value as a list, or nil if it is none. A value with a name is an object and not a list,
// whatever its kind is called: lists have no names.
func listOf(value any) (*list, error) {
	kind, apiVersion := text(value, "kind"), text(value, "apiVersion")
	items, listed := field(value, "items")
	if !listed || !strings.HasSuffix(kind, "List") {
		return nil, nil
	}
	metadata, _ := field(value, "metadata")
	plain := kind == "List" && apiVersion == "v1" // of which there are no objects
	if named := text(metadata, "name")+text(metadata, "generateName") != ""; named && !plain {
		return nil, nil
	}
	l := &list{}
	if kind != "List" {
		l.apiVersion, l.kind = apiVersion, strings.TrimSuffix(kind, "List")
	}
	switch items := items.(type) {
	case nil:
	case []any:
		l.items = items
	default:
		return nil, errors.New("its items are not a list")
	}
	return l, nil
}

// unpack yields the items. It returns false once yield has returned false.
func (l *list) unpack(depth, maxDepth int, yield func(part, error) bool) bool {
	const around = 2 // the map of the list and its items
	depth += around
	switch {
	case depth >= maxDepth:
		return yield(part{}, errTooDeep)
	case len(l.items) == 0:
		return yield(part{}, nil)
	}
	for _, item := range l.items {
		l.complete(item)
		inner, err := listOf(item)
		switch {
		case inner != nil:
			if !inner.unpack(depth, maxDepth, yield) {
				return false
			}
			continue
		case item == nil:
			err = errors.New("not an object but nothing")
		}
		if !yield(part{value: item, depth: depth}, err) {
			return false
		}
	}
	return true
}

// complete gives an item the type that API servers leave out in lists of one kind.
func (l *list) complete(item any) {
	if text(item, "kind")+text(item, "apiVersion") != "" || l.kind == "" {
		return
	}
	switch item := item.(type) {
	case map[string]any:
		item["apiVersion"], item["kind"] = l.apiVersion, l.kind
	case map[any]any:
		item["apiVersion"], item["kind"] = l.apiVersion, l.kind
	}
}

// field returns a field of a map as either parser returns it.
func field(of any, name string) (value any, found bool) {
	switch of := of.(type) {
	case map[string]any:
		value, found = of[name]
	case map[any]any:
		value, found = of[name]
	}
	return value, found
}

// text returns a field that is a string, or "".
func text(of any, name string) string {
	value, _ := field(of, name)
	s, _ := value.(string)
	return s
}
