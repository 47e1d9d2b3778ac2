package kubeconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// Bounds of the text of a kubeconfig.
const (
	// MaxBytes is how long a kubeconfig may be. Usual ones have 2 to 20 KiB.
	MaxBytes = 64 << 10
	// maxElements is how many keys, values and lists it may have, maxDepth how deeply they may be nested.
	maxElements = 4096
	maxDepth    = 32
)

const tagMerge, tagNull, tagBool, tagInt, tagFloat = "!!merge", "!!null", "!!bool", "!!int", "!!float"

func tooLong() error { return invalid("the kubeconfig has more than %d bytes", MaxBytes) }

// toJSON turns YAML or JSON of one document into plain JSON. Nothing is expanded: anchors, aliases, merge keys and tags
// are refused. So the decoded result is about as large as the text.
func toJSON(content []byte) ([]byte, error) {
	if len(content) > MaxBytes {
		return nil, tooLong()
	}
	// The parser takes a hundred times as long for a byte that begins an element as for one of base64.
	for _, beginning := range []string{"\n", ",", "[", "{", "- ", "? "} {
		if bytes.Count(content, []byte(beginning)) > maxElements {
			return nil, invalid("the kubeconfig has more than %d elements or lines", maxElements)
		}
	}
	root, err := parseYAML(content)
	if err != nil {
		return nil, err
	}
	c := converter{}
	value, err := c.convert(root, 0)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, errNoKubeconfig()
	}
	return raw, nil
}

// errNoKubeconfig leaves out the message of the parser: it may quote what it failed on.
func errNoKubeconfig() error {
	return invalid("the content is no kubeconfig: it is neither YAML nor JSON of kind Config")
}

// parseYAML returns the tree of the only document that is not empty. The tree has a node for each alias, not what it
// stands for.
func parseYAML(content []byte) (root *yaml.Node, err error) {
	defer func() {
		if recover() != nil { // the parser gets untrusted input
			root, err = nil, errNoKubeconfig()
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF) && root == nil:
			return nil, errNoKubeconfig()
		case errors.Is(err, io.EOF):
			return root, nil
		case err != nil || document.Kind != yaml.DocumentNode || len(document.Content) != 1:
			return nil, errNoKubeconfig()
		}
		switch node := document.Content[0]; {
		case node.Kind == yaml.ScalarNode && node.Tag == tagNull && node.Anchor == "":
			// an empty one, such as the one after a separator at the end
		case root != nil:
			return nil, invalid("the content has more than one YAML document")
		default:
			root = node
		}
	}
}

// converter turns nodes into values that encoding/json writes.
type converter struct{ elements int }

func (c *converter) convert(node *yaml.Node, depth int) (any, error) {
	if c.elements++; c.elements > maxElements {
		return nil, invalid("the kubeconfig has more than %d elements", maxElements)
	}
	if depth > maxDepth {
		return nil, invalid("the kubeconfig is nested more than %d levels deep", maxDepth)
	}
	switch {
	case node.Kind == yaml.AliasNode || node.Anchor != "":
		return nil, invalid("the kubeconfig has YAML anchors or aliases, which the hub does not expand")
	case node.Tag == tagMerge:
		return nil, invalid("the kubeconfig has YAML merge keys, which the hub does not expand")
	case node.Style&yaml.TaggedStyle != 0:
		return nil, invalid("the kubeconfig has YAML tags")
	}
	switch node.Kind {
	case yaml.MappingNode:
		return c.convertMapping(node, depth)
	case yaml.SequenceNode:
		values := make([]any, len(node.Content))
		for i, element := range node.Content {
			var err error
			if values[i], err = c.convert(element, depth+1); err != nil {
				return nil, err
			}
		}
		return values, nil
	default:
		return scalar(node)
	}
}

// convertMapping lets the last one of two equal keys win, as kubectl does.
func (c *converter) convertMapping(node *yaml.Node, depth int) (any, error) {
	values := make(map[string]any, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if _, err := c.convert(key, depth+1); err != nil {
			return nil, err
		}
		if key.Kind != yaml.ScalarNode {
			return nil, errNoKubeconfig()
		}
		value, err := c.convert(node.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		values[key.Value] = value
	}
	return values, nil
}

// scalar returns what a single value stands for. What is neither a number nor a boolean is a text, dates among them.
func scalar(node *yaml.Node) (any, error) {
	var err error
	switch node.Tag {
	case tagNull:
		return nil, nil //nolint:nilnil // null is a valid value
	case tagBool:
		var value bool
		err = node.Decode(&value)
		return value, unreadable(err)
	case tagInt, tagFloat:
		var value any
		if err = node.Decode(&value); err != nil {
			return nil, unreadable(err)
		}
		if raw, err := json.Marshal(value); err == nil { // JSON has no infinity
			return json.RawMessage(raw), nil
		}
	}
	return node.Value, nil
}

// unreadable hides the message of a parser.
func unreadable(err error) error {
	if err != nil {
		return errNoKubeconfig()
	}
	return nil
}
