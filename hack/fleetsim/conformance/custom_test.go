package conformance

import "strings"

// definition is a CRD of a row's own.
func definition(versions string) string {
	return object("CustomResourceDefinition", "things.$ns.test", `
spec:
  group: $ns.test
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: `+versions)
}

const (
	plainVersion = `[{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]`
	twoVersions  = `[{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}},
{name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]`
	things = "/apis/$ns.test/v1/namespaces/$ns/things"
	thing  = `{"apiVersion":"$ns.test/v1","kind":"Thing","metadata":{"name":"x"},"spec":{"size":1}}`
)

// customRows are about custom resources and their definitions.
var customRows = []row{
	{"create a custom resource", []*step{
		post("widget", widget("x")),
		get("widget/x"),
		get("widget"),
	}},
	{"defaults of a custom resource", []*step{
		post("widget", object("Widget", "x", `spec: {size: 1, ports: [{name: a}, {name: b, port: 81}]}`)),
		merge("widget/x", `{"spec":{"color":null}}`),
	}},
	{"unknown fields of a custom resource", []*step{
		post("widget?fieldValidation=Strict", object("Widget", "x", `spec: {size: 1, sice: 2}`)).want(badRequest),
		post("widget?fieldValidation=Warn", object("Widget", "x", `spec: {size: 1, sice: 2, anything: {goes: {here: 1}}}`, `other: 1`)),
		put("widget/x", object("Widget", "x", `metadata: {resourceVersion: "${rv}"}`, `spec: {size: 1, sice: 3}`)),
		merge("widget/x?fieldValidation=Strict", `{"spec":{"sice":3}}`).want(unprocessable),
		merge("widget/x?fieldValidation=Ignore", `{"spec":{"sice":3}}`),
		post("gadget", object("Gadget", "x", `spec: {any: thing}`, `other: 1`)),
	}},
	{"schema of a custom resource", []*step{
		post("widget", object("Widget", "x", `spec: {size: big}`)).want(unprocessable),
		post("widget", object("Widget", "x", `spec: {size: 0}`)).want(unprocessable),
		post("widget", object("Widget", "x", `spec: {}`)).want(unprocessable),
		post("widget", object("Widget", "x", `spec: {size: 1, color: pink}`)).want(unprocessable),
		post("widget", object("Widget", "x", `spec: {size: 1, ports: [{port: 1}]}`)).want(unprocessable),
		post("widget", object("Widget", "x", `spec: {size: 1, ports: [{name: a}, {name: a}]}`)).want(unprocessable),
	}},
	{"update a custom resource", []*step{
		post("widget", widget("x")),
		put("widget/x", object("Widget", "x", `spec: {size: 2}`)).want(unprocessable),
		put("widget/x", object("Widget", "x", `metadata: {resourceVersion: "${rv}"}`, `spec: {size: 2}`)),
		put("widget/x", object("Widget", "x", `metadata: {resourceVersion: "1"}`, `spec: {size: 2}`)).want(conflict),
		put("widget/y", object("Widget", "y", `spec: {size: 2}`)).want(notFound),
	}},
	{"patch a custom resource", []*step{
		post("widget", widget("x")),
		merge("widget/x?fieldManager=m", `{"spec":{"size":2,"tags":["a","b"]}}`),
		jsonPatch("widget/x?fieldManager=m", `[{"op":"add","path":"/spec/tags/-","value":"c"}]`),
		jsonPatch("widget/x", `[{"op":"test","path":"/spec/size","value":7}]`).want(unprocessable),
		merge("widget/x", `{"spec":{"size":"big"}}`).want(unprocessable),
	}},
	{"generation of a custom resource with a status", []*step{
		post("widget", widget("x", `status: {phase: Ignored}`)),
		merge("widget/x", `{"metadata":{"labels":{"a":"b"}}}`),
		merge("widget/x", `{"spec":{"size":2}}`),
		merge("widget/x/status?fieldManager=s", `{"status":{"phase":"Ready"},"spec":{"size":9}}`),
		merge("widget/x", `{"status":{"phase":"Ignored"}}`),
		put("widget/x/status", object("Widget", "x", `metadata: {resourceVersion: "${rv}", labels: {c: d}}`, `spec: {size: 7}`, `status: {phase: Done}`)),
		get("widget/x/status"),
	}},
	{"generation of a custom resource without a status", []*step{
		post("gadget", object("Gadget", "x", `spec: {size: 1}`, `status: {phase: Kept}`)),
		merge("gadget/x", `{"metadata":{"labels":{"a":"b"}}}`),
		merge("gadget/x", `{"status":{"phase":"Changed"}}`),
		merge("gadget/x/status", `{"status":{"phase":"Changed"}}`).want(notFound),
	}},
	{"apply a custom resource", []*step{
		apply("widget/x?fieldManager=a", object("Widget", "x", `spec: {size: 1, ports: [{name: a}, {name: b, port: 81}]}`)).want(created),
		apply("widget/x?fieldManager=b", object("Widget", "x", `spec: {ports: [{name: c}], tags: [t]}`)),
		apply("widget/x?fieldManager=b", object("Widget", "x", `spec: {ports: [{name: b, port: 82}]}`)).want(conflict),
		apply("widget/x?fieldManager=a", object("Widget", "x", `spec: {size: 1, ports: [{name: a}]}`)),
		apply("widget/x?fieldManager=b", object("Widget", "x")),
	}},
	{"apply of lists and maps of a custom resource", []*step{
		apply("widget/x?fieldManager=a", object("Widget", "x", `spec: {size: 1, tags: [a], args: [a], whole: {a: "1"}, anything: {list: [a], map: {a: 1}}}`)).want(created),
		apply("widget/x?fieldManager=b", object("Widget", "x", `spec: {tags: [b], anything: {map: {b: 1}}}`)),
		apply("widget/x?fieldManager=b", object("Widget", "x", `spec: {args: [b]}`)).want(conflict),
		apply("widget/x?fieldManager=b", object("Widget", "x", `spec: {whole: {b: "1"}}`)).want(conflict),
		apply("widget/x?fieldManager=b&force=true", object("Widget", "x", `spec: {whole: {b: "1"}, anything: {list: [b]}}`)),
	}},
	{"apply of unknown fields of a custom resource", []*step{
		apply("widget/x?fieldManager=a", object("Widget", "x", `spec: {size: 1, sice: 2}`)).want(500),
		apply("widget/x?fieldManager=a", object("Widget", "x", `spec: {size: 1, ports: [{name: a}, {name: a}]}`)).want(500),
		apply("gadget/x?fieldManager=a", object("Gadget", "x", `spec: {any: thing}`)).want(created),
		apply("gadget/x?fieldManager=b", object("Gadget", "x", `spec: {any: other}`)).want(conflict),
	}},
	{"apply of an invalid custom resource", []*step{
		apply("widget/x?fieldManager=a", object("Widget", "x", `spec: {size: 0}`)).want(unprocessable),
		apply("widget/x?fieldManager=a", object("Widget", "x", `spec: {size: big}`)).want(500),
	}},
	{"apply of the status of a custom resource", []*step{
		apply("widget/x?fieldManager=a", object("Widget", "x", `spec: {size: 1}`)).want(created),
		apply("widget/x/status?fieldManager=s", object("Widget", "x", `status: {phase: Ready}`)),
		apply("widget/x?fieldManager=a", object("Widget", "x", `spec: {size: 2}`)),
	}},
	{"apply of a custom resource with a uid", []*step{
		apply("widget/x?fieldManager=a", widget("x", `metadata: {uid: 11111111-2222-3333-4444-555555555555}`)).want(conflict),
		apply("widget/x?fieldManager=a", widget("x")).want(created),
		apply("widget/x?fieldManager=a", widget("x", `metadata: {uid: 11111111-2222-3333-4444-555555555555}`)).want(unprocessable),
	}},
	{"a custom resource in another version", []*step{
		post("widget", widget("x")),
		get("widget/v2/x"),
		merge("widget/v2/x?fieldManager=v2", `{"spec":{"size":3}}`),
		get("widget/x"),
		get("widget/v2"),
		apply("widget/v2/x?fieldManager=a&force=true", object("Widget", "x", `apiVersionOf: conformance.test/v2`, `spec: {size: 4}`)),
		post("widget", object("Widget", "y", `apiVersionOf: conformance.test/v2`)).want(badRequest),
	}},
	{"delete a custom resource", []*step{
		post("widget", widget("x")), post("widget", widget("y", held)),
		delWith("widget/x", `{preconditions: {uid: "11111111-2222-3333-4444-555555555555"}}`).want(conflict),
		del("widget/x"),
		del("widget/y").accept(asPartial),
		merge("widget/y", `{"metadata":{"finalizers":null}}`),
		del("widget"),
	}},
	{"a definition becomes served", []*step{
		get(things).want(notFound),
		post("crd", definition(plainVersion)).only(establishing),
		post(things, thing).eventually(),
		get("crd/things.$ns.test"),
		get("crd/things.$ns.test").accept(asPartial),
		get("/apis/$ns.test/v1").eventually(),
		get("/apis/$ns.test"),
		get(things),
	}},
	{"a definition gets a second version", []*step{
		post("crd", definition(plainVersion)).only(establishing),
		post(things, thing).eventually(),
		apply("crd/things.$ns.test?fieldManager=a&force=true", definition(twoVersions)).only(establishing),
		get("/apis/$ns.test/v2/namespaces/$ns/things/x").eventually(),
		get("/apis/$ns.test/v2").eventually(),
	}},
	{"a definition is deleted with its objects", []*step{
		post("crd", definition(plainVersion)).only(establishing),
		post(things, thing).eventually(),
		del("crd/things.$ns.test").only(establishing),
		get("crd/things.$ns.test").want(notFound).eventually(),
		post("crd", definition(plainVersion)).only(establishing),
		get(things).eventually(),
	}},
	{"a definition that is deleted takes no more objects", []*step{
		post("crd", definition(plainVersion)).only(establishing),
		post(things, strings.ReplaceAll(thing, `{"name":"x"}`, `{"name":"x","finalizers":["conformance.test/hold"]}`)).eventually(),
		del("crd/things.$ns.test").only(establishing),
		post(things+"?dryRun=All", strings.ReplaceAll(thing, `"x"`, `"y"`)).want(forbidden).eventually(), // what is made before may stay
		post(things, thing).want(forbidden),
		post(things, strings.ReplaceAll(thing, `"size":1`, `"size":"big"`)).want(forbidden),
		apply(things+"/y?fieldManager=a", strings.ReplaceAll(thing, `"x"`, `"y"`)).want(forbidden),
		apply(things+"/x?fieldManager=a&force=true", strings.ReplaceAll(thing, `"size":1`, `"size":2`)).only(nothing), // its deletion may have begun or not
		merge(things+"/x", `{"metadata":{"finalizers":null}}`).only(nothing),
		get("crd/things.$ns.test").want(notFound).eventually(),
	}},
}

// establishing takes out of a definition what the real server's controllers write after its creation, some time.
func establishing(doc, _ any) any {
	obj, _ := doc.(map[string]any)
	delete(obj, "status")
	metadata, _ := obj["metadata"].(map[string]any)
	for _, name := range []string{"resourceVersion", "managedFields", "finalizers", "deletionTimestamp"} {
		delete(metadata, name)
	}
	return doc
}
