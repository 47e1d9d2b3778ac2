package v1alpha1

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

// synonyms are alternative spellings of keys, by their paths. The documentation and the example file of Gardener's
// resource manager use the plural, its decoder knows only the singular; here both are valid. Its documentation calls the
// token invalidator tokenValidator. Paths are those without the numbers in indexes.
var synonyms = map[string]string{
	"controllers.managedResources":         "managedResource",
	"classes[].controllers.tokenValidator": "tokenInvalidator",
}

// foreign are the keys of the configuration of Gardener's resource manager that the hub does not have, by their paths
// without the numbers in indexes, with the explanation in the error.
var foreign = map[string]string{
	"controllers.cacheSyncTimeout":                "each step of a connection has a deadline of its own, see clusterCache",
	"controllers.csrApprover":                     ofClasses,
	"controllers.garbageCollector":                ofClasses,
	"controllers.kubeletCSRApprover":              ofClasses,
	"controllers.health":                          "health is watched, it needs no workers and no period",
	"controllers.istioClusterConfiguration":       ofClasses,
	"controllers.managedResource.concurrentSyncs": "each class has its own workers, see classes[].concurrentSyncs",
	"controllers.networkPolicy":                   ofClasses,
	"controllers.node":                            ofNodes,
	"controllers.nodeAgentReconciliationDelay":    ofClasses,
	"controllers.nodeCriticalComponents":          ofClasses,
	"controllers.resourceClass":                   "a hub can have several classes, see classes",
	"controllers.tokenInvalidator":                ofClasses,
	"controllers.tokenRequestor":                  ofClasses,
	"controllers.tokenValidator":                  ofClasses,
	"server.webhooks":                             notPorted,
	"sourceClientConnection.acceptContentTypes":   "the hub chooses content types itself",
	"sourceClientConnection.cacheResyncPeriod":    "caches are never resynchronised, they follow watches",
	"sourceClientConnection.contentType":          "the hub chooses content types itself",
	"sourceClientConnection.namespace":            manyNamespaces,
	"sourceClientConnection.namespaces":           manyNamespaces,
	"targetClientConnection.acceptContentTypes":   "the hub chooses content types itself",
	"targetClientConnection.cacheResyncPeriod":    "caches are never resynchronised, they follow watches",
	"targetClientConnection.contentType":          "the hub chooses content types itself",
	"targetClientConnection.kubeconfig":           "a target is registered by a kubeconfig Secret in the source cluster",
	"targetClientConnection.namespace":            "the hub watches only the objects that it manages",
	"targetClientConnection.namespaces":           "the hub watches only the objects that it manages",
	"targetClientConnection.disableCachedClient":  "the hub watches only the objects that it manages",
	"webhooks": notPorted,
}

const (
	ofClasses      = "each class says what works in its targets, see classes[].controllers"
	ofNodes        = "the key is called nodeCriticalComponents now, and each class has it, see classes[].controllers"
	notPorted      = "the hub does not do this; gardener-resource-manager stays in charge of it"
	manyNamespaces = "the hub serves all namespaces that have a registration or match a class's namespaceSelector"
)

// unknownKey explains a key that the configuration does not have.
func unknownKey(key *yaml.Node, path *field.Path, known map[string]reflect.Value) *field.Error {
	if explanation, ok := foreign[pathWithSynonyms(path)]; ok {
		return field.Forbidden(path, fmt.Sprintf(
			"this key of gardener-resource-manager is not supported (line %d): %s", key.Line, explanation))
	}
	return field.Forbidden(path, fmt.Sprintf(
		"unknown key (line %d); the nearest known one is %q", key.Line, nearest(key.Value, slices.Sorted(maps.Keys(known)))))
}

// index is one of a list in a path.
var index = regexp.MustCompile(`\[[0-9]+\]`)

// pathWithSynonyms is a path without the numbers in indexes, with the names that its synonyms stand for.
func pathWithSynonyms(path *field.Path) string {
	name := withoutIndexes(path)
	for written, meant := range synonyms {
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
