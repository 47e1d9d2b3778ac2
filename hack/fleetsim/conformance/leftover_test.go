package conformance

const noValidation = "the simulator takes any values of the right types"

// leftoverRows are about what writes leave behind: cases that the differential test of the engine found.
var leftoverRows = []row{
	{"an apply leaves a default of a former value", []*step{
		apply("deploy/x?fieldManager=a", podOf(`{name: web, image: "web:latest"}`)).want(created),
		apply("deploy/x?fieldManager=a", podOf(`{name: web, image: "web:1"}`)),
		put("deploy/x?fieldManager=a", podOf(`{name: web, image: "web:1"}`)),
	}},
	{"an apply leaves a former name of a field", []*step{
		apply("deploy/x?fieldManager=a", podOf(`{name: web, image: "web:1"}`, `serviceAccountName: robot`)).want(created),
		apply("deploy/x?fieldManager=a", podOf(`{name: web, image: "web:1"}`)),
		put("deploy/x?fieldManager=a", podOf(`{name: web, image: "web:1"}`)),
	}},
	{"an apply leaves a default that depends on other fields", []*step{
		apply("netpol/x?fieldManager=a", fence(`ingress: [{}]`)).want(created),
		apply("netpol/x?fieldManager=a", fence(`ingress: [{}], egress: [{}]`)),
		put("netpol/x?fieldManager=a", fence(`ingress: [{}], egress: [{}]`)),
	}},
	{"an apply leaves the other branch of a union", []*step{
		apply("deploy/x?fieldManager=a", podOf(`{name: web, image: "web:1"}`)).want(created),
		put("deploy/x?fieldManager=a", withStrategy(`{type: Recreate}`)),
		apply("deploy/x?fieldManager=a&force=true", withStrategy(`{type: Recreate}`)),
	}},
	{"an apply that leaves the other branch of a union is refused", []*step{
		apply("deploy/x?fieldManager=a", podOf(`{name: web, image: "web:1"}`)).want(created),
		apply("deploy/x?fieldManager=a", withStrategy(`{type: Recreate}`)).want(unprocessable).differs(200, noValidation),
	}},
	{"a port of another client stays beside one of its name", []*step{
		post("svc?fieldManager=u", object("Service", "x", `spec: {ports: [{name: http, port: 80}]}`)),
		apply("svc/x?fieldManager=a", object("Service", "x", `spec: {ports: [{name: http, port: 8080}]}`)).
			want(unprocessable).differs(200, noValidation),
	}},
	{"what is updated and applied by one manager has two owners", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`)).want(created),
		put("cm/x?fieldManager=a", cm("x", `data: {a: two}`)),
		apply("cm/x?fieldManager=a&force=true", cm("x", `data: {a: two}`)),
		apply("cm/x?fieldManager=a&force=true", cm("x")),
	}},
	{"owners are forgotten", []*step{
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one, b: one}`)).want(created),
		put("cm/x?fieldManager=a", cm("x", `metadata: {managedFields: [{}]}`, `data: {a: one, b: one}`)),
		apply("cm/x?fieldManager=a", cm("x", `data: {a: one}`)),
	}},
	{"an empty map that loses what was in it", []*step{
		apply("widget/x?fieldManager=a", widget("x", `spec: {size: 1, anything: {goes: {here: 1}}}`)).want(created),
		apply("widget/x?fieldManager=a", widget("x", `spec: {size: 1, anything: {goes: {}}}`)),
		put("widget/x?fieldManager=a", widget("x", `metadata: {resourceVersion: "${rv}"}`,
			`spec: {size: 1, anything: {goes: {}}}`)),
		apply("widget/x?fieldManager=a&force=true", widget("x", `spec: {size: 1, anything: {goes: {}}}`)),
	}},
	{"a null in a custom resource", []*step{
		apply("widget/x?fieldManager=a", widget("x", `spec: {size: 1, whole: null, anything: {goes: null}}`)).
			want(unprocessable),
		apply("widget/y?fieldManager=a", widget("y", `spec: {size: null}`)).want(unprocessable),
		post("widget?fieldManager=a", widget("z", `spec: {size: 1, color: null, whole: null, anything: {goes: null}}`)),
	}},
}

// podOf is a Deployment of a container, with more in the spec of its pods.
func podOf(container string, more ...string) string {
	text := `
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [` + container + `]
`
	for _, field := range more {
		text += "      " + field + "\n"
	}
	return object("Deployment", "x", text)
}

// fence is a NetworkPolicy with some rules.
func fence(rules string) string {
	return object("NetworkPolicy", "x", `spec: {podSelector: {}, `+rules+`}`)
}

func withStrategy(strategy string) string {
	return object("Deployment", "x", `
spec:
  strategy: `+strategy+`
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
`)
}
