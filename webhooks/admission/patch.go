package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Patch returns the patch (RFC 6902) that makes raw what before has become in after. Both are raw in a type, without
// the fields that the type does not know, and with fields that it always has; or the same in JSON, as json.RawMessage.
// Neither is a difference, so fields that the type does not know stay, those of elements of lists with their elements.
// Empty: nothing is different. Lists and maps that are empty are no different from those that are nil.
func Patch(raw []byte, before, after any) ([]byte, error) {
	var sides [2]reflect.Value
	for i, side := range []any{before, after} {
		if document, is := side.(json.RawMessage); is {
			var err error
			if side, err = treeOf(document); err != nil {
				return nil, err
			}
		}
		sides[i] = reflect.ValueOf(side)
	}
	if same(sides[0], sides[1]) {
		return nil, nil
	}
	tree, err := treeOf(raw)
	if err != nil {
		return nil, err
	}
	var p patch
	p.value("", tree, sides[0], sides[1])
	if len(p) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return encoded, nil
}

// treeOf is a document as values without a type of their own. Numbers stay text, so that none is rounded.
func treeOf(document []byte) (tree any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("decoding an object: %w", err)
	}
	return tree, nil
}

// operation is one of RFC 6902. Its value is nil if it has none.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch are operations, one after the other.
type patch []operation

func (p *patch) remove(path string) { *p = append(*p, operation{Op: "remove", Path: path}) }

// put adds or replaces what is at a path.
func (p *patch) put(op, path string, value any) {
	if value == nil {
		value = json.RawMessage("null")
	}
	*p = append(*p, operation{op, path, value})
}

// value has the value at a path of raw become what before has become in after.
func (p *patch) value(path string, raw any, before, after reflect.Value) {
	was, is := inner(before), inner(after)
	members, isObject := raw.(map[string]any)
	elements, isList := raw.([]any)
	switch shape := shapeOf(is); {
	case same(was, is):
	case !was.IsValid() || !is.IsValid() || was.Type() != is.Type():
		p.put("replace", path, content(after))
	case shape == object && isObject:
		p.fields(path, members, was, is)
	case shape == dictionary && isObject:
		p.entries(path, members, was, is)
	case shape == list && isList && len(elements) == was.Len() && is.Len() > 0:
		p.list(path, elements, was, is)
	default:
		p.put("replace", path, content(after))
	}
}

func (p *patch) fields(path string, raw map[string]any, before, after reflect.Value) {
	known := layoutOf(before.Type())
	for i := range known.fields {
		f := &known.fields[i]
		p.member(path, f.name, raw, f.of(before), f.of(after))
	}
}

func (p *patch) entries(path string, raw map[string]any, before, after reflect.Value) {
	keys := append(before.MapKeys(), after.MapKeys()...)
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for i, key := range keys {
		if i == 0 || key.String() != keys[i-1].String() {
			p.member(path, key.String(), raw, before.MapIndex(key), after.MapIndex(key))
		}
	}
}

// pointer escapes a key as RFC 6901 says.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// member does for one member of an object what value does. Those that an object does not have are not valid.
func (p *patch) member(path, key string, raw map[string]any, before, after reflect.Value) {
	value, inRaw := raw[key]
	switch {
	case !before.IsValid() && !after.IsValid():
	case !after.IsValid():
		if inRaw {
			p.remove(path + "/" + pointer.Replace(key))
		}
	case inRaw && before.IsValid():
		p.value(path+"/"+pointer.Replace(key), value, before, after)
	case !before.IsValid() || !same(before, after): // else it is one that the type always has
		p.put("add", path+"/"+pointer.Replace(key), content(after))
	}
}

// list removes the elements that are gone, adds those that are new, and changes the others in their places. An element
// that has moved is removed and added as it is in raw, so that fields that the type does not know move with it.
func (p *patch) list(path string, raw []any, before, after reflect.Value) {
	from, to := identities(before), identities(after)
	pairs := align(from, to)
	kept := make(map[int]int, len(pairs)) // indexes of after, and what they were before
	stays := make(map[int]bool, len(pairs))
	for _, pair := range pairs {
		kept[pair.after], stays[pair.before] = pair.before, true
	}
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	removed := map[string][]int{} // indexes of before by identity, the first one last
	for i := len(from) - 1; i >= 0; i-- {
		if !stays[i] {
			p.remove(at(i))
			removed[from[i]] = append(removed[from[i]], i)
		}
	}
	for i := range to {
		was, found := kept[i]
		if equal := removed[to[i]]; !found && to[i] != "" && len(equal) > 0 {
			was, found = equal[len(equal)-1], true
			removed[to[i]] = equal[:len(equal)-1]
			p.put("add", at(i), raw[was])
		}
		if found {
			p.value(at(i), raw[was], before.Index(was), after.Index(i))
		} else {
			p.put("add", at(i), content(after.Index(i)))
		}
	}
}

// pair are the indexes of an element before and after.
type pair struct{ before, after int }

// maxAligned bounds the work on finding elements of lists whose order has changed: the product of both lengths.
const maxAligned = 1 << 18

// align pairs equal identities of two lists without changing their order: those at both ends, and as many as possible
// between. Long lists of which much has changed are paired at their ends only.
func align(from, to []string) (pairs []pair) {
	start, end := 0, 0
	for start < min(len(from), len(to)) && from[start] == to[start] {
		pairs = append(pairs, pair{start, start})
		start++
	}
	for end < min(len(from), len(to))-start && from[len(from)-1-end] == to[len(to)-1-end] {
		end++
		pairs = append(pairs, pair{len(from) - end, len(to) - end})
	}
	from, to = from[start:len(from)-end], to[start:len(to)-end]
	if len(from)*len(to) > maxAligned {
		return pairs
	}
	for _, p := range longest(from, to) {
		pairs = append(pairs, pair{start + p.before, start + p.after})
	}
	return pairs
}

// longest is a longest common subsequence.
func longest(from, to []string) (pairs []pair) {
	lengths := make([][]int32, len(from)+1) // of what is common from there on
	for i := range lengths {
		lengths[i] = make([]int32, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if from[i] == to[j] {
				lengths[i][j] = lengths[i+1][j+1] + 1
			} else {
				lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(from) && j < len(to); {
		switch {
		case from[i] == to[j]:
			pairs = append(pairs, pair{i, j})
			i, j = i+1, j+1
		case lengths[i+1][j] >= lengths[i][j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}
