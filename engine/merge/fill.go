package merge

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// fill copies fields that others own and that the manifest leaves empty into an object that is written in full. It is
// the counterpart of the exemptions in package ownership, for updates that would otherwise remove these fields.
func fill(obj, live *unstructured.Unstructured) {
	take := func(path ...string) {
		last := len(path) - 1
		from, field := mapAt(live.Object, path[:last]...), path[last]
		v, found := from[field]
		if !found {
			return
		}
		if to := ensure(obj.Object, path[:last]...); to != nil && empty(to[field]) {
			to[field] = runtime.DeepCopyJSONValue(v)
		}
	}
	switch gk := obj.GroupVersionKind().GroupKind(); gk.Group + "/" + gk.Kind {
	case "/Namespace":
		take("spec", "finalizers")
	case "/Node":
		for field := range mapAt(live.Object, "spec") {
			take("spec", field)
		}
	case "/PersistentVolume":
		take("spec", "claimRef")
		claim, liveClaim := mapAt(obj.Object, "spec", "claimRef"), mapAt(live.Object, "spec", "claimRef")
		if text(claim["namespace"]) == text(liveClaim["namespace"]) && text(claim["name"]) == text(liveClaim["name"]) {
			for field := range liveClaim { // with the UID of a bound claim, without which the volume would lose its claim
				take("spec", "claimRef", field)
			}
		}
	case "/PersistentVolumeClaim":
		take("spec", "volumeName")
	case "/Pod":
		take("spec", "nodeName")
		take("spec", "tolerations")
		take("spec", "ephemeralContainers")
	case "/Secret":
		if obj.Object["type"] == "kubernetes.io/service-account-token" {
			for key := range mapAt(live.Object, "data") {
				take("data", key)
			}
		}
	case "apiregistration.k8s.io/APIService":
		if !InsecureAPI(obj) {
			take("spec", "caBundle")
		}
	case "apiextensions.k8s.io/CustomResourceDefinition":
		if mapAt(obj.Object, "spec", "conversion", "webhook", "clientConfig") != nil {
			take("spec", "conversion", "webhook", "clientConfig", "caBundle")
		}
	case "rbac.authorization.k8s.io/ClusterRole":
		if obj.Object["aggregationRule"] != nil {
			take("rules")
		}
	case "admissionregistration.k8s.io/MutatingWebhookConfiguration",
		"admissionregistration.k8s.io/ValidatingWebhookConfiguration":
		hooks, _ := obj.Object["webhooks"].([]any)
		liveHooks, _ := live.Object["webhooks"].([]any)
		for _, h := range hooks {
			hook, _ := h.(map[string]any)
			config := mapAt(hook, "clientConfig")
			bundle := mapAt(named(liveHooks, text(hook["name"])), "clientConfig")["caBundle"]
			if config != nil && empty(config["caBundle"]) && bundle != nil {
				config["caBundle"] = bundle
			}
		}
	}
}

// InsecureAPI reports whether the certificate of an APIService's server is not verified, which excludes a CA bundle.
func InsecureAPI(obj *unstructured.Unstructured) bool {
	return mapAt(obj.Object, "spec")["insecureSkipTLSVerify"] == true
}
