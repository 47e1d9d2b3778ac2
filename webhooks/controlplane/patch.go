package controlplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// patch returns what has to be done to raw so that it becomes what before became in after, as operations of RFC 6902.
// before and after are raw as a type has it: without fields that the type does not know, and with fields that it always
// has. Neither is a change. Empty: nothing is different.
func patch(raw, before, after []byte) ([]byte, error) {
	if bytes.Equal(before, after) {
		return nil, nil
	}
	var trees [3]any
	for i, document := range [][]byte{raw, before, after} {
		var err error
		if trees[i], err = tree(document); err != nil {
			return nil, err
		}
	}
	operations := diff(nil, "", trees[0], overlay(trees[0], trees[1], trees[2]))
	if len(operations) == 0 {
		return nil, nil
	}
	return json.Marshal(operations)
}

// tree decodes JSON. Numbers stay text, so that none is rounded.
func tree(document []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("decode the object: something follows it")
	}
	return decoded, nil
}

// overlay returns raw with the changes that lead from before to after.
func overlay(raw, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return raw
	}
	switch after := after.(type) {
	case map[string]any:
		raw, isRaw := raw.(map[string]any)
		before, isBefore := before.(map[string]any)
		if isRaw && isBefore {
			return overlayMap(raw, before, after)
		}
	case []any:
		raw, isRaw := raw.([]any)
		before, isBefore := before.([]any)
		if isRaw && isBefore && len(raw) == len(before) {
			return overlayList(raw, before, after)
		}
	}
	return after
}

func overlayMap(raw, before, after map[string]any) map[string]any {
	result := map[string]any{}
	for key, value := range raw {
		if _, known := before[key]; !known {
			result[key] = value
		}
	}
	for key, value := range after {
		inRaw, isRaw := raw[key]
		inBefore, isBefore := before[key]
		switch {
		case isRaw && isBefore:
			result[key] = overlay(inRaw, inBefore, value)
		case isBefore && reflect.DeepEqual(inBefore, value): // a field that the type always has
		default:
			result[key] = value
		}
	}
	return result
}

// overlayList finds the items of after in before by what identifies them, else by their place. Places of raw and before
// are the same.
func overlayList(raw, before, after []any) []any {
	places := map[string][]int{}
	for i, item := range before {
		if id := identity(item); id != "" {
			places[id] = append(places[id], i)
		}
	}
	result := make([]any, len(after))
	for i, item := range after {
		place := i
		if id := identity(item); id != "" {
			if len(places[id]) == 0 {
				result[i] = item
				continue
			}
			place, places[id] = places[id][0], places[id][1:]
		}
		if place >= len(before) {
			result[i] = item
			continue
		}
		result[i] = overlay(raw[place], before[place], item)
	}
	return result
}

// identity is what tells items of lists apart in objects of Kubernetes and of Gardener.
func identity(item any) string {
	object, is := item.(map[string]any)
	if !is {
		return ""
	}
	for _, key := range []string{"mountPath", "name", "path", "key", "uid"} {
		if value, is := object[key].(string); is {
			return key + "=" + value
		}
	}
	return ""
}

// operation is one of RFC 6902.
type operation struct {
	Op, Path string
	Value    any
}

// MarshalJSON has a value in all operations but removals, also if it is null.
func (o operation) MarshalJSON() ([]byte, error) {
	if o.Op == "remove" {
		return json.Marshal(map[string]any{"op": o.Op, "path": o.Path})
	}
	return json.Marshal(map[string]any{"op": o.Op, "path": o.Path, "value": o.Value})
}

// diff appends the operations that make to of from.
func diff(operations []operation, path string, from, to any) []operation {
	if reflect.DeepEqual(from, to) {
		return operations
	}
	switch to := to.(type) {
	case map[string]any:
		if from, is := from.(map[string]any); is {
			return diffMap(operations, path, from, to)
		}
	case []any:
		if from, is := from.([]any); is {
			return diffList(operations, path, from, to)
		}
	}
	return append(operations, operation{"replace", path, to})
}

// pointer escapes a key as RFC 6901 says.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

func diffMap(operations []operation, path string, from, to map[string]any) []operation {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if _, stays := to[key]; !stays {
			operations = append(operations, operation{"remove", path + "/" + pointer.Replace(key), nil})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(to)) {
		at := path + "/" + pointer.Replace(key)
		if value, is := from[key]; is {
			operations = diff(operations, at, value, to[key])
		} else {
			operations = append(operations, operation{"add", at, to[key]})
		}
	}
	return operations
}

// diffList leaves what is equal at both ends, changes what is between in place, and adds or removes the rest.
func diffList(operations []operation, path string, from, to []any) []operation {
	start := 0
	for start < len(from) && start < len(to) && reflect.DeepEqual(from[start], to[start]) {
		start++
	}
	endFrom, endTo := len(from), len(to)
	for endFrom > start && endTo > start && reflect.DeepEqual(from[endFrom-1], to[endTo-1]) {
		endFrom, endTo = endFrom-1, endTo-1
	}
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	i := start
	for ; i < endFrom && i < endTo; i++ {
		operations = diff(operations, at(i), from[i], to[i])
	}
	for last := endFrom - 1; last >= i; last-- {
		operations = append(operations, operation{"remove", at(last), nil})
	}
	for ; i < endTo; i++ {
		operations = append(operations, operation{"add", at(i), to[i]})
	}
	return operations
}
