package conformance

// applyRows are about server-side apply: what the hub's engine lives on.
var applyRows = []row{
	{"apply creates", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)).want(created),
		get("cm/x"),
	}},
	{"apply of the same changes nothing", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)).want(created),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)),
		apply("cm/x?fieldManager=a&force=true", cm("x", `data: {a: one}`)),
		get("cm/x"),
	}},
	{"writes of the same change nothing later either", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)).want(created),
		merge("cm/x?fieldManager=m", `{"data":{"b":"one"}}`),
		aSecondLater(),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)),
		merge("cm/x?fieldManager=m", `{"data":{"b":"one"}}`),
		put("cm/x?fieldManager=m", cm("x", `data: {a: one, b: one}`)),
		strategic("cm/x?fieldManager=m", `{"data":{"b":"one"}}`),
		apply("widget/x?fieldManager=a", widget("x")).want(created),
		aSecondLater(),
		apply("widget/x?fieldManager=a", widget("x")),
		merge("widget/x?fieldManager=a", `{"spec":{"size":1}}`),
	}},
	{"apply changes a value", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)).want(created),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: two, b: new}`)),
	}},
	{"apply needs a field manager", []*step{
		apply("cm/x", cm("x", `data: {a: one}`)).want(unprocessable),
		get("cm/x").want(notFound),
	}},
	{"apply with a manager whose name is too long", []*step{
		apply("cm/x?fieldManager=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", cm("x")).want(unprocessable),
	}},
	{"apply in YAML", []*step{
		apply("cm/x?fieldManager=a", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: one\n").want(created),
	}},
	{"apply in broken YAML", []*step{
		apply("cm/x?fieldManager=a", "apiVersion: [v1\n").want(badRequest),
	}},
	{"apply conflicts with a foreign owner", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`)).want(created),
		apply("cm/x?fieldManager=b", cm("x", `data: {a: two}`)).want(conflict),
		get("cm/x"),
	}},
	{"apply conflicts in several fields with several owners", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`)).want(created),
		merge("cm/x?fieldManager=u", `{"data":{"c":"one"},"metadata":{"labels":{"l":"1"}}}`),
		apply("cm/x?fieldManager=b", cm("x", `data: {a: two, b: two, c: two}`, `metadata: {labels: {l: "2"}}`)).want(conflict),
	}},
	{"forced apply takes a field over", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`)).want(created),
		apply("cm/x?fieldManager=b&force=true", cm("x", `data: {a: two}`)),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`)).want(conflict),
	}},
	{"two appliers of the same value both own it", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)).want(created),
		apply("cm/x?fieldManager=b", cm("x", `data: {a: one}`)),
		apply("cm/x?fieldManager=a", cm("x")),
		apply("cm/x?fieldManager=b", cm("x")),
	}},
	{"apply removes what it no longer has", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`, `metadata: {labels: {l: "1", m: "1"}, annotations: {n: "1"}}`)).want(created),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`, `metadata: {labels: {l: "1"}}`)),
		get("cm/x"),
	}},
	{"apply leaves what others added", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`)).want(created),
		merge("cm/x?fieldManager=u", `{"data":{"c":"one"}}`),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)),
		apply("cm/x?fieldManager=a", cm("x")),
	}},
	{"apply after another manager's update", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`)).want(created),
		put("cm/x?fieldManager=u", cm("x", `data: {a: two, b: one}`)),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`)).want(conflict),
		apply("cm/x?fieldManager=a&force=true", cm("x", `data: {a: one, b: one}`)),
	}},
	{"apply after an update that removed fields", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`)).want(created),
		put("cm/x?fieldManager=u", cm("x", `data: {b: one}`)),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`)),
	}},
	{"one manager updates and applies", []*step{
		post("cm?fieldManager=a", cm("x", `data: {a: one, b: one}`)),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: two}`)).want(conflict),
		apply("cm/x?fieldManager=a&force=true", cm("x", `data: {a: two}`)),
	}},
	{"apply with a uid on an absent object", []*step{
		apply("cm/x?fieldManager=a&force=true", cm("x", `metadata: {uid: 11111111-2222-3333-4444-555555555555}`)).want(conflict),
	}},
	{"apply with the wrong uid", []*step{
		apply("cm/x?fieldManager=a", cm("x")).want(created),
		apply("cm/x?fieldManager=a&force=true", cm("x", `metadata: {uid: 11111111-2222-3333-4444-555555555555}`, `data: {a: one}`)).want(unprocessable),
		get("cm/x"),
	}},
	{"apply with the right uid", []*step{
		apply("cm/x?fieldManager=a", cm("x")).want(created),
		apply("cm/x?fieldManager=a&force=true", cm("x", `metadata: {uid: "${uid}"}`, `data: {a: one}`)),
	}},
	{"apply with a uid of an object that was replaced", []*step{
		apply("cm/x?fieldManager=a", cm("x")).want(created).save("old"),
		del("cm/x"),
		apply("cm/x?fieldManager=a", cm("x")).want(created),
		apply("cm/x?fieldManager=a&force=true", cm("x", `metadata: {uid: "${old.metadata.uid}"}`)).want(unprocessable),
	}},
	{"apply with a resourceVersion", []*step{
		apply("cm/x?fieldManager=a", cm("x")).want(created).save("first"),
		apply("cm/x?fieldManager=a", cm("x", `metadata: {resourceVersion: "${rv}"}`, `data: {a: one}`)),
		apply("cm/x?fieldManager=a", cm("x", `metadata: {resourceVersion: "${first.metadata.resourceVersion}"}`, `data: {a: two}`)).want(conflict),
		apply("cm/x?fieldManager=a", cm("x", `metadata: {resourceVersion: "${first.metadata.resourceVersion}"}`, `data: {a: one}`)).want(conflict),
	}},
	{"apply with a resourceVersion on an absent object", []*step{
		apply("cm/x?fieldManager=a", cm("x", `metadata: {resourceVersion: "1"}`)).want(created),
	}},
	{"apply on a terminating object", []*step{
		apply("cm/x?fieldManager=a", cm("x", `metadata: {finalizers: [conformance.test/hold]}`, `data: {a: one}`)).want(created),
		del("cm/x"),
		apply("cm/x?fieldManager=a", cm("x", `metadata: {finalizers: [conformance.test/hold]}`, `data: {a: two}`)),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: three}`)),
		get("cm/x").want(notFound),
	}},
	{"apply of unknown fields", []*step{
		apply("cm/x?fieldManager=a", cm("x", `dat: {a: one}`)).want(500),
		apply("deploy/x?fieldManager=a", deployment("x", `spec: {template: {spec: {containers: [{name: a, imag: b}]}}}`)).want(500),
		apply("cm/x?fieldManager=a&fieldValidation=Ignore", cm("x", `dat: {a: one}`)).want(500),
		apply("cm/x?fieldManager=a&fieldValidation=Strict", cm("x", `dat: {a: one}`)).want(500),
	}},
	{"apply of a value of the wrong type", []*step{
		apply("deploy/x?fieldManager=a", deployment("x", `spec: {replicas: "three"}`)).want(500),
		apply("cm/x?fieldManager=a", cm("x", `data: [a]`)).want(500),
	}},
	{"apply with duplicate keys in a list", []*step{
		apply("deploy/x?fieldManager=a", deployment("x", `
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1", env: [{name: A, value: "1"}, {name: A, value: "2"}]}]}`)).want(500),
	}},
	{"apply with a duplicate field", []*step{
		apply("cm/x?fieldManager=a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1","a":"2"}}`).want(created),
		apply("cm/y?fieldManager=a&fieldValidation=Strict", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y"},"data":{"a":"1","a":"2"}}`).want(badRequest),
	}},
	{"apply with managed fields", []*step{
		apply("cm/x?fieldManager=a", cm("x", `metadata: {managedFields: [{manager: b, operation: Apply, apiVersion: v1}]}`)).want(badRequest),
	}},
	{"apply of another name", []*step{
		apply("cm/x?fieldManager=a", cm("y")).want(badRequest),
	}},
	{"apply without a name", []*step{
		apply("cm/x?fieldManager=a", cm("", `data: {a: one}`)).want(badRequest),
	}},
	{"apply of another kind or version", []*step{
		apply("cm/x?fieldManager=a", object("Secret", "x")).want(badRequest),
		apply("deploy/x?fieldManager=a", deployment("x", `apiVersionOf: apps/v1beta1`)).want(badRequest),
		apply("cm/x?fieldManager=a", `{"metadata":{"name":"x"}}`).want(badRequest),
	}},
	{"apply of another namespace", []*step{
		apply("cm/x?fieldManager=a", cm("x", `metadata: {namespace: default}`)).want(badRequest),
	}},
	{"apply of list items by their keys", []*step{
		apply("deploy/x?fieldManager=a", deployment("x")).want(created),
		apply("deploy/x?fieldManager=b", object("Deployment", "x", `spec: {template: {spec: {containers: [{name: side, image: "side:1"}]}}}`)),
		apply("deploy/x?fieldManager=b&force=true", object("Deployment", "x", `spec: {template: {spec: {containers: [{name: web, env: [{name: A, value: b}]}]}}}`)),
		get("deploy/x"),
	}},
	{"apply of ports by their number and protocol", []*step{
		apply("svc/x?fieldManager=a", object("Service", "x", `spec: {ports: [{name: a, port: 80}, {name: b, port: 81, protocol: TCP}], selector: {app: web}}`)).want(created),
		apply("svc/x?fieldManager=a", object("Service", "x", `spec: {ports: [{name: b, port: 81, protocol: TCP}], selector: {app: web}}`)),
		apply("svc/x?fieldManager=a", object("Service", "x", `spec: {ports: [{name: b, port: 81}, {name: c, port: 81, protocol: UDP}], selector: {app: web}}`)),
	}},
	{"apply of a set of finalizers", []*step{
		apply("cm/x?fieldManager=a", cm("x", `metadata: {finalizers: [conformance.test/a]}`)).want(created),
		apply("cm/x?fieldManager=b", cm("x", `metadata: {finalizers: [conformance.test/b]}`)),
		apply("cm/x?fieldManager=a", cm("x")),
	}},
	{"apply of owner references", []*step{
		apply("cm/x?fieldManager=a", cm("x", `metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: o, uid: 11111111-2222-3333-4444-555555555555}]}`)).want(created),
		apply("cm/x?fieldManager=a", cm("x")),
	}},
	{"apply of stringData", []*step{
		apply("secret/x?fieldManager=a", object("Secret", "x", `stringData: {a: one}`)).want(created),
		apply("secret/x?fieldManager=a", object("Secret", "x", `stringData: {a: one}`)),
		apply("secret/x?fieldManager=a", object("Secret", "x", `stringData: {b: two}`)),
		apply("secret/x?fieldManager=a", object("Secret", "x", `data: {a: b25l}`)),
	}},
	{"apply with null and empty values", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`, `metadata: {labels: {}}`)).want(created),
		apply("cm/x?fieldManager=a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":null}`),
		apply("cm/x?fieldManager=a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","annotations":{"a":""}},"data":{}}`),
	}},
	{"dry run of an apply", []*step{
		apply("cm/x?fieldManager=a&dryRun=All", cm("x", `data: {a: one}`)).want(created),
		get("cm/x").want(notFound),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)).want(created),
		apply("cm/x?fieldManager=a&dryRun=All", cm("x", `data: {a: two}`)),
		get("cm/x"),
	}},
	{"apply of the status", []*step{
		apply("deploy/x?fieldManager=a", deployment("x")).want(created),
		apply("deploy/x/status?fieldManager=s", object("Deployment", "x", `status: {replicas: 1, observedGeneration: 1}`)),
		apply("deploy/x?fieldManager=a", deployment("x")),
		apply("deploy/x/status?fieldManager=s", object("Deployment", "x", `status: {replicas: 1}`)),
		apply("deploy/x?fieldManager=a&force=true", deployment("x", `status: {replicas: 7}`)),
	}},
	{"apply on a subresource of an absent object", []*step{
		apply("deploy/x/status?fieldManager=s", object("Deployment", "x", `status: {replicas: 1}`)).want(notFound),
	}},
	{"apply is answered with metadata alone", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)).accept(asPartial).want(created),
		apply("cm/x?fieldManager=a&force=true", cm("x", `data: {a: two}`)).accept(asPartial),
		apply("cm/x?fieldManager=b", cm("x", `data: {a: one}`)).accept(asPartial).want(conflict),
	}},
	{"apply in a missing namespace", []*step{
		apply("/api/v1/namespaces/$ns-missing/configmaps/x?fieldManager=a", cm("x")).want(notFound),
	}},
	{"apply of an invalid object", []*step{
		apply("cm/X?fieldManager=a", cm("X")).want(unprocessable),
	}},
}
