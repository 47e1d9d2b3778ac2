package differential

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// wanted is a difference that is wanted.
type wanted struct {
	Kind   string `json:"kind"`
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

//go:embed wanted.yaml
var wantedText []byte

// Wanted returns the paths that may differ, by kind.
func Wanted() (map[string][]string, error) {
	var list []wanted
	if err := yaml.UnmarshalStrict(wantedText, &list); err != nil {
		return nil, fmt.Errorf("wanted.yaml: %w", err)
	}
	out := map[string][]string{}
	for _, w := range list {
		if w.Reason == "" {
			return nil, fmt.Errorf("wanted.yaml: %s of %s has no reason", w.Path, w.Kind)
		}
		out[w.Kind] = append(out[w.Kind], w.Path)
	}
	return out, nil
}

// Content is what is compared of an object, in YAML: all but its status, what the server alone sets, and what may
// differ. Its name and namespace stand for those of its twin, too.
func Content(obj *unstructured.Unstructured, but []string) (string, error) {
	content := runtime.DeepCopyJSON(obj.Object)
	delete(content, "status")
	if metadata, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = map[string]any{"labels": metadata["labels"], "annotations": metadata["annotations"]}
	}
	for _, path := range but {
		drop(content, strings.Split(path, "."))
	}
	text, err := yaml.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encoding %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return string(text), nil
}

func drop(node any, path []string) {
	switch node := node.(type) {
	case map[string]any:
		if len(path) == 1 {
			delete(node, path[0])
			return
		}
		drop(node[path[0]], path[1:])
	case []any:
		for item := range slices.Values(node) {
			drop(item, path[1:])
		}
	}
}
