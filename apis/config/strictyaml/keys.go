package strictyaml

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Keys are keys that are not fields, by their paths without the numbers in indexes.
type Keys struct {
	// Synonyms are alternative spellings of keys, with the names of the fields that they mean.
	Synonyms map[string]string
	// Foreign are keys of Gardener's resource manager that are refused, with the explanation in the error.
	Foreign map[string]string
}

// unknown explains a key that a file does not have.
func (k Keys) unknown(key *yaml.Node, path *field.Path, known map[string]reflect.Value) *field.Error {
	if explanation, ok := k.Foreign[k.meant(path)]; ok {
		return field.Forbidden(path, fmt.Sprintf(
			"this key of gardener-resource-manager is not supported (line %d): %s", key.Line, explanation))
	}
	return field.Forbidden(path, fmt.Sprintf(
		"unknown key (line %d); the nearest known one is %q", key.Line, nearest(key.Value, slices.Sorted(maps.Keys(known)))))
}

// index is one of a list in a path.
var index = regexp.MustCompile(`\[[0-9]+\]`)

// meant is a path without the numbers in indexes, with the names that its synonyms stand for.
func (k Keys) meant(path *field.Path) string {
	name := withoutIndexes(path)
	for written, meant := range k.Synonyms {
		if rest, ok := strings.CutPrefix(name, written); ok && (rest == "" || rest[0] == '.') {
			return written[:strings.LastIndexByte(written, '.')+1] + meant + rest
		}
	}
	return name
}

func withoutIndexes(path *field.Path) string { return index.ReplaceAllString(path.String(), "[]") }

// nearest returns the candidate with the smallest edit distance to a word, the first one of several. Case does not
// count.
func nearest(word string, candidates []string) string {
	return slices.MinFunc(candidates, func(a, b string) int {
		return editDistance(word, a) - editDistance(word, b)
	})
}

// editDistance is the Levenshtein distance of two words. Words longer than any key are cut, which bounds the cost of a
// huge key.
func editDistance(a, b string) int {
	const longest = 64
	a, b = strings.ToLower(a[:min(len(a), longest)]), strings.ToLower(b)

	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
