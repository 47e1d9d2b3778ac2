package apply

import (
	"regexp"
	"strconv"
	"strings"
)

// notDeclared matches one unknown field in a server's message.
var notDeclared = regexp.MustCompile(`(?m)(\.[^\s].*?): field not declared in schema`)

func mentionsUnknownFields(err error) bool {
	return strings.Contains(err.Error(), "field not declared in schema")
}

// cutUnknownFields removes from obj the fields that the server does not know, and returns their paths. Nothing is
// removed if the error is of another kind.
func cutUnknownFields(obj interface{ UnstructuredContent() map[string]any }, err error) []string {
	var cut []string
	for _, m := range notDeclared.FindAllStringSubmatch(err.Error(), -1) {
		if path, ok := splitPath(m[1]); ok && removePath(obj.UnstructuredContent(), path) {
			cut = append(cut, m[1])
		}
	}
	return cut
}

// step is a field name, or the key of a list item.
type step struct {
	field string
	item  map[string]string // key fields with their values
	index int               // position, if item is nil and field is empty
}

// splitPath reads paths such as .spec.template.spec.containers[name="app"].imagee and .spec.rules[0].hosst.
func splitPath(s string) ([]step, bool) {
	var out []step
	for s != "" {
		switch s[0] {
		case '.':
			end := strings.IndexAny(s[1:], ".[")
			if end < 0 {
				end = len(s) - 1
			}
			if end == 0 {
				return nil, false
			}
			out = append(out, step{field: s[1 : end+1]})
			s = s[end+1:]
		case '[':
			end := strings.IndexByte(s, ']')
			if end < 0 {
				return nil, false
			}
			inner := s[1:end]
			s = s[end+1:]
			if i, err := strconv.Atoi(inner); err == nil {
				out = append(out, step{index: i})
				continue
			}
			item := map[string]string{}
			for part := range strings.SplitSeq(inner, ",") {
				key, value, found := strings.Cut(part, "=")
				if !found {
					return nil, false
				}
				item[key] = strings.Trim(value, `"`)
			}
			out = append(out, step{item: item})
		default:
			return nil, false
		}
	}
	return out, len(out) > 0 && out[len(out)-1].field != ""
}

func removePath(node any, path []step) bool {
	switch s := path[0]; {
	case s.field != "":
		m, ok := node.(map[string]any)
		if !ok {
			return false
		}
		child, found := m[s.field]
		if !found {
			return false
		}
		if len(path) == 1 {
			delete(m, s.field)
			return true
		}
		return removePath(child, path[1:])
	default:
		list, ok := node.([]any)
		if !ok {
			return false
		}
		removed := false
		for i, element := range list {
			if s.item == nil && i == s.index || s.item != nil && hasKeys(element, s.item) {
				removed = removePath(element, path[1:]) || removed
			}
		}
		return removed
	}
}

// hasKeys reports whether a list item has the given keys. A key that the item omits matches, since it may have a
// default (a port's protocol).
func hasKeys(element any, keys map[string]string) bool {
	m, ok := element.(map[string]any)
	if !ok {
		return false
	}
	matched := false
	for k, want := range keys {
		have, found := m[k]
		if !found {
			continue
		}
		if text(have) != want {
			return false
		}
		matched = true
	}
	return matched
}

func text(v any) string {
	switch t := v.(type) {
	case string:
		return t
	case int64:
		return strconv.FormatInt(t, 10)
	case bool:
		return strconv.FormatBool(t)
	default:
		return ""
	}
}
