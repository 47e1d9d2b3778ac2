package kinds

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// traits are how the strategies of kube-apiserver for the kinds differ. The zero value is the common case.
type traits struct {
	// resourceVersion must be in the body of an update.
	needsResourceVersion bool
	// createOnUpdate: an update of an object that does not exist creates it.
	createOnUpdate bool
	// generation is counted: changes says of what.
	generation bool
	changes    func(o, old map[string]any) bool
	// statusKeeps are the paths that a write to status leaves alone, besides managedFields.
	statusKeeps [][]string
	// keepsStatus: the status of a new object is kept.
	keepsStatus bool
}

// needResourceVersion lists the resources whose updates must name the resourceVersion they build upon.
var needResourceVersion = []string{
	"clustertrustbundles", "runtimeclasses", "poddisruptionbudgets", "csidrivers", "csistoragecapacities", "volumeattachments", "csinodes",
	"leases", "validatingadmissionpolicies", "mutatingadmissionpolicies", "mutatingwebhookconfigurations",
	"validatingwebhookconfigurations", "mutatingadmissionpolicybindings", "validatingadmissionpolicybindings",
	"customresourcedefinitions", "apiservices",
}

// createdOnUpdate lists the resources that an update creates if they do not exist.
var createdOnUpdate = []string{
	"runtimeclasses", "rolebindings", "clusterrolebindings", "roles", "clusterroles", "leases", "limitranges", "events", "services", "endpoints",
}

// generations says which parts of an object count, by resource. A resource that is missing has no generation.
var generations = map[string]func(o, old map[string]any) bool{
	"deployments":            deploymentChanged,
	"endpointslices":         endpointSliceChanged,
	"priorityclasses":        never,
	"podtemplates":           changed("template"),
	"pods":                   changed("spec"),
	"daemonsets":             changed("spec"),
	"statefulsets":           changed("spec"),
	"replicasets":            changed("spec"),
	"replicationcontrollers": changed("spec"),
	"jobs":                   changed("spec"),
	"cronjobs":               changed("spec"),
	"ingresses":              changed("spec"),
	"ingressclasses":         changed("spec"),
	"networkpolicies":        changed("spec"),
	"poddisruptionbudgets":   changed("spec"),
	"resourceslices":         changed("spec"),
	"deviceclasses":          changed("spec"),
	"csidrivers":             changed("spec"),
	"flowschemas":            changed("spec"),

	"prioritylevelconfigurations":       changed("spec"),
	"customresourcedefinitions":         changed("spec"),
	"validatingadmissionpolicies":       changed("spec"),
	"mutatingadmissionpolicies":         changed("spec"),
	"mutatingadmissionpolicybindings":   changed("spec"),
	"validatingadmissionpolicybindings": changed("spec"),
	"mutatingwebhookconfigurations":     changed("webhooks"),
	"validatingwebhookconfigurations":   changed("webhooks"),
}

// statusKeepsMetadata lists resources whose status cannot be written together with metadata.
var statusKeepsMetadata = []string{
	"servicecidrs", "resourceclaims", "volumeattachments", "flowschemas", "prioritylevelconfigurations", "validatingadmissionpolicies",
	"customresourcedefinitions", "apiservices",
}

func traitsOf(r *Resource) traits {
	name := r.GVR.Resource
	t := traits{
		needsResourceVersion: slices.Contains(needResourceVersion, name),
		createOnUpdate:       slices.Contains(createdOnUpdate, name),
		keepsStatus:          name == "nodes",
		statusKeeps:          [][]string{{"spec"}},
	}
	t.changes, t.generation = generations[name]
	switch {
	case slices.Contains(statusKeepsMetadata, name):
		t.statusKeeps = append(t.statusKeeps, []string{"metadata"})
	case name == "deployments":
		t.statusKeeps = append(t.statusKeeps, []string{"metadata", "labels"})
	case name == "pods":
		t.statusKeeps = append(t.statusKeeps, []string{"metadata", "deletionTimestamp"}, []string{"metadata", "ownerReferences"})
	}
	return t
}

func changed(part string) func(o, old map[string]any) bool {
	return func(o, old map[string]any) bool { return !apiequality.Semantic.DeepEqual(o[part], old[part]) }
}

func never(_, _ map[string]any) bool { return false }

// deploymentChanged: annotations are copied to replica sets, so they count.
func deploymentChanged(o, old map[string]any) bool {
	return changed("spec")(o, old) || !apiequality.Semantic.DeepEqual(annotations(o), annotations(old))
}

func annotations(o map[string]any) map[string]string {
	return (&unstructured.Unstructured{Object: o}).GetAnnotations()
}

// endpointSliceChanged: everything counts but what a server keeps in metadata.
func endpointSliceChanged(o, old map[string]any) bool {
	a, b := &unstructured.Unstructured{Object: o}, &unstructured.Unstructured{Object: old}
	return payloadChanged(o, old) || !apiequality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) ||
		!apiequality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations()) ||
		!apiequality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

// payloadChanged: everything counts but metadata. Of a custom resource with a status subresource the status has been put
// back by then.
func payloadChanged(o, old map[string]any) bool {
	count := func(o map[string]any) int {
		if _, ok := o["metadata"]; ok {
			return len(o) - 1
		}
		return len(o)
	}
	if count(o) != count(old) {
		return true
	}
	for key, value := range o {
		if key == "metadata" {
			continue
		}
		if before, ok := old[key]; !ok || !apiequality.Semantic.DeepEqual(value, before) {
			return true
		}
	}
	return false
}
