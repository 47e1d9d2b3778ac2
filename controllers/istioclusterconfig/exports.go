package istioclusterconfig

import (
	"slices"
	"strings"
)

// Entries of exportTo that are no names of namespaces. Nowhere is the default, too: that differs from Istio's own one,
// because Gardener configures Istio so.
const (
	toAll  = "*"
	toOwn  = "."
	toNone = "~"
)

// exports are the namespaces that see something.
type exports struct {
	all        bool
	namespaces []string // sorted
}

// exportsOf reads exportTo of something in a namespace. What cannot be the name of a namespace is left out.
func exportsOf(entries []string, own string) (e exports) {
	for _, entry := range entries {
		switch entry = strings.TrimSpace(entry); {
		case entry == toAll:
			return exports{all: true}
		case entry == toOwn:
			e.namespaces = append(e.namespaces, own)
		case entry != toNone && entry != "" && len(entry) <= maxNamespace:
			e.namespaces = append(e.namespaces, strings.Clone(entry))
		}
	}
	slices.Sort(e.namespaces)
	e.namespaces = slices.Compact(e.namespaces)
	return e
}

func (e *exports) nowhere() bool { return !e.all && len(e.namespaces) == 0 }

func (e *exports) to(namespace string) bool {
	if e.all {
		return true
	}
	_, found := slices.BinarySearch(e.namespaces, namespace)
	return found
}
