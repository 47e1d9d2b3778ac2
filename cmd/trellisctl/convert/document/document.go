package document

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"
)

// commentWidth is how long a line of a comment may be, without its indentation.
const commentWidth = 100

// Document is a YAML document. Its keys stand in the order in which they were set.
type Document struct {
	root *yaml.Node
	keys map[string]*yaml.Node
}

// New returns an empty document.
func New() *Document {
	return &Document{root: &yaml.Node{Kind: yaml.MappingNode}, keys: map[string]*yaml.Node{}}
}

// Set sets a key by its path, such as classes[0].name. All above it that does not exist is made: mappings, and lists of
// one mapping.
func (d *Document) Set(path string, value any) error {
	content, err := encode(value)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	parent, at := d.root, ""
	elements := strings.Split(path, ".")
	for i, element := range elements {
		name, isList := strings.CutSuffix(element, "[0]")
		at = strings.TrimPrefix(at+"."+name, ".")
		last := i == len(elements)-1
		key := d.keys[at]
		if key == nil {
			key = &yaml.Node{Kind: yaml.ScalarNode, Value: name}
			below := &yaml.Node{Kind: yaml.MappingNode}
			if isList {
				below = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{below}}
			}
			parent.Content = append(parent.Content, key, below)
			d.keys[at] = key
		}
		below := 1 + slices.Index(parent.Content, key)
		if last {
			parent.Content[below] = content
		}
		parent = parent.Content[below]
		if isList {
			parent = parent.Content[0]
			at += "[0]"
		}
	}
	return nil
}

// encode makes a node of a value by its JSON names.
func encode(value any) (*yaml.Node, error) {
	if d, ok := value.(time.Duration); ok {
		value = Short(d)
	}
	raw, err := k8syaml.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding a value: %w", err)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(raw, &node); err != nil {
		return nil, fmt.Errorf("encoding a value: %w", err)
	}
	return node.Content[0], nil
}

// Short is a duration without what is zero at its end.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Comment adds a comment to a key, and reports whether there is such a key.
func (d *Document) Comment(path, text string) bool {
	key := d.keys[path]
	if key == nil {
		return false
	}
	if key.HeadComment != "" {
		key.HeadComment += "\n"
	}
	key.HeadComment += strings.Join(wrapped(text), "\n")
	return true
}

// wrapped are the lines of a comment.
func wrapped(text string) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > commentWidth {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// Without is the document without some keys, of which all levels have to exist or none.
func (d *Document) Without(paths ...string) {
	for _, path := range paths {
		removeKey(d.root, strings.Split(path, "."))
		delete(d.keys, path)
	}
}

// removeKey removes a key, and what is empty without it.
func removeKey(parent *yaml.Node, path []string) {
	for n := 0; n+1 < len(parent.Content); n += 2 {
		if parent.Content[n].Value != path[0] {
			continue
		}
		below := parent.Content[n+1]
		if len(path) > 1 {
			removeKey(below, path[1:])
		}
		if len(path) == 1 || len(below.Content) == 0 {
			parent.Content = append(parent.Content[:n:n], parent.Content[n+2:]...)
		}
		return
	}
}

// Below puts everything below a key.
func (d *Document) Below(key string) {
	d.root = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: key}, d.root}}
}

// YAML are the bytes of the document, after some comments of its own.
func (d *Document) YAML(head []string) ([]byte, error) {
	var out bytes.Buffer
	for _, text := range head {
		for i, line := range wrapped(text) {
			prefix := "# - "
			if i > 0 {
				prefix = "#   "
			}
			out.WriteString(prefix + line + "\n")
		}
	}
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(d.root); err != nil {
		return nil, fmt.Errorf("encoding the output: %w", err)
	}
	return out.Bytes(), nil
}
