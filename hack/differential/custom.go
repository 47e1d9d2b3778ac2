package differential

import (
	"fmt"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// group is that of all custom resources.
const group = "differential.example.com"

// fields are the schemas of which the spec of a custom resource is made, with forms in manifests.
var fields = []struct {
	name   string
	schema map[string]any
	forms  []any
}{
	{"text", typed("string"), []any{"a", "b", ""}},
	{"number", typed("integer", "default", int64(3)), []any{int64(0), int64(3), int64(4)}},
	{"flag", typed("boolean", "default", true), []any{true, false}},
	{"maybe", typed("string", "nullable", true), []any{nil, "a"}},
	{"maybeDefault", typed("string", "nullable", true, "default", "d"), []any{nil, "a"}},
	{"map", object("a", typed("string"), "b", object("c", typed("string"))), []any{
		m(), m("a", "x"), m("b", m()), m("b", m("c", "x")), m("a", "y", "b", m()), m("b", nil),
	}},
	{"defaults", object("a", typed("string", "default", "x"), "b", object("c", typed("integer", "default", int64(1)))), []any{
		m(), m("a", "y"), m("b", m()), m("b", m("c", int64(2))), m("a", nil),
	}},
	{"deep", typed("object", "default", m(), "properties", m("e", object("f", typed("string", "default", "z")))), []any{
		m(), m("e", m()), m("e", m("f", "y")),
	}},
	{"nullableMap", with(object("a", typed("string")), "nullable", true), []any{nil, m(), m("a", "x")}},
	{"free", typed("object", "x-kubernetes-preserve-unknown-fields", true), []any{
		m(), m("a", int64(1)), m("a", m("b", "c")), m("a", m()), m("list", []any{m("x", "1")}),
	}},
	{"strings", typed("object", "additionalProperties", typed("string")), []any{m(), m("a", "1"), m("b", "2", "a", "3")}},
	{"amount", m("x-kubernetes-int-or-string", true), []any{int64(1), "50%"}},
	{"keyed", typed("array", "x-kubernetes-list-type", "map", "x-kubernetes-list-map-keys", []any{"name"},
		"items", with(object("name", typed("string"), "v", typed("string", "default", "d"), "o", object("p", typed("string"))), "required", []any{"name"})), []any{
		[]any{}, []any{m("name", "a")}, []any{m("name", "b", "v", "x"), m("name", "a", "o", m())}, []any{m("name", "a", "o", m("p", "q"))},
	}},
	{"keyedTwice", typed("array", "x-kubernetes-list-type", "map", "x-kubernetes-list-map-keys", []any{"port", "protocol"},
		"items", with(object("port", typed("integer"), "protocol", typed("string", "default", "TCP"), "name", typed("string")), "required", []any{"port"})), []any{
		[]any{m("port", int64(1))}, []any{m("port", int64(1), "protocol", "UDP", "name", "a")}, []any{m("port", int64(2)), m("port", int64(1))},
	}},
	{"set", typed("array", "x-kubernetes-list-type", "set", "items", typed("string")), []any{[]any{}, []any{"a"}, []any{"b", "a"}}},
	{"atomic", typed("array", "items", object("a", typed("string"), "b", typed("integer", "default", int64(7)))), []any{
		[]any{}, []any{m()}, []any{m("a", "x"), m("b", int64(1))}, []any{m("a", "y")},
	}},
	{"atomicMap", with(object("a", typed("string"), "b", typed("string")), "x-kubernetes-map-type", "atomic"), []any{m(), m("a", "x"), m("b", "y")}},
	{"union", with(object("a", m(), "b", m()), "properties", m("a", object("x", typed("string")), "b", object("y", typed("string"))),
		"oneOf", []any{m("required", []any{"a"}), m("required", []any{"b"})}), []any{
		m("a", m()), m("b", m()), m("a", m("x", "1")), m("b", m("y", "1")),
	}},
	{"unionDefault", with(object("type", typed("string", "default", "A"), "a", object("x", typed("string"))),
		"x-kubernetes-validations", []any{m("rule", "self.type == 'A' || !has(self.a)", "message", "a is for type A")}), []any{
		m(), m("type", "A", "a", m("x", "1")), m("type", "B"), m("a", m()),
	}},
}

// Custom defines n kinds of custom resources, each with some of the fields, and returns how their manifests are drawn.
func Custom(random *rand.Rand, n int) (definitions []*unstructured.Unstructured, kinds []Kind) {
	for i := range n {
		name := fmt.Sprintf("Custom%d", i)
		properties, parts := m(), map[string][]any{}
		for j, f := range fields {
			if i%len(fields) == j || random.IntN(3) == 0 { // each of them in some kind
				properties[f.name], parts["spec."+f.name] = f.schema, f.forms
			}
		}
		plural := fmt.Sprintf("custom%ds", i)
		definitions = append(definitions, &unstructured.Unstructured{Object: m(
			"apiVersion", "apiextensions.k8s.io/v1", "kind", "CustomResourceDefinition",
			"metadata", m("name", plural+"."+group),
			"spec", m(
				"group", group, "scope", "Namespaced",
				"names", m("kind", name, "listKind", name+"List", "plural", plural, "singular", fmt.Sprintf("custom%d", i)),
				"versions", []any{m("name", "v1", "served", true, "storage", true, "schema", m("openAPIV3Schema",
					typed("object", "properties", m("spec", typed("object", "properties", properties)))))},
			),
		)})
		kinds = append(kinds, Kind{Base: m("apiVersion", group+"/v1", "kind", name, "spec", m()), Parts: parts})
	}
	return definitions, kinds
}

// m is a map of pairs.
func m(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		out[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return out
}

// typed is the schema of a type with more.
func typed(name string, pairs ...any) map[string]any { return with(m("type", name), pairs...) }

// object is the schema of an object with properties.
func object(pairs ...any) map[string]any { return typed("object", "properties", m(pairs...)) }

func with(schema map[string]any, pairs ...any) map[string]any {
	for name, value := range m(pairs...) {
		schema[name] = value
	}
	return schema
}
