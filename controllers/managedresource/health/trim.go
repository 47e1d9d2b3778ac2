package health

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Trim removes from an object what no check reads, in place: of spec and status the fields in the table of kinds are left,
// and of conditions those that are looked at, with bounded messages. Check and Progress answer the same as before.
//
// Metadata stays as it is; what of it is worth keeping is for the caller to say, who needs it for other purposes as well.
// Trim fits into the transform of a watch, where the object belongs to nobody else yet.
func Trim(object *unstructured.Unstructured) {
	kind := kinds[object.GroupVersionKind()]
	full := content(object.Object)
	trimmed := make(map[string]any, 5)
	for _, field := range []string{"apiVersion", "kind", "metadata"} {
		if value, exists := full[field]; exists {
			trimmed[field] = value
		}
	}
	for _, path := range kind.fields {
		if value := full.field(path...); value != nil {
			set(trimmed, value, path)
		}
	}
	if conditions := full.trimmedConditions(kind); len(conditions) > 0 {
		set(trimmed, conditions, []string{"status", "conditions"})
	}
	object.Object = trimmed
}

// trimmedConditions returns the conditions that the checks of a kind read, without timestamps.
func (c content) trimmedConditions(kind kind) []any {
	var kept []any
	conditions, _ := c.field("status", "conditions").([]any)
	for _, element := range conditions {
		condition, _ := element.(map[string]any)
		if conditionType, _ := condition["type"].(string); !kind.conditions.Has(conditionType) {
			continue
		}
		trimmed := make(map[string]any, 4)
		for _, field := range []string{"type", "status", "reason", "message"} {
			if text := content(condition).text(field); text != "" {
				trimmed[field] = truncate(text)
			}
		}
		kept = append(kept, trimmed)
	}
	return kept
}

// set puts a value at a path, making the maps on the way. Within trimmed content there is nothing else they could be.
func set(object map[string]any, value any, path []string) {
	for _, name := range path[:len(path)-1] {
		child, exists := object[name].(map[string]any)
		if !exists {
			child = map[string]any{}
			object[name] = child
		}
		object = child
	}
	object[path[len(path)-1]] = value
}
