package chart_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// open are objects of the values, by their paths, that may have keys which the schema does not name: they are Kubernetes' own.
var open = []string{
	"/affinity", "/env/*", "/extraObjects/*", "/extraVolumeMounts/*", "/extraVolumes/*", "/global",
	"/monitoring/operator/tlsConfig",
	"/networkPolicy/metricsFrom/*/ipBlock", "/networkPolicy/metricsFrom/*/namespaceSelector",
	"/networkPolicy/metricsFrom/*/podSelector", "/resources/claims/*", "/tolerations/*", "/topologySpreadConstraints/*",
}

// TestSchemaIsStrict looks for objects of which the schema takes any key, and for values of which it takes anything.
func TestSchemaIsStrict(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile("values.schema.json")
	g.Expect(err).NotTo(HaveOccurred())
	var schema map[string]any
	g.Expect(json.Unmarshal(content, &schema)).To(Succeed())

	var found []string
	var look func(path string, schema map[string]any)
	look = func(path string, schema map[string]any) {
		_, enum := schema["enum"]
		g.Expect(enum || schema["type"] != nil).To(BeTrue(), "%s may be anything", path)
		if items, ok := schema["items"].(map[string]any); ok {
			look(path+"/*", items)
		} else {
			g.Expect(schema["type"]).NotTo(Equal("array"), "%s may have anything in it", path)
		}
		if schema["type"] != "object" {
			return
		}
		switch additional := schema["additionalProperties"].(type) {
		case map[string]any:
			look(path+"/*", additional)
		case bool:
			g.Expect(additional).To(BeFalse(), path)
		default:
			found = append(found, path)
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			property, ok := property.(map[string]any)
			g.Expect(ok).To(BeTrue(), "%s/%s", path, name)
			look(path+"/"+name, property)
		}
	}
	look("", schema)
	g.Expect(found).To(ConsistOf(open))
}

// TestSchemaAndValuesHaveTheSameKeys: a key that is in the schema and not in values.yaml is not documented. config is
// an exception: the reference of the hub documents its keys.
func TestSchemaAndValuesHaveTheSameKeys(t *testing.T) {
	g := NewWithT(t)
	read := func(name string) (content map[string]any) {
		raw, err := os.ReadFile(name)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(yaml.Unmarshal(raw, &content)).To(Succeed())
		return content
	}
	keys := func(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
	var compare func(path string, values, schema map[string]any)
	compare = func(path string, values, schema map[string]any) {
		properties, ok := schema["properties"].(map[string]any)
		if !ok { // whatever labels one likes
			return
		}
		delete(properties, "global") // Helm's own
		g.Expect(keys(properties)).To(Equal(keys(values)), path)
		for key, value := range values {
			below, isMap := value.(map[string]any)
			property, _ := properties[key].(map[string]any)
			if isMap && !slices.Contains([]string{"config", "resources"}, key) {
				compare(path+"/"+key, below, property)
			}
		}
	}
	compare("", read("values.yaml"), read("values.schema.json"))
}
