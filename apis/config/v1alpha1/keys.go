package v1alpha1

import "strings"

// synonyms are alternative spellings of keys, by their paths. The documentation and the example file of Gardener's
// resource manager use the plural, its decoder knows only the singular; here both are valid. Its documentation calls
// the token invalidator tokenValidator. Paths are those without the numbers in indexes.
var synonyms = map[string]string{
	"controllers.managedResources":         "managedResource",
	"classes[].controllers.tokenValidator": "tokenInvalidator",
	"classes[].webhooks.tokenValidator":    "tokenInvalidator",
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
	"controllers.rootCAPublisher": "kube-controller-manager publishes the authority of the API server " +
		"in every namespace",
	"controllers.secret":                         "Secrets of ManagedResources are watched, they need no workers",
	"controllers.tokenInvalidator":               ofClasses,
	"controllers.tokenRequestor":                 ofClasses,
	"controllers.tokenValidator":                 ofClasses,
	"server.webhooks.tls":                        certificateInSecret,
	"sourceClientConnection.acceptContentTypes":  "the hub chooses content types itself",
	"sourceClientConnection.cacheResyncPeriod":   "caches are never resynchronised, they follow watches",
	"sourceClientConnection.contentType":         "the hub chooses content types itself",
	"sourceClientConnection.namespace":           manyNamespaces,
	"sourceClientConnection.namespaces":          manyNamespaces,
	"targetClientConnection.acceptContentTypes":  "the hub chooses content types itself",
	"targetClientConnection.cacheResyncPeriod":   "caches are never resynchronised, they follow watches",
	"targetClientConnection.contentType":         "the hub chooses content types itself",
	"targetClientConnection.kubeconfig":          "a target is registered by a kubeconfig Secret in the source cluster",
	"targetClientConnection.namespace":           "the hub watches only the objects that it manages",
	"targetClientConnection.namespaces":          "the hub watches only the objects that it manages",
	"targetClientConnection.disableCachedClient": "the hub watches only the objects that it manages",
	"webhooks": ofWebhooks,
}

const (
	certificateInSecret = "the hub has its certificate in a Secret, see server.webhooks.certificates"

	ofClasses      = "each class says what works in its targets, see classes[].controllers"
	ofWebhooks     = "each class says which webhooks its targets have, see classes[].webhooks"
	ofNodes        = "the key is called nodeCriticalComponents now, and each class has it, see classes[].controllers"
	notPorted      = "the hub does not do this; gardener-resource-manager stays in charge of it"
	manyNamespaces = "the hub serves all namespaces that have a registration or match a class's namespaceSelector"
)

// WhyForeign explains why the hub does not have a key of the configuration of Gardener's resource manager, by its path
// without the numbers in indexes, or by that of a key above it; empty for a key that it has.
func WhyForeign(path string) string {
	for ; path != ""; path = path[:max(0, strings.LastIndexByte(path, '.'))] {
		if explanation, ok := foreign[path]; ok {
			return explanation
		}
	}
	return ""
}
