package conformance

import "net/http"

// shared is what all rows find: two kinds of custom resources. Widgets have a schema, a status, a scale and two versions, gadgets
// have none of it.
var shared = []*step{
	post("crd", widgets), post("crd", gadgets),
	get("widget").eventually(), get("widget/v2").eventually(), get("gadget").eventually(),
	get("/apis/conformance.test/v1").eventually(),
}

var widgets = object("CustomResourceDefinition", "widgets.conformance.test", `
spec:
  group: conformance.test
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1}
              color: {type: string, default: red, enum: [red, green, blue]}
              replicas: {type: integer, format: int32}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, port: {type: integer, default: 80}}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              args: {type: array, items: {type: string}}
              whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
              anything: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties: {replicas: {type: integer}, selector: {type: string}, phase: {type: string}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {size: {type: integer}, color: {type: string}, replicas: {type: integer}}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
`)

var gadgets = object("CustomResourceDefinition", "gadgets.conformance.test", `
spec:
  group: conformance.test
  scope: Namespaced
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)

// Further contents that several rows write.

const labelled = `metadata: {labels: {app: web}}`

func deployment(name string, content ...string) string {
	return object("Deployment", name, append([]string{`
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "web:1"}
`}, content...)...)
}

func widget(name string, content ...string) string {
	return object("Widget", name, append([]string{`spec: {size: 1}`}, content...)...)
}

// notFound and the like are written as numbers in rows of the table where the number says more than the name.
const (
	created       = http.StatusCreated
	conflict      = http.StatusConflict
	unprocessable = http.StatusUnprocessableEntity
	badRequest    = http.StatusBadRequest
	notFound      = http.StatusNotFound
	forbidden     = http.StatusForbidden
	gone          = http.StatusGone
)
