package bundle

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// normalizer turns what the parsers return into what unstructured.Unstructured holds: map[string]any, []any, string,
// bool, int64, float64 and nil. On the way it bounds depth and size, and lets equal keys share their text.
type normalizer struct {
	maxDepth int
	// jsonLeft is how many more bytes the value may take as JSON, counted as if every number had one digit. memoryLeft is
	// how many more bytes it may take in memory, about.
	jsonLeft, memoryLeft int64
	// keys are the map keys of all documents so far, seen those of this one.
	keys map[string]string
	seen map[string]struct{}
}

// Memory that values take on a 64-bit machine: an empty map, each seven entries of it, an element of a list, and a
// value that an interface points to.
const (
	mapMemory     = 48
	groupMemory   = 272
	elementMemory = 16
	valueMemory   = 16
)

// value normalizes one value; depth is that of the container around it.
func (n *normalizer) value(v any, depth int) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		return n.jsonMap(v, depth+1)
	case map[any]any:
		return n.yamlMap(v, depth+1)
	case []any:
		return n.list(v, depth+1)
	case string:
		return n.text(v)
	}

	if err := n.spend(len("1"), valueMemory); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil, bool, int64:
		return v, nil
	case int:
		return int64(v), nil
	case uint64:
		return float64(v), nil
	case float64:
		return number(v)
	default:
		return nil, fmt.Errorf("a value of type %T cannot be written as JSON", v)
	}
}

// number returns a float as the number that its JSON form denotes: 1.0 in YAML is the whole number 1.
func number(f float64) (any, error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil, errors.New("infinity and not-a-number cannot be written as JSON")
	case f == math.Trunc(f) && math.Abs(f) < 1<<63:
		return int64(f), nil
	default:
		return f, nil
	}
}

func (n *normalizer) text(s string) (any, error) {
	if err := n.spend(len(s)+len(`""`), len(s)+valueMemory); err != nil {
		return nil, err
	}
	return strings.ToValidUTF8(s, "\uFFFD"), nil
}

func (n *normalizer) list(list []any, depth int) (any, error) {
	if err := n.enter(depth, len(list), elementMemory*len(list)); err != nil {
		return nil, err
	}
	for i := range list {
		var err error
		if list[i], err = n.value(list[i], depth); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (n *normalizer) jsonMap(m map[string]any, depth int) (any, error) {
	if err := n.enter(depth, len(m), mapMemory+groupMemory*((len(m)+6)/7)); err != nil {
		return nil, err
	}
	normalized := make(map[string]any, len(m))
	for key, v := range m {
		if err := n.entry(normalized, key, v, depth); err != nil {
			return nil, err
		}
	}
	return normalized, nil
}

func (n *normalizer) yamlMap(m map[any]any, depth int) (any, error) {
	if err := n.enter(depth, len(m), mapMemory+groupMemory*((len(m)+6)/7)); err != nil {
		return nil, err
	}
	normalized := make(map[string]any, len(m))
	for k, v := range m {
		key, err := keyText(k)
		if err != nil {
			return nil, err
		}
		if _, exists := normalized[key]; exists {
			return nil, errors.New("two keys of a map differ in YAML, but not in JSON (quote them)")
		}
		if err := n.entry(normalized, key, v, depth); err != nil {
			return nil, err
		}
	}
	return normalized, nil
}

// entry adds one normalized entry to a map.
func (n *normalizer) entry(to map[string]any, key string, v any, depth int) error {
	shared, known := n.keys[key]
	if !known {
		shared = key
		n.keys[key] = key
	}
	memory := 0
	if _, counted := n.seen[shared]; !counted {
		memory = len(key) + groupMemory/7
		n.seen[shared] = struct{}{}
	}
	err := n.spend(len(key)+len(`"":`), memory)
	if err != nil {
		return err
	}
	to[shared], err = n.value(v, depth)
	return err
}

// enter accounts for a map or list of the given number of elements.
func (n *normalizer) enter(depth, elements, memory int) error {
	if depth > n.maxDepth {
		return errTooDeep
	}
	return n.spend(len("{}")+max(0, elements-1), memory)
}

// spend takes from what the value may still take as JSON and in memory.
func (n *normalizer) spend(json, memory int) error {
	n.jsonLeft -= int64(json)
	n.memoryLeft -= int64(memory)
	switch {
	case n.jsonLeft < 0:
		return errDocumentTooLarge
	case n.memoryLeft < 0:
		return ErrTooManyBytes
	default:
		return nil
	}
}

// keyText returns the JSON form of a YAML key. YAML keys need not be strings: "80: http" and "on: x" are valid.
func keyText(key any) (string, error) {
	switch key := key.(type) {
	case string:
		return strings.ToValidUTF8(key, "\uFFFD"), nil
	case int:
		return strconv.Itoa(key), nil
	case int64:
		return strconv.FormatInt(key, 10), nil
	case uint64:
		return strconv.FormatUint(key, 10), nil
	case float64:
		return strconv.FormatFloat(key, 'g', -1, 32), nil
	case bool:
		return strconv.FormatBool(key), nil
	default:
		return "", errors.New("a key of a map is not a string, number or boolean")
	}
}
