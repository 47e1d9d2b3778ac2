package diff

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/mask"
)

// Field is a field that changes. From is nil for one that is added, To for one that is removed.
type Field struct {
	Path string `json:"path"`
	From any    `json:"from,omitempty"`
	To   any    `json:"to,omitempty"`
}

// serverFields are the metadata fields that only servers set.
var serverFields = []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"}

// content is an object without fields that only servers set, and without the description, which differs in a Gardener
// resource manager.
func content(obj *unstructured.Unstructured) map[string]any {
	if obj == nil {
		return nil
	}
	out := runtime.DeepCopyJSON(obj.Object)
	delete(out, "status")
	if metadata, ok := out["metadata"].(map[string]any); ok {
		for _, field := range serverFields {
			delete(metadata, field)
		}
	}
	unstructured.RemoveNestedField(out, "metadata", "annotations", resourcesv1alpha1.DescriptionAnnotation)
	return out
}

// Compare lists the fields in which two objects differ, in order. The values of Secrets are masked.
func Compare(before, after *unstructured.Unstructured) []Field {
	c := comparison{kind: after.GetKind()}
	c.maps(content(before), content(after), nil, "")
	return c.fields
}

type comparison struct {
	kind   string
	fields []Field
}

// maps compares two maps. path has the field names, text is the path for users.
func (c *comparison) maps(before, after map[string]any, path []string, text string) {
	keys := slices.Collect(maps.Keys(before))
	for key := range after {
		if _, both := before[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		b, wasThere := before[key]
		a, isThere := after[key]
		c.values(b, wasThere, a, isThere, append(path[:len(path):len(path)], key), join(text, key))
	}
}

// join writes a path as in a manifest; a key that has dots, as labels do, goes into brackets.
func join(text, key string) string {
	switch {
	case strings.ContainsAny(key, "./[] "):
		return text + "[" + key + "]"
	case text == "":
		return key
	}
	return text + "." + key
}

func (c *comparison) values(before any, wasThere bool, after any, isThere bool, path []string, text string) {
	if wasThere && isThere && reflect.DeepEqual(before, after) {
		return
	}
	b, beforeIsMap := before.(map[string]any)
	a, afterIsMap := after.(map[string]any)
	if (beforeIsMap || !wasThere || before == nil) && (afterIsMap || !isThere || after == nil) && len(a)+len(b) > 0 {
		c.maps(b, a, path, text)
		return
	}
	beforeList, beforeIsList := before.([]any)
	afterList, afterIsList := after.([]any)
	if beforeIsList && afterIsList {
		c.lists(beforeList, afterList, path, text)
		return
	}
	f := Field{Path: cli.Text(text)}
	if wasThere {
		f.From = c.shown(before, path)
	}
	if isThere {
		f.To = c.shown(after, path)
	}
	if isEmpty(before) && isEmpty(after) {
		return // an empty map and a missing one are equal
	}
	c.fields = append(c.fields, f)
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// shown is a value as it may be shown.
func (c *comparison) shown(value any, path []string) any {
	if mask.Hidden(c.kind, path...) {
		return mask.HiddenValue(value, path[0] == "data")
	}
	return value
}

// itemKeys are the key fields of list items in most APIs.
var itemKeys = []string{"name", "key", "type", "mountPath", "containerPort", "port", "ip", "topologyKey"}

// lists compares two lists: by the name of their items if they have any, else by what they have in common.
func (c *comparison) lists(before, after []any, path []string, text string) {
	for _, key := range itemKeys {
		b, bNames, ok := byKey(before, key)
		if !ok {
			continue
		}
		a, aNames, ok := byKey(after, key)
		if !ok {
			continue
		}
		for _, name := range aNames {
			if !slices.Contains(bNames, name) {
				bNames = append(bNames, name)
			}
		}
		for _, name := range bNames {
			before, wasThere := b[name]
			after, isThere := a[name]
			c.item(before, wasThere, after, isThere, path, text+"["+name+"]")
		}
		return
	}
	i, j := 0, 0
	for _, same := range append(common(before, after), [2]int{len(before), len(after)}) {
		c.gap(before[i:same[0]], after[j:same[1]], i, j, path, text)
		i, j = same[0]+1, same[1]+1
	}
}

// gap compares the items between two common items of the lists. They are compared one by one; surplus items of one side
// are added or removed. They are named by their position in the list that has them.
func (c *comparison) gap(before, after []any, i, j int, path []string, text string) {
	for k := range max(len(before), len(after)) {
		var b, a any
		at := j + k
		if k < len(before) {
			b = before[k]
		}
		if k < len(after) {
			a = after[k]
		} else {
			at = i + k
		}
		c.item(b, k < len(before), a, k < len(after), path, fmt.Sprintf("%s[%d]", text, at))
	}
}

// commonLimit bounds the work for finding common items: the product of the lengths, which is the size of the table.
// Longer lists are compared by position.
const commonLimit = 1 << 20

// common returns the positions of equal items in two lists, as many as there can be in the same order.
func common(before, after []any) (positions [][2]int) {
	n, m := len(before), len(after)
	if n*m > commonLimit {
		return nil
	}
	// length has the number of common items after each pair of positions.
	length := make([][]int, n+1)
	for i := range length {
		length[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if reflect.DeepEqual(before[i], after[j]) {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < n && j < m; {
		switch {
		case reflect.DeepEqual(before[i], after[j]):
			positions = append(positions, [2]int{i, j})
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return positions
}

// item compares an item of a list. An added or removed one is shown as a whole.
func (c *comparison) item(before any, wasThere bool, after any, isThere bool, path []string, text string) {
	switch {
	case wasThere && isThere:
		c.values(before, true, after, true, append(path[:len(path):len(path)], text), text)
	case wasThere:
		c.fields = append(c.fields, Field{Path: cli.Text(text), From: c.shown(before, path)})
	default:
		c.fields = append(c.fields, Field{Path: cli.Text(text), To: c.shown(after, path)})
	}
}

// byKey maps the items of a list by one of their fields; false if its values are not unique.
func byKey(list []any, key string) (items map[string]any, names []string, ok bool) {
	items = map[string]any{}
	for _, item := range list {
		fields, isMap := item.(map[string]any)
		if !isMap {
			return nil, nil, false
		}
		value, found := fields[key]
		name := fmt.Sprint(value)
		if _, twice := items[name]; !found || twice {
			return nil, nil, false
		}
		items[name] = item
		names = append(names, name)
	}
	return items, names, true
}

// render writes a value in a line.
func render(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	text := string(raw)
	if plain, ok := value.(string); ok && strings.HasPrefix(plain, "(hidden") {
		text = plain
	}
	return cli.Text(text)
}
