package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// row is one line of the table: a script that both servers run in a namespace of the row's own.
type row struct {
	name  string
	steps []*step
}

// step is one request, or a look at a watch that an earlier one opened.
//
// In paths, headers and bodies, $ns is the row's namespace, ${uid} and ${rv} are those of the latest object that the server
// answered with, and ${name.path.to.field} is a field of the answer that was saved under a name. Numbers in the path index
// lists. What is no string is inserted as JSON.
type step struct {
	method, path string
	header       http.Header
	body         string

	code int // the status code that is expected of the real server
	// simulated is the status code that is expected of the simulator, if the answers are meant to differ.
	simulated int
	reason    string

	name string // the answer is saved under this name
	tag  string // its ETag is
	// patient repeats the request until it is answered with the code.
	patient bool
	// opens is the watch that the request opens.
	opens string
	// reads is the watch that is looked at, for so many events; -1: until it ends.
	reads  string
	events int
	// tick lets a second begin: times in objects have no finer grain.
	tick bool
	// compacts has both servers forget what they remember of the past.
	compacts bool
	// reduce takes out of an answer what is not to be compared, such as what the other one does not have.
	reduce func(doc, other any) any
}

func (s *step) String() string {
	switch {
	case s.reads != "" && s.events < 0:
		return fmt.Sprintf("rest of watch %q", s.reads)
	case s.reads != "":
		return fmt.Sprintf("%d events of watch %q", s.events, s.reads)
	case s.compacts:
		return "compaction"
	case s.tick:
		return "a second later"
	}
	return s.method + " " + s.path
}

// Requests. Paths are abbreviated, see expand.

func request(method, path, contentType, body string) *step {
	s := &step{method: method, path: path, body: body, header: http.Header{"User-Agent": {"conformance/1"}, "Accept": {"application/json"}}, code: http.StatusOK}
	if contentType != "" {
		s.header.Set("Content-Type", contentType)
	}
	return s
}

func get(path string) *step         { return request(http.MethodGet, path, "", "") }
func post(path, body string) *step  { return request(http.MethodPost, path, typeJSON, body).want(201) }
func put(path, body string) *step   { return request(http.MethodPut, path, typeJSON, body) }
func del(path string) *step         { return request(http.MethodDelete, path, "", "") }
func apply(path, body string) *step { return request(http.MethodPatch, path, typeApply, body) }
func merge(path, body string) *step { return request(http.MethodPatch, path, typeMerge, body) }

func strategic(path, body string) *step {
	return request(http.MethodPatch, path, typeStrategic, body)
}

func jsonPatch(path, body string) *step {
	return request(http.MethodPatch, path, typeJSONPatch, body)
}

// delWith deletes with options, given in YAML.
func delWith(path, options string) *step {
	return request(http.MethodDelete, path, typeJSON, toJSON(options))
}

// watch opens a watch.
func watch(name, path string) *step {
	s := get(path)
	s.opens = name
	return s
}

// events reads as many events of a watch.
func events(name string, n int) *step { return &step{reads: name, events: n, code: http.StatusOK} }

// remaining reads a watch to its end.
func remaining(name string) *step { return events(name, -1) }

func aSecondLater() *step { return &step{tick: true, code: http.StatusOK} }

func compact() *step { return &step{compacts: true, code: http.StatusOK} }

const (
	typeJSON      = "application/json"
	typeApply     = "application/apply-patch+yaml"
	typeMerge     = "application/merge-patch+json"
	typeStrategic = "application/strategic-merge-patch+json"
	typeJSONPatch = "application/json-patch+json"
	asPartial     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	asPartialList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

func (s *step) want(code int) *step { s.code = code; return s }

func (s *step) save(name string) *step { s.name = name; return s }

func (s *step) with(header, value string) *step {
	s.header.Set(header, value)
	return s
}

func (s *step) accept(types string) *step { return s.with("Accept", types) }

// by sets the user agent, from which servers derive the field manager.
func (s *step) by(agent string) *step { return s.with("User-Agent", agent) }

func (s *step) eventually() *step { s.patient = true; return s }

func (s *step) only(reduce func(doc, other any) any) *step { s.reduce = reduce; return s }

// keepTag saves the ETag of the answer.
func (s *step) keepTag(name string) *step { s.tag = name; return s }

// differs says that the simulator is meant to answer something else, and why.
func (s *step) differs(code int, reason string) *step {
	s.simulated, s.reason = code, reason
	return s
}

// Objects.

// apiVersions are those of the kinds that rows write.
var apiVersions = map[string]string{
	"ConfigMap": "v1", "Secret": "v1", "Service": "v1", "ServiceAccount": "v1", "Namespace": "v1", "Pod": "v1", "PersistentVolumeClaim": "v1",
	"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1",
	"Role": rbac, "RoleBinding": rbac, "ClusterRole": rbac, "ClusterRoleBinding": rbac,
	"CustomResourceDefinition": "apiextensions.k8s.io/v1",
	"Widget":                   "conformance.test/v1", "Gadget": "conformance.test/v1", "Scale": "autoscaling/v1",
	"NetworkPolicy": "networking.k8s.io/v1", "HorizontalPodAutoscaler": "autoscaling/v2",
}

const rbac = "rbac.authorization.k8s.io/v1"

// object returns an object as JSON. What it has besides its kind and name is given in YAML.
func object(kind, name string, content ...string) string {
	obj := map[string]any{}
	for _, part := range content {
		var more map[string]any
		if err := yaml.Unmarshal([]byte(part), &more); err != nil {
			panic(fmt.Sprintf("content of %s %s: %v", kind, name, err))
		}
		maps.Copy(obj, more)
	}
	obj["apiVersion"], obj["kind"] = apiVersions[kind], kind
	if _, own := obj["apiVersionOf"]; own {
		obj["apiVersion"] = obj["apiVersionOf"]
		delete(obj, "apiVersionOf")
	}
	if name != "" {
		metadata, _ := obj["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["name"] = name
		obj["metadata"] = metadata
	}
	return marshal(obj)
}

func cm(name string, content ...string) string { return object("ConfigMap", name, content...) }

func marshal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func toJSON(text string) string {
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// Paths.

// collections are the abbreviations of paths. A path that begins with a slash is none.
var collections = map[string]string{
	"cm":        "/api/v1/namespaces/$ns/configmaps",
	"secret":    "/api/v1/namespaces/$ns/secrets",
	"svc":       "/api/v1/namespaces/$ns/services",
	"sa":        "/api/v1/namespaces/$ns/serviceaccounts",
	"pod":       "/api/v1/namespaces/$ns/pods",
	"pvc":       "/api/v1/namespaces/$ns/persistentvolumeclaims",
	"deploy":    "/apis/apps/v1/namespaces/$ns/deployments",
	"sts":       "/apis/apps/v1/namespaces/$ns/statefulsets",
	"job":       "/apis/batch/v1/namespaces/$ns/jobs",
	"role":      "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles",
	"rb":        "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/rolebindings",
	"netpol":    "/apis/networking.k8s.io/v1/namespaces/$ns/networkpolicies",
	"hpa":       "/apis/autoscaling/v2/namespaces/$ns/horizontalpodautoscalers",
	"cr":        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ns":        "/api/v1/namespaces",
	"crd":       "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"widget":    "/apis/conformance.test/v1/namespaces/$ns/widgets",
	"widget/v2": "/apis/conformance.test/v2/namespaces/$ns/widgets",
	"gadget":    "/apis/conformance.test/v1/namespaces/$ns/gadgets",
}

var abbreviation = regexp.MustCompile(`^[a-z]+(/v2)?`)

func expand(path string) string {
	return abbreviation.ReplaceAllStringFunc(path, func(short string) string {
		if full, known := collections[short]; known {
			return full
		}
		panic("unknown abbreviation in path " + path)
	})
}

// memory is what one server answered in a row so far.
type memory struct {
	namespace string
	uid, rv   string
	saved     map[string]any
}

// remember keeps of an answer what later steps may use.
func (m *memory) remember(name string, doc any) {
	if name != "" {
		m.saved[name] = doc
	}
	if uid, _ := field(doc, "metadata", "uid").(string); uid != "" {
		m.uid = uid
		m.rv, _ = field(doc, "metadata", "resourceVersion").(string)
	}
}

var reference = regexp.MustCompile(`\$\{[^}]+\}|\$ns\b`)

// fill replaces the references in a text.
func (m *memory) fill(text string) (string, error) {
	var failed error
	text = reference.ReplaceAllStringFunc(text, func(ref string) string {
		switch ref {
		case "$ns":
			return m.namespace
		case "${uid}":
			return m.uid
		case "${rv}":
			return m.rv
		}
		path := strings.Split(strings.Trim(ref, "${}"), ".")
		value := field(m.saved[path[0]], path[1:]...)
		switch v := value.(type) {
		case nil:
			failed = fmt.Errorf("no answer has %s", ref)
			return ""
		case string:
			return v
		default:
			return marshal(v)
		}
	})
	return text, failed
}

// field returns what is at a path in a document, nil if there is nothing.
func field(doc any, path ...string) any {
	for _, name := range path {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			doc = v[i]
		default:
			return nil
		}
	}
	return doc
}
