package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Patch returns the patch (RFC 6902) that makes raw what before has become in after. Both are raw in a type: without
// the fields that the type does not know, and with fields that it always has. Neither is a difference, so fields that
// the type does not know stay, those of elements of lists with their elements. Empty: nothing is different.
func Patch(raw []byte, before, after any) ([]byte, error) {
	var trees [3]any
	for i, of := range []any{json.RawMessage(raw), before, after} {
		var err error
		if trees[i], err = treeOf(of); err != nil {
			return nil, err
		}
	}
	var p patch
	p.value("", trees[0], trees[1], trees[2])
	if len(p) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return encoded, nil
}

// treeOf is a value as JSON has it. Numbers stay text, so that none is rounded.
func treeOf(value any) (tree any, err error) {
	encoded, is := value.(json.RawMessage)
	if !is {
		if encoded, err = json.Marshal(value); err != nil {
			return nil, fmt.Errorf("encoding an object: %w", err)
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("decoding an object: %w", err)
	}
	return tree, nil
}

// operation is one of RFC 6902.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// MarshalJSON has a value in all operations but removals, also if it is null.
func (o operation) MarshalJSON() ([]byte, error) {
	if o.Op == "remove" {
		return json.Marshal(map[string]any{"op": o.Op, "path": o.Path})
	}
	return json.Marshal(map[string]any{"op": o.Op, "path": o.Path, "value": o.Value})
}

// patch are operations, one after the other.
type patch []operation

func (p *patch) do(op, path string, value any) { *p = append(*p, operation{op, path, value}) }

// value has the value at a path of raw become what before has become in after.
func (p *patch) value(path string, raw, before, after any) {
	switch after := after.(type) {
	case map[string]any:
		raw, inRaw := raw.(map[string]any)
		before, inBefore := before.(map[string]any)
		if inRaw && inBefore {
			p.object(path, raw, before, after)
			return
		}
	case []any:
		raw, inRaw := raw.([]any)
		before, inBefore := before.([]any)
		if inRaw && inBefore && len(raw) == len(before) {
			p.list(path, raw, before, after)
			return
		}
	}
	if !reflect.DeepEqual(before, after) {
		p.do("replace", path, after)
	}
}

// pointer escapes a key as RFC 6901 says.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

func (p *patch) object(path string, raw, before, after map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		_, stays := after[key]
		if _, inRaw := raw[key]; inRaw && !stays {
			p.do("remove", path+"/"+pointer.Replace(key), nil)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		value, inRaw := raw[key]
		was, inBefore := before[key]
		switch at := path + "/" + pointer.Replace(key); {
		case inRaw && inBefore:
			p.value(at, value, was, after[key])
		case !inBefore || !reflect.DeepEqual(was, after[key]): // else it is one that the type always has
			p.do("add", at, after[key])
		}
	}
}

// list removes the elements that are gone, adds those that are new, and changes the others in their places. An element
// that has moved is removed and added as it is in raw, so that fields that the type does not know move with it.
func (p *patch) list(path string, raw, before, after []any) {
	from, to := identities(before), identities(after)
	pairs := align(from, to)
	kept := make(map[int]int, len(pairs)) // indexes of after, and what they were before
	stays := make(map[int]bool, len(pairs))
	for _, pair := range pairs {
		kept[pair.after], stays[pair.before] = pair.before, true
	}
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	removed := map[string][]int{} // indexes of before by identity, the first one last
	for i := len(before) - 1; i >= 0; i-- {
		if !stays[i] {
			p.do("remove", at(i), nil)
			removed[from[i]] = append(removed[from[i]], i)
		}
	}
	for i := range after {
		was, found := kept[i]
		if same := removed[to[i]]; !found && to[i] != "" && len(same) > 0 {
			was, found = same[len(same)-1], true
			removed[to[i]] = same[:len(same)-1]
			p.do("add", at(i), raw[was])
		}
		if found {
			p.value(at(i), raw[was], before[was], after[i])
		} else {
			p.do("add", at(i), after[i])
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

// identities are those of the elements of a list.
func identities(list []any) []string {
	ids := make([]string, len(list))
	for i, element := range list {
		ids[i] = identity(element)
	}
	return ids
}

// identity is what tells elements of lists in objects of Kubernetes and of Gardener apart: one of their fields, or the
// value itself. It is empty for objects and lists that have none, which are then told apart by their places.
func identity(element any) string {
	switch element := element.(type) {
	case map[string]any:
		for _, key := range []string{"mountPath", "name", "path", "topologyKey", "key", "ip", "uid"} {
			if id, is := element[key].(string); is {
				return key + "=" + id
			}
		}
		return ""
	case []any:
		return ""
	default:
		return fmt.Sprint(element)
	}
}
