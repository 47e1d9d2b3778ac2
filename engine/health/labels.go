package health

import (
	"cmp"
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/labels"
)

// Labels are the labels of an object with interned names and values, which saves memory: the pods of hundreds of
// targets share a few of them.
type Labels []label

type label struct{ name, value unique.Handle[string] }

var _ labels.Labels = &Labels{}

// LabelsOf returns labels sorted by name, so that equal labels compare as equal.
func LabelsOf(values map[string]string) Labels {
	all := make(Labels, 0, len(values))
	for name, value := range values {
		all = append(all, label{unique.Make(name), unique.Make(value)})
	}
	slices.SortFunc(all, func(a, b label) int { return cmp.Compare(a.name.Value(), b.name.Value()) })
	return all
}

// Lookup returns the value of a label, and whether there is one.
func (l Labels) Lookup(name string) (value string, exists bool) {
	for _, label := range l { // there are a handful
		if label.name.Value() == name {
			return label.value.Value(), true
		}
	}
	return "", false
}

// Has reports whether there is a label of that name.
func (l Labels) Has(name string) bool {
	_, exists := l.Lookup(name)
	return exists
}

// Get returns the value of a label, "" if there is none.
func (l Labels) Get(name string) string {
	value, _ := l.Lookup(name)
	return value
}
