package kinds

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
)

// selectable lists what field selectors see of built-in kinds besides name and namespace, by resource: paths, and labels
// where these differ ("label=path").
var selectable = map[string][]string{
	"/pods": {
		"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
		"status.phase", "status.podIP", "status.nominatedNodeName",
	},
	"/events": {
		"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
		"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source=source.component", "type",
	},
	"/secrets":                {"type"},
	"/namespaces":             {"status.phase"},
	"/nodes":                  {"spec.unschedulable"},
	"/services":               {"spec.clusterIP", "spec.type"},
	"/replicationcontrollers": {"status.replicas"},
	"apps/replicasets":        {"status.replicas"},
	"batch/jobs":              {"status.successful=status.succeeded"},

	"certificates.k8s.io/certificatesigningrequests": {"spec.signerName"},
	"events.k8s.io/events":                           {"reason", "reportingController", "type", "regarding.kind", "regarding.name", "regarding.namespace"},
}

// defaultSelected are selectable fields that read "0" or "false" if they are missing.
var defaultSelected = map[string]string{"status.replicas": "0", "status.successful": "0", "spec.unschedulable": "false", "spec.hostNetwork": "false"}

// Fields returns what field selectors see of an object. A selector for any other field is a bad request.
func (r *Resource) Fields(o *unstructured.Unstructured) fields.Set {
	set := fields.Set{"metadata.name": o.GetName()}
	if r.Namespaced {
		set["metadata.namespace"] = o.GetNamespace()
	}
	for _, entry := range r.selectable {
		label, path, differ := strings.Cut(entry, "=")
		if !differ {
			path = label
		}
		value, found, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...)
		switch v := value.(type) {
		case string:
			set[label] = v
		case bool:
			set[label] = strconv.FormatBool(v)
		case nil:
			set[label] = defaultSelected[label]
		default:
			if found {
				set[label] = fmt.Sprint(v)
			}
		}
	}
	return set
}

// Selectable reports whether a field selector may name a field.
func (r *Resource) Selectable(label string) bool {
	if label == "metadata.name" || label == "metadata.namespace" && r.Namespaced {
		return true
	}
	for _, entry := range r.selectable {
		if name, _, _ := strings.Cut(entry, "="); name == label {
			return true
		}
	}
	return false
}
