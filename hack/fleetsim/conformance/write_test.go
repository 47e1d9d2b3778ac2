package conformance

// writeRows are about creates, updates and patches that are no applies.
var writeRows = []row{
	{"create", []*step{
		post("cm", cm("x", `data: {a: one}`)).by("kubectl/v1.36.3 (linux/amd64)"),
		post("cm?fieldManager=m", cm("y", `binaryData: {a: b25l}`, `immutable: false`)),
	}},
	{"create with metadata that the server sets", []*step{
		post("cm", cm("x", `metadata: {uid: 11111111-2222-3333-4444-555555555555, generation: 7, creationTimestamp: "2001-01-01T00:00:00Z", deletionTimestamp: "2001-01-01T00:00:00Z", selfLink: /a}`)),
	}},
	{"create with a resourceVersion", []*step{
		post("cm", cm("x", `metadata: {resourceVersion: "1"}`)).want(500),
	}},
	{"create what exists", []*step{
		post("cm", cm("x", `data: {a: one}`)),
		post("cm", cm("x", `data: {a: two}`)).want(conflict),
		get("cm/x"),
	}},
	{"create with a generated name", []*step{
		post("cm", cm("", `metadata: {generateName: gen-}`)).save("made"),
		get("cm/${made.metadata.name}"),
		post("cm", cm("x", `metadata: {generateName: gen-}`)),
	}},
	{"create without a name", []*step{
		post("cm", cm("")).want(unprocessable),
	}},
	{"create in the namespace of the path", []*step{
		post("cm", cm("x", `metadata: {namespace: $ns}`)),
		post("cm", cm("y", `metadata: {namespace: default}`)).want(badRequest),
	}},
	{"create in a missing namespace", []*step{
		post("/api/v1/namespaces/$ns-missing/configmaps", cm("x")).want(notFound),
	}},
	{"create without a namespace", []*step{
		post("/api/v1/configmaps", cm("x")).want(405),
	}},
	{"create of another kind", []*step{
		post("cm", object("Secret", "x")).want(badRequest),
		post("cm", `{"metadata":{"name":"x"}}`).want(created),
		post("cm", `{"kind":"ConfigMap","metadata":{"name":"y"}}`).want(created),
	}},
	{"create at the path of an object", []*step{
		post("cm/x", cm("x")).want(405),
	}},
	{"dry run of a create", []*step{
		post("cm?dryRun=All", cm("x")),
		get("cm/x").want(notFound),
		post("cm?dryRun=Some", cm("x")).want(unprocessable),
	}},
	{"invalid names", []*step{
		post("cm", cm("A_b")).want(unprocessable),
		post("svc", object("Service", "x.y", `spec: {ports: [{port: 80}]}`)).want(unprocessable),
		post("role", object("Role", "a/b")).want(unprocessable),
		post("ns", object("Namespace", "a.b")).want(unprocessable),
	}},
	{"invalid labels and annotations", []*step{
		post("cm", cm("x", `metadata: {labels: {"a b": "1"}}`)).want(unprocessable),
		post("cm", cm("x", `metadata: {labels: {a: "b c"}}`)).want(unprocessable),
		post("cm", cm("x", `metadata: {annotations: {"/": "1"}}`)).want(unprocessable),
	}},
	{"invalid finalizers and owner references", []*step{
		post("cm", cm("x", `metadata: {finalizers: [a]}`)).want(unprocessable),
		post("cm", cm("x", `metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: ""}]}`)).want(unprocessable),
	}},
	{"body that is no JSON", []*step{
		post("cm", `{"apiVersion":`).want(badRequest),
		post("cm", ``).want(badRequest),
		post("cm", `[]`).want(badRequest),
		put("cm/x", `nothing`).want(badRequest),
	}},
	{"body with a value of the wrong type", []*step{
		post("cm", cm("x", `data: {a: 1}`)).want(badRequest),
		post("deploy", deployment("x", `spec: {replicas: many}`)).want(badRequest),
	}},
	{"body in YAML", []*step{
		post("cm", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n").with("Content-Type", "application/yaml"),
	}},
	{"body of an unknown media type", []*step{
		post("cm", cm("x")).with("Content-Type", "text/plain").want(415),
		request("PATCH", "cm/x", "text/plain", cm("x")).want(415),
		request("PATCH", "cm/x", "", cm("x")).want(415),
	}},
	{"unknown fields in a create", []*step{
		post("cm?fieldValidation=Ignore", cm("x", `dat: {a: one}`)),
		post("cm?fieldValidation=Warn", cm("y", `dat: {a: one}`)),
		post("cm?fieldValidation=Strict", cm("z", `dat: {a: one}`)).want(badRequest),
		post("cm", cm("z", `dat: {a: one}`)),
		post("cm?fieldValidation=Perhaps", cm("v", `dat: {a: one}`)).want(unprocessable),
	}},
	{"unknown nested fields in a create", []*step{
		post("deploy?fieldValidation=Strict", object("Deployment", "x", `
spec: {replica: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a, imag: b}]}}}`)).want(badRequest),
		post("deploy?fieldValidation=Warn", object("Deployment", "x", `
spec: {replica: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a, imag: b}]}}}`)),
	}},
	{"duplicate fields in a create", []*step{
		post("cm?fieldValidation=Strict", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1","a":"2"}}`).want(badRequest),
		post("cm?fieldValidation=Warn", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1","a":"2"}}`),
	}},
	{"unknown fields in an update", []*step{
		post("cm", cm("x")),
		put("cm/x?fieldValidation=Strict", cm("x", `dat: {a: one}`)).want(badRequest),
		put("cm/x?fieldValidation=Warn", cm("x", `dat: {a: one}`)),
		put("cm/x?fieldValidation=Ignore", cm("x", `dat: {a: one}`)),
	}},
	{"unknown fields in a patch", []*step{
		post("cm", cm("x")),
		merge("cm/x?fieldValidation=Strict", `{"dat":{"a":"one"}}`).want(unprocessable),
		merge("cm/x?fieldValidation=Warn", `{"dat":{"a":"one"}}`),
		merge("cm/x?fieldValidation=Ignore", `{"dat":{"a":"one"}}`),
		strategic("cm/x?fieldValidation=Strict", `{"dat":{"a":"one"}}`).want(unprocessable),
		jsonPatch("cm/x?fieldValidation=Strict", `[{"op":"add","path":"/dat","value":{}}]`).want(unprocessable),
	}},
	{"stringData", []*step{
		post("secret", object("Secret", "x", `stringData: {a: one}`, `data: {a: dHdv, b: dHdv}`)),
		merge("secret/x", `{"stringData":{"b":"three"}}`),
	}},
	{"secrets that are not base64", []*step{
		post("secret", object("Secret", "x", `data: {a: "?"}`)).want(badRequest),
	}},
	{"update", []*step{
		post("cm", cm("x", `data: {a: one}`, labelled)),
		put("cm/x?fieldManager=u", cm("x", `data: {b: two}`)),
		put("cm/x?fieldManager=u", cm("x", `data: {b: two}`)),
		get("cm/x"),
	}},
	{"update by several managers", []*step{
		post("cm?fieldManager=a", cm("x", `data: {a: one, b: one}`)),
		put("cm/x?fieldManager=b", cm("x", `data: {a: two, b: one}`)),
		put("cm/x?fieldManager=c", cm("x", `data: {a: two, c: one}`)),
	}},
	{"update with a stale resourceVersion", []*step{
		post("cm", cm("x", `data: {a: one}`)).save("old"),
		put("cm/x", cm("x", `data: {a: two}`, `metadata: {resourceVersion: "${rv}"}`)),
		put("cm/x", cm("x", `data: {a: three}`, `metadata: {resourceVersion: "${old.metadata.resourceVersion}"}`)).want(conflict),
	}},
	{"update with a broken resourceVersion", []*step{
		post("cm", cm("x")),
		put("cm/x", cm("x", `metadata: {resourceVersion: abc}`)).want(500),
	}},
	{"update with the wrong uid", []*step{
		post("cm", cm("x")),
		put("cm/x", cm("x", `metadata: {uid: 11111111-2222-3333-4444-555555555555}`)).want(conflict),
	}},
	{"update of what is absent", []*step{
		put("cm/x", cm("x")).want(notFound),
		put("cm/x", cm("x", `metadata: {uid: 11111111-2222-3333-4444-555555555555}`)).want(notFound),
		put("cm/x", cm("x", `metadata: {resourceVersion: "1"}`)).want(notFound),
	}},
	{"update of another name", []*step{
		post("cm", cm("x")),
		put("cm/x", cm("y")).want(badRequest),
		put("cm/x", cm("")).want(badRequest),
		put("cm/x", cm("x", `metadata: {namespace: default}`)).want(badRequest),
	}},
	{"dry run of an update", []*step{
		post("cm", cm("x")),
		put("cm/x?dryRun=All", cm("x", `data: {a: one}`)),
		get("cm/x"),
	}},
	{"update keeps what the server sets", []*step{
		post("cm", cm("x")),
		put("cm/x", cm("x", `metadata: {creationTimestamp: "2001-01-01T00:00:00Z", generation: 5}`)),
		put("cm/x", cm("x", `metadata: {deletionTimestamp: "2001-01-01T00:00:00Z"}`)).want(unprocessable),
	}},
	{"update that resets managed fields", []*step{
		post("cm?fieldManager=a", cm("x", `data: {a: one}`)),
		put("cm/x?fieldManager=b", cm("x", `data: {a: two}`, `metadata: {managedFields: [{}]}`)),
		merge("cm/x?fieldManager=c", `{"metadata":{"managedFields":[{}]}}`),
		merge("cm/x?fieldManager=d", `{"data":{"d":"one"}}`),
	}},
	{"update with managed fields", []*step{
		post("cm?fieldManager=a", cm("x", `data: {a: one}`)),
		put("cm/x?fieldManager=b", cm("x", `data: {a: one}`, `metadata: {managedFields: [{manager: z, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, time: "2020-01-01T00:00:00Z", fieldsV1: {"f:data": {"f:a": {}}}}]}`)),
		put("cm/x?fieldManager=b", cm("x", `data: {a: one}`, `metadata: {managedFields: [{manager: z, operation: Eat}]}`)),
	}},
	{"merge patch", []*step{
		post("cm", cm("x", `data: {a: one, b: one}`, labelled)),
		merge("cm/x?fieldManager=m", `{"data":{"a":null,"c":"new"},"metadata":{"labels":null}}`),
		merge("cm/x?fieldManager=m", `{"data":{"c":"new"}}`),
		merge("cm/x?fieldManager=m", `{}`),
	}},
	{"merge patch that is none", []*step{
		post("cm", cm("x")),
		merge("cm/x", `[]`).want(badRequest),
		merge("cm/x", `{"data":`).want(badRequest),
		merge("cm/x", `{"data":{"a":1}}`).want(unprocessable),
	}},
	{"merge patch of what is absent", []*step{
		merge("cm/x", `{"data":{"a":"one"}}`).want(notFound),
	}},
	{"merge patch with a lock", []*step{
		post("cm", cm("x")).save("old"),
		merge("cm/x", `{"metadata":{"uid":"${uid}","resourceVersion":"${rv}"},"data":{"a":"one"}}`),
		merge("cm/x", `{"metadata":{"uid":"${uid}","resourceVersion":"${old.metadata.resourceVersion}"},"data":{"a":"two"}}`).want(conflict),
		merge("cm/x", `{"metadata":{"uid":"11111111-2222-3333-4444-555555555555"},"data":{"a":"two"}}`).want(unprocessable),
		merge("cm/x", `{"metadata":{"name":"y"}}`).want(badRequest),
	}},
	{"dry run of a patch", []*step{
		post("cm", cm("x")),
		merge("cm/x?dryRun=All", `{"data":{"a":"one"}}`),
		get("cm/x"),
	}},
	{"force without apply", []*step{
		post("cm", cm("x")),
		merge("cm/x?force=true", `{"data":{"a":"one"}}`).want(unprocessable),
	}},
	{"JSON patch", []*step{
		post("cm", cm("x", `data: {a: one, b: one}`, `metadata: {labels: {a/b: c}}`)),
		jsonPatch("cm/x?fieldManager=j", `[{"op":"replace","path":"/data/a","value":"two"},{"op":"remove","path":"/data/b"},{"op":"add","path":"/data/c","value":"new"},{"op":"remove","path":"/metadata/labels/a~1b"}]`),
		jsonPatch("cm/x?fieldManager=j", `[{"op":"copy","from":"/data/a","path":"/data/d"},{"op":"move","from":"/data/c","path":"/data/e"}]`),
		jsonPatch("cm/x?fieldManager=j", `[]`),
	}},
	{"JSON patch with a test", []*step{
		post("cm", cm("x", `data: {a: one}`)),
		jsonPatch("cm/x", `[{"op":"test","path":"/metadata/resourceVersion","value":"${rv}"},{"op":"replace","path":"/data/a","value":"two"}]`),
		jsonPatch("cm/x", `[{"op":"test","path":"/data/a","value":"one"},{"op":"replace","path":"/data/a","value":"three"}]`).want(unprocessable),
	}},
	{"JSON patch that does not fit", []*step{
		post("cm", cm("x")),
		jsonPatch("cm/x", `[{"op":"remove","path":"/data/b"}]`).want(unprocessable),
		jsonPatch("cm/x", `[{"op":"replace","path":"/metadata/labels/a","value":"b"}]`).want(unprocessable),
		jsonPatch("cm/x", `{"op":"remove"}`).want(badRequest),
		jsonPatch("cm/x", `[{"op":"eat","path":"/data"}]`).want(unprocessable),
	}},
	{"JSON patch with a lock", []*step{
		post("cm", cm("x")).save("old"),
		jsonPatch("cm/x", `[{"op":"replace","path":"/metadata/resourceVersion","value":"${rv}"},{"op":"add","path":"/data","value":{"a":"one"}}]`),
		jsonPatch("cm/x", `[{"op":"replace","path":"/metadata/resourceVersion","value":"${old.metadata.resourceVersion}"},{"op":"add","path":"/data","value":{"a":"two"}}]`).want(conflict),
	}},
	{"the engine's patch that takes fields back", []*step{
		apply("cm/x?fieldManager=hub", cm("x", `data: {a: one}`)).want(created),
		merge("cm/x?fieldManager=foreign", `{"data":{"b":"drift"}}`),
		jsonPatch("cm/x?fieldManager=hub", `[{"op":"replace","path":"/metadata/resourceVersion","value":"${rv}"},
			{"op":"replace","path":"/metadata/managedFields","value":[
				{"manager":"hub","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{},"f:b":{}}}}]}]`).accept(asPartial),
		apply("cm/x?fieldManager=hub&force=true", cm("x", `data: {a: one}`)),
	}},
	{"the engine's patch that comes too late", []*step{
		apply("cm/x?fieldManager=hub", cm("x", `data: {a: one}`)).want(created).save("seen"),
		merge("cm/x?fieldManager=foreign", `{"data":{"b":"drift"}}`),
		jsonPatch("cm/x?fieldManager=hub", `[{"op":"replace","path":"/metadata/resourceVersion","value":"${seen.metadata.resourceVersion}"},
			{"op":"replace","path":"/metadata/managedFields","value":[
				{"manager":"hub","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{},"f:b":{}}}}]}]`).accept(asPartial).want(conflict),
	}},
	{"JSON patch that tests managed fields", []*step{
		apply("cm/x?fieldManager=hub", cm("x", `data: {a: one}`)).want(created),
		jsonPatch("cm/x", `[{"op":"test","path":"/metadata/managedFields/0/manager","value":"hub"},{"op":"replace","path":"/metadata/managedFields/0/manager","value":"new"}]`),
		jsonPatch("cm/x", `[{"op":"test","path":"/metadata/managedFields/0/manager","value":"hub"},{"op":"remove","path":"/data"}]`).want(unprocessable),
	}},
	{"JSON patch that empties managed fields", []*step{
		apply("cm/x?fieldManager=hub", cm("x", `data: {a: one}`)).want(created),
		jsonPatch("cm/x?fieldManager=j", `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`),
		apply("cm/x?fieldManager=hub", cm("x", `data: {a: one}`)),
	}},
	{"strategic merge patch of lists with keys", []*step{
		post("deploy", deployment("x")),
		strategic("deploy/x?fieldManager=s", `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"A","value":"1"}]}]}}}}`),
		strategic("deploy/x?fieldManager=s", `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:1"}]}}}}`),
		strategic("deploy/x?fieldManager=s", `{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}`),
	}},
	{"strategic merge patch that replaces", []*step{
		post("deploy", deployment("x")),
		strategic("deploy/x?fieldManager=s", `{"spec":{"template":{"spec":{"containers":[{"$patch":"replace"},{"name":"one","image":"one:1"}]}}}}`),
		strategic("deploy/x?fieldManager=s", `{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}`),
	}},
	{"strategic merge patch of finalizers", []*step{
		post("cm", cm("x", `metadata: {finalizers: [conformance.test/a]}`)),
		strategic("cm/x", `{"metadata":{"finalizers":["conformance.test/b"]}}`),
		strategic("cm/x", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["conformance.test/a"]}}`),
	}},
	{"strategic merge patch of a custom resource", []*step{
		post("widget", widget("x")),
		strategic("widget/x", `{"spec":{"size":2}}`).want(415),
	}},
	{"write answers with metadata alone", []*step{
		post("cm", cm("x", `data: {a: one}`)).accept(asPartial),
		put("cm/x", cm("x", `data: {a: two}`)).accept(asPartial),
		merge("cm/x", `{"data":{"a":"three"}}`).accept(asPartial),
		get("cm/x").accept(asPartial),
		get("cm/y").accept(asPartial).want(notFound),
		del("cm/x").accept(asPartial),
	}},
	{"the field manager comes from the user agent", []*step{
		post("cm", cm("x")).by("trellis/v1.0 (linux/amd64) abc"),
		merge("cm/x", `{"data":{"a":"one"}}`).by("Go-http-client/2.0"),
		merge("cm/x", `{"data":{"b":"one"}}`).by(""),
		merge("cm/x?fieldManager=named", `{"data":{"c":"one"}}`).by("trellis/v1.0"),
	}},
}
