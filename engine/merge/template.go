package merge

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

var (
	specTemplate = []string{"spec", "template"}
	jobTemplate  = []string{"spec", "jobTemplate", "spec", "template"}
)

// TemplatePath returns the path of a kind's pod template, if the rules for pod templates apply to the kind, else nil.
func TemplatePath(gk schema.GroupKind) []string {
	switch gk.Group {
	case "apps", "extensions":
		switch gk.Kind {
		case "Deployment", "StatefulSet", "DaemonSet":
			return specTemplate
		}
	case "batch":
		switch gk.Kind {
		case "Job":
			return specTemplate
		case "CronJob":
			return jobTemplate
		}
	}
	return nil
}

// restartedAt returns the annotation of an object's pod template by which `kubectl rollout restart` restarts it.
func restartedAt(obj map[string]any, gk schema.GroupKind) any {
	path := TemplatePath(gk)
	if path == nil {
		return nil
	}
	return mapAt(mapAt(obj, path...), "metadata", "annotations")[resourcesv1alpha1.RestartedAtAnnotation]
}

// template sets the kept fields of a pod template.
func (k keeper) template(body, live *unstructured.Unstructured, gk schema.GroupKind) {
	path := TemplatePath(gk)
	template := mapAt(body.Object, path...)
	if path == nil || template == nil {
		return
	}
	if v := restartedAt(live.Object, gk); v != nil {
		at := append(fields(path...), fields("metadata", "annotations", resourcesv1alpha1.RestartedAtAnnotation)...)
		if k.full || has(k.owned, at) {
			if annotations := ensure(template, "metadata", "annotations"); annotations != nil {
				annotations[resourcesv1alpha1.RestartedAtAnnotation] = v
			}
		} else {
			delete(mapAt(template, "metadata", "annotations"), resourcesv1alpha1.RestartedAtAnnotation)
		}
	}
	if KeepsResources(body) {
		k.resources(template, mapAt(live.Object, path...), fields(path...))
	}
}

// resources keeps CPU and memory of containers that the live template has under the same names. Init containers and
// ephemeral containers are ignored.
func (k keeper) resources(template, live map[string]any, at fieldpath.Path) {
	containers, _ := mapAt(template, "spec")["containers"].([]any)
	liveContainers, _ := mapAt(live, "spec")["containers"].([]any)
	for _, c := range containers {
		container, _ := c.(map[string]any)
		name, _ := container["name"].(string)
		liveContainer := named(liveContainers, name)
		if liveContainer == nil || name == "" {
			continue
		}
		for _, kind := range []string{"requests", "limits"} {
			values := mapAt(liveContainer, "resources", kind)
			for _, resource := range []string{"cpu", "memory"} {
				v, found := values[resource]
				if !found {
					continue
				}
				path := append(at[:len(at):len(at)], fields("spec", "containers")...)
				path = append(append(path, item("name", name)), fields("resources", kind, resource)...)
				if !k.full && !has(k.owned, path) {
					delete(mapAt(container, "resources", kind), resource)
				} else if m := ensure(container, "resources", kind); m != nil {
					m[resource] = runtime.DeepCopyJSONValue(v)
				}
			}
		}
	}
}

// named returns the last item of a list of maps that has a name.
func named(list []any, name string) (found map[string]any) {
	for _, e := range list {
		if m, ok := e.(map[string]any); ok && m["name"] == name {
			found = m
		}
	}
	return found
}

// jobLabels keeps the labels of a Job's template, which are immutable.
func (k keeper) jobLabels(body, live map[string]any) {
	template := mapAt(body, specTemplate...)
	if template == nil {
		return
	}
	at := fields("spec", "template", "metadata", "labels")
	for key, v := range mapAt(live, "spec", "template", "metadata", "labels") {
		if _, set := mapAt(template, "metadata", "labels")[key]; set {
			continue
		}
		if k.full || has(k.owned, append(at[:len(at):len(at)], fields(key)...)) {
			if labels := ensure(template, "metadata", "labels"); labels != nil {
				labels[key] = v
			}
		}
	}
}
