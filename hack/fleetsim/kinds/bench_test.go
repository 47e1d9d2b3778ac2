package kinds_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

func resourceOf(b testing.TB, gvr schema.GroupVersionResource) *kinds.Resource {
	r, ok := kinds.BuiltIn().Resource(gvr)
	if !ok {
		b.Fatal(gvr)
	}
	return r
}

func writeOf(verb kinds.Verb, body string) kinds.Write {
	return kinds.Write{Verb: verb, Body: []byte(body), Manager: "test", Namespace: "default", Name: "de", Now: time.Now()}
}

// appliedDeployment is one that is there already.
func appliedDeployment(b testing.TB, r *kinds.Resource) *unstructured.Unstructured {
	result, err := r.Next(nil, writeOf(kinds.Apply, named(deployment, "de")))
	if err != nil {
		b.Fatal(err)
	}
	result.Object.SetUID("d9607e19-f88f-11e6-a518-42010a800195")
	result.Object.SetResourceVersion("7")
	return result.Object
}

func benchmark(b *testing.B, r *kinds.Resource, live *unstructured.Unstructured, changes bool, write func(i int) kinds.Write) {
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		result, err := r.Next(live, write(i))
		if err != nil {
			b.Fatal(err)
		}
		if result.Changed != changes {
			b.Fatal(result.Changed)
		}
	}
}

func BenchmarkNextCreate(b *testing.B) {
	body := named(deployment, "de")
	benchmark(b, resourceOf(b, deployments), nil, true, func(int) kinds.Write { return writeOf(kinds.Create, body) })
}

func BenchmarkNextApplyThatCreates(b *testing.B) {
	body := named(deployment, "de")
	benchmark(b, resourceOf(b, deployments), nil, true, func(int) kinds.Write { return writeOf(kinds.Apply, body) })
}

func BenchmarkNextApplyThatChangesNothing(b *testing.B) {
	r := resourceOf(b, deployments)
	body := named(deployment, "de")
	benchmark(b, r, appliedDeployment(b, r), false, func(int) kinds.Write { return writeOf(kinds.Apply, body) })
}

// BenchmarkNextApplyOfWhatIsStored is of an intent that says all as it is stored. The one above says "1000m" for "1" and
// leaves out a default in a list that belongs to its manager as a whole.
func BenchmarkNextApplyOfWhatIsStored(b *testing.B) {
	r := resourceOf(b, deployments)
	body := replaceAll(replaceAll(named(deployment, "de"), `"1000m"`, `"1"`), `"path":"token"`, `"path":"token","expirationSeconds":3600`)
	benchmark(b, r, appliedDeployment(b, r), false, func(int) kinds.Write { return writeOf(kinds.Apply, body) })
}

func BenchmarkNextApplyThatChanges(b *testing.B) {
	r := resourceOf(b, deployments)
	benchmark(b, r, appliedDeployment(b, r), true, func(i int) kinds.Write {
		return writeOf(kinds.Apply, replaceAll(named(deployment, "de"), "registry/app:v1", fmt.Sprintf("registry/app:v%d", i+1)))
	})
}

func BenchmarkNextJSONPatch(b *testing.B) {
	r := resourceOf(b, deployments)
	benchmark(b, r, appliedDeployment(b, r), true, func(i int) kinds.Write {
		w := writeOf(kinds.Patch, fmt.Sprintf(`[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"replace","path":"/spec/replicas","value":%d}]`, i%100+2))
		w.PatchType = types.JSONPatchType
		return w
	})
}

func BenchmarkNextApplyOfAConfigMapThatChangesNothing(b *testing.B) {
	r := resourceOf(b, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	const body = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"de"},"data":{"a":"b"}}`
	result, err := r.Next(nil, writeOf(kinds.Apply, body))
	if err != nil {
		b.Fatal(err)
	}
	result.Object.SetUID("d9607e19-f88f-11e6-a518-42010a800195")
	result.Object.SetResourceVersion("7")
	benchmark(b, r, result.Object, false, func(int) kinds.Write { return writeOf(kinds.Apply, body) })
}

// BenchmarkWith is what each further server with the same definitions costs.
func BenchmarkWith(b *testing.B) {
	large := largeDefinitions(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := kinds.BuiltIn().With(large); err != nil {
			b.Fatal(err)
		}
	}
}

// largeDefinitions are three of about 200 KB.
func largeDefinitions(t testing.TB) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for i := range 3 {
		properties := map[string]any{}
		for j := range 400 {
			inner := map[string]any{}
			for k := range 6 {
				inner[fmt.Sprintf("field%d", k)] = map[string]any{"type": "string", "description": "Some text that says what this field is for."}
			}
			properties[fmt.Sprintf("part%d", j)] = map[string]any{"type": "object", "properties": inner}
		}
		group := fmt.Sprintf("group%d.example.org", i)
		all = append(all, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "larges." + group},
			"spec": map[string]any{
				"group": group, "scope": "Cluster", "names": map[string]any{"kind": "Large", "plural": "larges"},
				"versions": []any{map[string]any{
					"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
						"spec": map[string]any{"type": "object", "properties": properties},
					}}},
				}},
			},
		}})
	}
	return all
}
