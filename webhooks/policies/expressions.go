package policies

import (
	"strconv"
	"strings"

	"github.com/trellis-hub/trellis/webhooks/deletionprotection"
)

// seccompProfile is pods.SetSeccompProfile. That there is no profile is a condition of the entry.
const seccompProfile = `has(object.spec.securityContext)
  ? [JSONPatch{op: "add", path: "/spec/securityContext/seccompProfile", value: {"type": "RuntimeDefault"}}]
  : [JSONPatch{op: "add", path: "/spec/securityContext", value: {"seccompProfile": {"type": "RuntimeDefault"}}}]`

// schedulerName is pods.SetSchedulerName. That there is none, or the default one, is a condition of the entry.
func schedulerName(name string) string {
	return `[JSONPatch{op: "add", path: "/spec/schedulerName", value: ` + literal(name) + `}]`
}

// Variables by which pods find the API server.
const hostVariable, portVariable = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"

// defaultPort is what kubelets set as the port of the API server.
const defaultPort = 443

// serviceHost is pods.SetServiceHost: a mutation for containers, and one for those that run before them.
func serviceHost(host string, port int32) []string {
	if host == "" {
		return nil
	}
	variable := func(name, value string) string {
		return `{"name": ` + literal(name) + `, "value": ` + literal(value) + `}`
	}
	withHost := variable(hostVariable, host)
	// New environments have both, and others get one after the other.
	environment, more := withHost, ""
	if port != defaultPort {
		withPort := variable(portVariable, strconv.Itoa(int(port)))
		environment += ", " + withPort
		more = ` + (c.env.exists(e, e.name == ` + literal(portVariable) + `) ? [] :
      [JSONPatch{op: "add", path: "/spec/LIST/" + string(i) + "/env/-", value: ` + withPort + `}])`
	}
	expression := `!has(object.spec.LIST) ? [] : object.spec.LIST.transformList(i, c,
  !has(c.env) || !c.env.exists(e, e.name == ` + literal(hostVariable) + `),
  has(c.env)
    ? [JSONPatch{op: "add", path: "/spec/LIST/" + string(i) + "/env/-", value: ` + withHost + `}]` + more + `
    : [JSONPatch{op: "add", path: "/spec/LIST/" + string(i) + "/env", value: [` + environment + `]}]
).flatten()`
	return []string{
		strings.ReplaceAll(expression, "LIST", "initContainers"), strings.ReplaceAll(expression, "LIST", "containers"),
	}
}

// endpointHints is endpointslices.SetHints.
const endpointHints = `!has(object.endpoints) || object.endpoints == null ? [] : object.endpoints.transformList(i, e,
  has(e.zone) && e.zone != "",
  JSONPatch{op: "add", path: "/endpoints/" + string(i) + "/hints", value: {"forZones": [{"name": e.zone}]}})`

// restarts is true for the modes that restart pods, of which an object has one if it says nothing.
const restarts = `(!has(object.spec.updatePolicy) || object.spec.updatePolicy == null ||
  !has(object.spec.updatePolicy.updateMode) || object.spec.updatePolicy.updateMode == null ||
  object.spec.updatePolicy.updateMode in ["", "Auto", "Recreate"])`

// mutatedLabel is verticalpodautoscalers.MutatedLabel.
const mutatedLabel = "vpa-in-place-updates.resources.gardener.cloud/mutated"

// inPlaceUpdates is verticalpodautoscalers.UpdateInPlace. The label comes first: it depends on the mode before.
var inPlaceUpdates = []string{
	`!` + restarts + ` ? [] : has(object.metadata.labels)
  ? [JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey(` + literal(mutatedLabel) + `),
      value: "true"}]
  : [JSONPatch{op: "add", path: "/metadata/labels", value: {` + literal(mutatedLabel) + `: "true"}}]`,
	`!` + restarts + ` ? [] : has(object.spec.updatePolicy) && object.spec.updatePolicy != null
  ? [JSONPatch{op: "add", path: "/spec/updatePolicy/updateMode", value: "InPlaceOrRecreate"}]
  : [JSONPatch{op: "add", path: "/spec/updatePolicy", value: {"updateMode": "InPlaceOrRecreate"}}]`,
}

// deletionConfirmed is what package deletionprotection demands of one object.
const deletionConfirmed = `has(oldObject.metadata.annotations) &&
  "` + deletionprotection.ConfirmationAnnotation + `" in oldObject.metadata.annotations &&
  oldObject.metadata.annotations["` + deletionprotection.ConfirmationAnnotation + `"] in
    ["1", "t", "T", "true", "TRUE", "True"]`

const deletionMessage = "the object is protected: it needs the " + deletionprotection.ConfirmationAnnotation +
	"=true annotation to delete it"
