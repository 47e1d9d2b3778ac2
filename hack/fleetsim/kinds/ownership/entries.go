package ownership

import (
	"cmp"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// entryKey, together with the time, identifies an entry of managedFields.
type entryKey struct{ manager, operation, apiVersion, subresource, time string }

func keyOf(entry any) entryKey {
	e, _ := entry.(map[string]any)
	text := func(name string) string { s, _ := e[name].(string); return s }
	return entryKey{text("manager"), text("operation"), text("apiVersion"), text("subresource"), text("time")}
}

// Entries returns the managedFields as they are. None is changed in place.
func Entries(o *unstructured.Unstructured) []any {
	metadata, _ := o.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	return entries
}

// Without returns the object without its managedFields. It shares its content with o. Often they are half of an object,
// and nothing but a field manager's own work depends on them.
func Without(o *unstructured.Unstructured) *unstructured.Unstructured {
	metadata, _ := o.Object["metadata"].(map[string]any)
	if _, found := metadata["managedFields"]; !found {
		return o
	}
	content, metadata := maps.Clone(o.Object), maps.Clone(metadata)
	delete(metadata, "managedFields")
	content["metadata"] = metadata
	return &unstructured.Unstructured{Object: content}
}

// Untouched reports whether a field manager found nothing to change in live when it made o: it has given no entry a new
// time. Times are in seconds, so within the same second only Same can say.
func Untouched(o, live *unstructured.Unstructured) bool {
	return slices.EqualFunc(Entries(o), Entries(live), func(a, b any) bool { return keyOf(a) == keyOf(b) })
}

// Stamp gives the entries that a field manager has touched just now, that is those with a time that none of the known ones
// has, the time of the server's own clock.
func Stamp(o *unstructured.Unstructured, now time.Time, known ...[]any) {
	entries := Entries(o)
	if len(entries) == 0 {
		return
	}
	old := map[entryKey]bool{}
	for _, list := range known {
		for _, entry := range list {
			old[keyOf(entry)] = true
		}
	}
	for _, entry := range entries {
		if e, ok := entry.(map[string]any); ok && e["time"] != nil && !old[keyOf(entry)] {
			e["time"] = now.UTC().Format(time.RFC3339)
		}
	}
	slices.SortStableFunc(entries, func(a, b any) int {
		x, y := keyOf(a), keyOf(b)
		return cmp.Or(cmp.Compare(x.operation, y.operation), cmp.Compare(x.time, y.time), cmp.Compare(x.manager, y.manager),
			cmp.Compare(x.apiVersion, y.apiVersion), cmp.Compare(x.subresource, y.subresource))
	})
}

// Same reports whether two objects differ in nothing, the times in managedFields aside.
func Same(a, b *unstructured.Unstructured) bool {
	if len(a.Object) != len(b.Object) {
		return false
	}
	for key, value := range a.Object {
		other, ok := b.Object[key]
		if !ok {
			return false
		}
		if key != "metadata" {
			if !apiequality.Semantic.DeepEqual(value, other) {
				return false
			}
			continue
		}
		x, _ := value.(map[string]any)
		y, _ := other.(map[string]any)
		if len(x) != len(y) {
			return false
		}
		for key, value := range x {
			other, ok := y[key]
			if !ok {
				return false
			}
			if key == "managedFields" {
				if !sameEntries(value, other) {
					return false
				}
			} else if !apiequality.Semantic.DeepEqual(value, other) {
				return false
			}
		}
	}
	return true
}

func sameEntries(a, b any) bool {
	x, _ := a.([]any)
	y, _ := b.([]any)
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		p, _ := x[i].(map[string]any)
		q, _ := y[i].(map[string]any)
		if len(p) != len(q) {
			return false
		}
		for key, value := range p {
			if key != "time" && !apiequality.Semantic.DeepEqual(value, q[key]) {
				return false
			}
		}
	}
	return true
}
