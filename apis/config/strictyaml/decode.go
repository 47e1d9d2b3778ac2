package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const mergeTag = "!!merge"

// Lines are the lines of the keys of a file, by their paths as they are written.
type Lines map[string]int

// Decode reads a file into a struct, by the JSON names of its fields, and returns the lines of its keys and every
// fault. What has no fault is in the struct then. The error is about a file that is no YAML, or not one mapping of keys
// to values.
func Decode(data []byte, into any, keys Keys) (Lines, field.ErrorList, error) {
	root, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	d := decoder{keys: keys, lines: Lines{}}
	d.decode(root, reflect.ValueOf(into).Elem(), nil)
	return d.lines, d.faults, nil
}

// decoder decodes a tree, and collects every fault and the line of every key in it.
type decoder struct {
	keys   Keys
	faults field.ErrorList
	lines  Lines
}

// decode sets value to the content of a node of the YAML tree. A value with a fault is not changed, so that defaulting
// and validation can continue. A null changes nothing.
func (d *decoder) decode(node *yaml.Node, value reflect.Value, path *field.Path) {
	if node.Kind == yaml.AliasNode || node.Anchor != "" {
		d.faults = append(d.faults, field.Forbidden(path,
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
		d.decode(node, value.Elem(), path)
	case isLeaf(value.Type()):
		d.decodeLeaf(node, value, path)
	case kind == reflect.Struct:
		d.decodeStruct(node, value, path)
	case kind == reflect.Map:
		d.decodeMap(node, value, path)
	default:
		d.decodeSlice(node, value, path)
	}
}

func (d *decoder) decodeStruct(node *yaml.Node, value reflect.Value, path *field.Path) {
	if !d.expect(node, yaml.MappingNode, "keys and values", path) {
		return
	}
	known := fieldsOf(value)
	d.entries(node, path, func(key, content *yaml.Node, path *field.Path) {
		if f, ok := known[key.Value]; ok {
			d.decode(content, f, path)
		} else {
			d.faults = append(d.faults, d.keys.unknown(key, path, known))
		}
	})
}

func (d *decoder) decodeMap(node *yaml.Node, value reflect.Value, path *field.Path) {
	if !d.expect(node, yaml.MappingNode, "keys and values", path) {
		return
	}
	value.Set(reflect.MakeMap(value.Type()))
	d.entries(node, path, func(key, content *yaml.Node, path *field.Path) {
		element := reflect.New(value.Type().Elem()).Elem()
		d.decode(content, element, path)
		value.SetMapIndex(reflect.ValueOf(key.Value), element)
	})
}

func (d *decoder) decodeSlice(node *yaml.Node, value reflect.Value, path *field.Path) {
	if !d.expect(node, yaml.SequenceNode, "a list", path) {
		return
	}
	value.Set(reflect.MakeSlice(value.Type(), len(node.Content), len(node.Content)))
	for i, content := range node.Content {
		d.decode(content, value.Index(i), path.Index(i))
	}
}

// decodeLeaf converts to JSON, because the types of Kubernetes implement json.Unmarshaler.
func (d *decoder) decodeLeaf(node *yaml.Node, value reflect.Value, path *field.Path) {
	if !d.expect(node, yaml.ScalarNode, "a single value", path) {
		return
	}

	invalid := func() {
		d.faults = append(d.faults, field.TypeInvalid(path, node.Value,
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
func (d *decoder) entries(node *yaml.Node, path *field.Path, f func(key, content *yaml.Node, path *field.Path)) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, content := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Tag == mergeTag || key.Anchor != "" {
			d.faults = append(d.faults, field.Forbidden(path, fmt.Sprintf("keys have to be plain words (line %d)", key.Line)))
			continue
		}

		written := key.Value
		path := child(path, written)
		d.lines[path.String()] = key.Line
		if name, ok := d.keys.Synonyms[withoutIndexes(path)]; ok {
			renamed := *key
			renamed.Value = name
			key = &renamed
		}
		if seen[key.Value] {
			d.faults = append(d.faults, &field.Error{Type: field.ErrorTypeDuplicate, Field: path.String(), BadValue: written,
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

func (d *decoder) expect(node *yaml.Node, kind yaml.Kind, what string, path *field.Path) bool {
	if node.Kind == kind {
		return true
	}
	d.faults = append(d.faults, field.TypeInvalid(path, describe(node),
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

// parse returns the root mapping of the only document in data.
func parse(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&next); err == nil {
		return nil, errors.New("it has more than one document")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}

	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("it has to be a mapping of keys to values, but is %s", describe(root))
	}
	return root, nil
}
