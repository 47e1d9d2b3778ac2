package v1alpha1

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const mergeTag = "!!merge"

// decode sets value to the content of a node of the YAML tree and adds every fault below the node to faults. A value
// with a fault is not changed, so that defaulting and validation can continue. A null changes nothing.
func decode(node *yaml.Node, value reflect.Value, path *field.Path, faults *field.ErrorList) {
	if node.Kind == yaml.AliasNode || node.Anchor != "" {
		*faults = append(*faults, field.Forbidden(path,
			fmt.Sprintf("anchors and aliases are not supported (line %d)", node.Line)))
		return
	}
	if node.Tag == "!!null" {
		return
	}

	switch kind := value.Kind(); {
	case kind == reflect.Pointer:
		if value.IsNil() {
			value.Set(reflect.New(value.Type().Elem()))
		}
		decode(node, value.Elem(), path, faults)
	case isLeaf(value.Type()):
		decodeLeaf(node, value, path, faults)
	case kind == reflect.Struct:
		decodeStruct(node, value, path, faults)
	case kind == reflect.Map:
		decodeMap(node, value, path, faults)
	default:
		decodeSlice(node, value, path, faults)
	}
}

func decodeStruct(node *yaml.Node, value reflect.Value, path *field.Path, faults *field.ErrorList) {
	if !expect(node, yaml.MappingNode, "keys and values", path, faults) {
		return
	}
	known := fieldsOf(value)
	entries(node, path, faults, func(key, content *yaml.Node, path *field.Path) {
		if f, ok := known[key.Value]; ok {
			decode(content, f, path, faults)
		} else {
			*faults = append(*faults, unknownKey(key, path, known))
		}
	})
}

func decodeMap(node *yaml.Node, value reflect.Value, path *field.Path, faults *field.ErrorList) {
	if !expect(node, yaml.MappingNode, "keys and values", path, faults) {
		return
	}
	value.Set(reflect.MakeMap(value.Type()))
	entries(node, path, faults, func(key, content *yaml.Node, path *field.Path) {
		element := reflect.New(value.Type().Elem()).Elem()
		decode(content, element, path, faults)
		value.SetMapIndex(reflect.ValueOf(key.Value), element)
	})
}

func decodeSlice(node *yaml.Node, value reflect.Value, path *field.Path, faults *field.ErrorList) {
	if !expect(node, yaml.SequenceNode, "a list", path, faults) {
		return
	}
	value.Set(reflect.MakeSlice(value.Type(), len(node.Content), len(node.Content)))
	for i, content := range node.Content {
		decode(content, value.Index(i), path.Index(i), faults)
	}
}

// decodeLeaf converts to JSON, because the types of Kubernetes implement json.Unmarshaler.
func decodeLeaf(node *yaml.Node, value reflect.Value, path *field.Path, faults *field.ErrorList) {
	if !expect(node, yaml.ScalarNode, "a single value", path, faults) {
		return
	}

	invalid := func() {
		*faults = append(*faults, field.TypeInvalid(path, node.Value,
			fmt.Sprintf("must be %s (line %d)", describeType(value.Type()), node.Line)))
	}
	var plain any
	if err := node.Decode(&plain); err != nil {
		invalid()
		return
	}
	raw, err := json.Marshal(plain)
	if err != nil {
		invalid()
		return
	}
	decoded := reflect.New(value.Type())
	if err := json.Unmarshal(raw, decoded.Interface()); err != nil {
		invalid()
		return
	}
	value.Set(decoded.Elem())
}

// entries calls f for each key of a mapping. A duplicate is a fault; different spellings of one key count as the same.
func entries(node *yaml.Node, path *field.Path, faults *field.ErrorList,
	f func(key, content *yaml.Node, path *field.Path)) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, content := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Tag == mergeTag || key.Anchor != "" {
			*faults = append(*faults, field.Forbidden(path, fmt.Sprintf("keys have to be plain words (line %d)", key.Line)))
			continue
		}

		written := key.Value
		path := child(path, written)
		if name, ok := synonyms[withoutIndexes(path)]; ok {
			renamed := *key
			renamed.Value = name
			key = &renamed
		}
		if seen[key.Value] {
			*faults = append(*faults, &field.Error{Type: field.ErrorTypeDuplicate, Field: path.String(), BadValue: written,
				Detail: fmt.Sprintf("the key is there more than once (line %d)", key.Line)})
			continue
		}
		seen[key.Value] = true
		f(key, content, path)
	}
}

// fieldsOf returns the fields of a struct by their JSON names, those of inlined structs included.
func fieldsOf(value reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for structField, fieldValue := range value.Fields() {
		name, options, _ := strings.Cut(structField.Tag.Get("json"), ",")
		switch {
		case options == "inline":
			for inlined, v := range fieldsOf(fieldValue) {
				fields[inlined] = v
			}
		case name != "" && name != "-":
			fields[name] = fieldValue
		}
	}
	return fields
}

func isLeaf(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return true
	}
	return !slices.Contains([]reflect.Kind{reflect.Struct, reflect.Map, reflect.Slice, reflect.Pointer}, t.Kind())
}

func expect(node *yaml.Node, kind yaml.Kind, what string, path *field.Path, faults *field.ErrorList) bool {
	if node.Kind == kind {
		return true
	}
	*faults = append(*faults, field.TypeInvalid(path, describe(node),
		fmt.Sprintf("must be %s (line %d)", what, node.Line)))
	return false
}

// child is field.Path.Child for a path that may be nil.
func child(path *field.Path, name string) *field.Path {
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}

func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		return "a single value"
	default:
		return "an alias"
	}
}

func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string; put it in quotes if it looks like something else"
	default:
		return `a duration such as "30s" or "5m"`
	}
}
