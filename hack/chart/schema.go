package main

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
)

// Schema is a JSON schema.
type Schema = map[string]any

// byChart are the keys of the configuration, by their paths, that the chart sets itself.
var byChart = []string{"apiVersion", "kind", "leaderElection.resourceNamespace", "sourceClientConnection.kubeconfig", "sourceIdentity"}

// enums are the values of strings that can only have a few, by their paths. Indexes are left out of paths.
var enums = map[string][]any{
	"classes.namespaceSelector.matchExpressions.operator": {"In", "NotIn", "Exists", "DoesNotExist"},
	"classes.target.type": {
		configv1alpha1.TargetNamespace, configv1alpha1.TargetSource, configv1alpha1.TargetRegistration,
	},
	"clusterCache.registrationSelector.matchExpressions.operator": {"In", "NotIn", "Exists", "DoesNotExist"},
	"leaderElection.resourceLock":                                 {"leases"},
	"logFormat":                                                   {"json", "text"},
	"logLevel":                                                    {"debug", "info", "error"},
}

// required are the keys without which an object makes no sense, by the path of the object.
var required = map[string][]string{
	"":                                     {"classes"},
	"classes":                              {"name", "target"},
	"classes.target":                       {"type"},
	"controllers.care.conditionThresholds": {"type", "duration"},
}

// ConfigSchema is the schema of what the values say of the hub's configuration.
func ConfigSchema() Schema {
	return schemaOf(reflect.TypeFor[configv1alpha1.HubConfiguration](), "")
}

func schemaOf(t reflect.Type, path string) Schema {
	if t == reflect.TypeFor[metav1.Duration]() {
		return Schema{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), path)
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if strings.HasSuffix(path, ".port") {
			return Schema{"type": "integer", "minimum": 1, "maximum": 65535}
		}
		return Schema{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}
	case reflect.String:
		if values, ok := enums[path]; ok {
			return Schema{"enum": values}
		}
		return Schema{"type": "string"}
	case reflect.Slice:
		schema := Schema{"type": "array", "items": schemaOf(t.Elem(), path)}
		if path == "classes" {
			schema["minItems"] = 1
			schema["items"] = classSchema(t.Elem())
		}
		return schema
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": schemaOf(t.Elem(), path)}
	case reflect.Struct:
		return structSchema(t, path)
	default:
		panic("no schema for " + t.String() + " at " + path) // a type that the configuration did not have before
	}
}

func structSchema(t reflect.Type, path string) Schema {
	properties := Schema{}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		below := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case options == "inline" && field.Type != reflect.TypeFor[metav1.TypeMeta]():
			inlined, _ := structSchema(field.Type, path)["properties"].(Schema)
			maps.Copy(properties, inlined)
		case options != "inline" && !slices.Contains(byChart, below):
			properties[name] = schemaOf(field.Type, below)
		}
	}
	schema := Schema{"type": "object", "additionalProperties": false, "properties": properties}
	if keys, ok := required[path]; ok {
		schema["required"] = keys
	}
	return schema
}

// classSchema adds what a class needs if its target has a certain type.
func classSchema(t reflect.Type) Schema {
	of := func(name configv1alpha1.TargetType) Schema {
		return Schema{"required": []string{"target"}, "properties": Schema{
			"target": Schema{"required": []string{"type"}, "properties": Schema{"type": Schema{"const": name}}},
		}}
	}
	selected := Schema{"required": []string{"namespaceSelector"}}
	schema := structSchema(t, "classes")
	schema["allOf"] = []Schema{
		{"if": of(configv1alpha1.TargetSource), "then": selected},
		{"if": of(configv1alpha1.TargetRegistration), "then": Schema{
			"required":   []string{"namespaceSelector"},
			"properties": Schema{"target": Schema{"required": []string{"namespace", "name"}}},
		}},
	}
	return schema
}
