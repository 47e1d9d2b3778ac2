package follow

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// paths are what is asked for in these tests.
var paths = [][]string{{"spec", "replicas"}, {"spec", "template", "x"}, {"status"}, {"status", "beneath"}, {"metadata", "name"}, {"a\"b"}}

func fieldsOfPaths(paths [][]string) *fields { return fieldsOfEvent(fieldsOfObject(paths)) }

// left is what of an event is to be left: by the fields of the decoded event, not of its text.
func left(event map[string]any) (managed any) {
	for name := range event {
		if name != "type" && name != "object" {
			delete(event, name)
		}
	}
	object, isObject := event["object"].(map[string]any)
	if !isObject {
		return nil
	}
	only := func(of map[string]any, names ...string) {
		for name := range of {
			if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") {
				delete(of, name)
			}
		}
	}
	only(object, "apiVersion", "kind", "metadata", "spec", "status")
	if spec, isObject := object["spec"].(map[string]any); isObject {
		only(spec, "replicas", "template")
		if template, isObject := spec["template"].(map[string]any); isObject {
			only(template, "x")
		}
	}
	if metadata, isObject := object["metadata"].(map[string]any); isObject {
		managed = metadata["managedFields"]
		delete(metadata, "managedFields")
	}
	return managed
}

func FuzzCut(f *testing.F) {
	for _, text := range []string{
		`{"type":"ADDED","object":{"apiVersion":"v1","kind":"A","metadata":{"name":"a","managedFields":[{"manager":"m"}],"labels":{"a":"x"}},"spec":{"replicas":1,"other":[{"a":2},"]}\\"],` +
			`"template":{"x":{"y":[1,2]},"z":"\\\""}},"data":{"a":"{\\\"b\"}"},"status":{"beneath":{},"conditions":[{"type":"a}"}]}}}`,
		" {\n\t\"type\" : \"MODIFIED\" , \"object\" : { \"metadata\" : { } , \"spec\" : { \"x\" : 1 } , \"status\" : null } , \"more\" : [ ] }\n",
		`{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"5"}}}`,
		`{"object":{"spec":"text","metadata":[],"status":[1,{"a":"\u0022"}]},"type":1}`,
		`{"type":"ADDED","object":{"spec":{"template":{"x":-1.5e3,"y":tru e},"replicas":true},"metadata":null}}`,
		`{}`, `{"type":"ADDED"}`, `{"object":{}}`, `[]`, `{"a":"\\`, `{"object":{"spec":{"replicas":}}}`, `{"object":{"x":1,}}`, `{,}`, `{"type" "a"}`, `x`, ``,
	} {
		f.Add([]byte(text))
	}
	which := fieldsOfPaths(paths)
	f.Fuzz(func(t *testing.T, text []byte) {
		g := NewWithT(t)
		var whole map[string]any
		valid := kjson.UnmarshalCaseSensitivePreserveInts(text, &whole) == nil && whole != nil
		before := bytes.Clone(text)
		ok := cut(text, which, func(text, apart []byte) {
			if !valid || isOdd(before) {
				return
			}
			var cut map[string]any
			g.Expect(kjson.UnmarshalCaseSensitivePreserveInts(text, &cut)).To(Succeed(), "%s", text)
			managed := left(whole)
			g.Expect(cut).To(Equal(whole))
			if managed == nil {
				g.Expect(string(apart)).To(Or(BeEmpty(), Equal("null")))
			} else {
				g.Expect(string(apart)).NotTo(BeEmpty())
			}
		})
		if valid {
			g.Expect(ok).To(BeTrue())
		}
		g.Expect(text).To(Equal(before), "what came is not written to")
	})
}

// isOdd reports whether a document has what no API server writes: escaped names, or two fields of one name.
func isOdd(text []byte) bool {
	for _, name := range []string{"type", "object", "metadata", "managedFields", "spec", "status", "replicas", "template", "apiVersion", "kind", "x"} {
		if bytes.Count(text, []byte(`"`+name+`"`)) > 1 {
			return true
		}
	}
	return bytes.Contains(text, []byte(`\u`))
}

func TestManagedFieldsAreKeptApart(t *testing.T) {
	g := NewWithT(t)
	e, err := new(decoding).object([]byte(`{"type":"ADDED","object":{"apiVersion":"apps/v1","kind":"Deployment",`+
		`"metadata":{"name":"a","resourceVersion":"7","managedFields":[`+
		`{"manager":"m","operation":"Apply","apiVersion":"apps/v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"v:\"<\"":{}}}}]},`+
		`"spec":{"replicas":9007199254740993,"template":{"spec":{}}}}}`), fieldsOfPaths(paths))
	g.Expect(err).NotTo(HaveOccurred())
	object, ok := e.object.(*Object)
	g.Expect(ok).To(BeTrue())
	g.Expect([]string{e.kind, object.GetName(), object.GetResourceVersion(), object.GetKind()}).To(Equal([]string{"ADDED", "a", "7", "Deployment"}))
	g.Expect(object.Object["spec"]).To(Equal(map[string]any{"replicas": int64(9007199254740993), "template": map[string]any{}}))
	managed := object.GetManagedFields()
	g.Expect(managed).To(HaveLen(1))
	g.Expect(managed[0].Operation).To(Equal(metav1.ManagedFieldsOperationApply))
	g.Expect(managed[0].Time.Year()).To(Equal(2026))
	g.Expect(managed[0].FieldsV1.GetRawString()).To(Equal(`{"f:spec":{"v:\"<\"":{}}}`))
	g.Expect(object.Object["metadata"]).NotTo(HaveKey("managedFields"))
	object.SetManagedFields(nil)
	g.Expect(object.GetManagedFields()).To(BeEmpty())

	e, err = new(decoding).object([]byte(`{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{"x":1}}}`), nil)
	g.Expect(err).NotTo(HaveOccurred())
	whole, _ := e.object.(*unstructured.Unstructured)
	g.Expect(whole).NotTo(BeNil())
	g.Expect(whole.Object).To(HaveKey("spec"))
}

func TestFaultIsReportedOfTheWhole(t *testing.T) {
	which := fieldsOfPaths(paths)
	for text, message := range map[string]string{
		`{"type":"ADDED"}`:             "there is no object in it",
		`{"type":"ADDED","object":[]}`: "cannot unmarshal array",
		`{"type":"ADDED","object":{]}`: "invalid character",
		`{"type":"ADDED","object":{"metadata":{"managedFields":[{"manager":1}]}}}`:                                  "manager",
		`{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"too old","code":410,"x":{"y":1}}}`: "too old",
	} {
		g := NewWithT(t)
		_, err := new(decoding).object([]byte(text), which)
		g.Expect(err).To(MatchError(ContainSubstring(message)), text)
	}
}

// BenchmarkDecodeObject is for a Deployment and the definition of a kind, whose schemas are nearly all of it.
func BenchmarkDecodeObject(b *testing.B) {
	properties := map[string]any{}
	for i := range 1000 {
		properties["field"+strings.Repeat("x", i%17)+string(rune('a'+i%26))+strings.Repeat("y", i/26)] = map[string]any{"type": "string", "description": strings.Repeat("words ", 20)}
	}
	managed := []any{map[string]any{"manager": "trellis", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{
		"f:metadata": map[string]any{"f:labels": map[string]any{"f:a": map[string]any{}}}, "f:spec": map[string]any{"f:replicas": map[string]any{}, "f:template": map[string]any{
			"f:spec": map[string]any{"f:containers": map[string]any{`k:{"name":"app"}`: map[string]any{".": map[string]any{}, "f:image": map[string]any{}, "f:name": map[string]any{}}}}}},
	}}}
	metadata := map[string]any{"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "1", "labels": map[string]any{"a": "b"}, "managedFields": managed}
	container := map[string]any{"name": "app", "image": "registry/image:tag", "args": []any{"--a", "--b", "--c"}, "resources": map[string]any{"requests": map[string]any{"cpu": "1"}}}
	for name, object := range map[string]map[string]any{
		"workload": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "status": map[string]any{"replicas": 1}, "spec": map[string]any{
			"replicas": 1, "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{"containers": []any{container, container, container}}}}},
		"definition": {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "status": map[string]any{"conditions": []any{}},
			"spec": map[string]any{"versions": []any{map[string]any{"schema": map[string]any{"openAPIV3Schema": map[string]any{"properties": properties}}}}}},
	} {
		raw, err := json.Marshal(map[string]any{"type": "ADDED", "object": object})
		if err != nil {
			b.Fatal(err)
		}
		some := fieldsOfPaths([][]string{{"spec", "replicas"}, {"status"}})
		for kind, which := range map[string]*fields{"whole": nil, "fields": some} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					e, err := new(decoding).object(raw, which)
					if err != nil || len(e.object.GetManagedFields()) != 1 {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
