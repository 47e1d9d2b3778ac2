package v1alpha1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Load reads a configuration file. The result has all defaults set and is valid.
//
// The error is an Aggregate (k8s.io/apimachinery/pkg/util/errors) of all faults, each with the path of its field:
// unknown keys, with the nearest known one; duplicate keys; values of the wrong type; and the faults that Validate
// finds. If the file is not YAML, the error is about that alone.
func Load(data []byte) (*HubConfiguration, error) {
	root, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}

	config := &HubConfiguration{}
	var faults field.ErrorList
	decode(root, reflect.ValueOf(config).Elem(), nil, &faults)
	SetDefaults(config)
	faults = append(faults, Validate(config)...)
	if len(faults) > 0 {
		return nil, faults.ToAggregate()
	}
	return config, nil
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
