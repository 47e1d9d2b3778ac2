package differential

import (
	_ "embed"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Kind is how manifests of a kind are drawn.
type Kind struct {
	// Base is what all of them have, with apiVersion and kind.
	Base map[string]any `json:"base"`
	// Parts are the forms that a part may have, by its path. A manifest has at most one of them.
	Parts map[string][]any `json:"parts"`
	// More are further parts.
	More map[string][]any `json:"more,omitempty"`
}

//go:embed kinds.yaml
var kindsText []byte

// Builtin returns the kinds that an API server brings along.
func Builtin() (kinds []Kind, err error) {
	if err := yaml.UnmarshalStrict(kindsText, &kinds); err != nil {
		return nil, fmt.Errorf("kinds.yaml: %w", err)
	}
	for i := range kinds {
		kinds[i].Base, _ = integers(kinds[i].Base).(map[string]any)
		maps.Copy(kinds[i].Parts, kinds[i].More)
		for path, forms := range kinds[i].Parts {
			kinds[i].Parts[path], _ = integers(forms).([]any)
		}
	}
	return kinds, nil
}

// Name is that of the kind.
func (k Kind) Name() string { return fmt.Sprint(k.Base["kind"]) }

// Manifest draws a manifest. One that follows another one shares most of its parts with it, as changes do.
func (k Kind) Manifest(random *rand.Rand, chosen map[string]int) *unstructured.Unstructured {
	object := runtime.DeepCopyJSON(k.Base)
	for _, path := range slices.Sorted(maps.Keys(k.Parts)) {
		forms := k.Parts[path]
		if _, drawn := chosen[path]; !drawn || random.IntN(3) == 0 {
			chosen[path] = random.IntN(2*len(forms)+1) - len(forms) - 1 // below zero: absent
		}
		if form := chosen[path]; form >= 0 {
			set(object, strings.Split(path, "."), runtime.DeepCopyJSONValue(forms[form]))
		}
	}
	return &unstructured.Unstructured{Object: object}
}

// set sets a field, and makes the maps on the way.
func set(object map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		next, ok := object[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[name] = next
		}
		object = next
	}
	object[path[len(path)-1]] = value
}

// integers turns numbers into those of JSON as unstructured objects have them.
func integers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = integers(v[name])
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case float64:
		return int64(v)
	}
	return value
}
