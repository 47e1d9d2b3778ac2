package kinds_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
)

// step is one write to one object.
type step struct {
	// verb is create, update, json, merge, strategic or apply.
	verb string
	// resource is apps/v1/deployments, with a subresource behind it if any; namespaced ones are in the namespace
	// "default".
	resource, name, body string
	manager              string // "test" if empty
	force                bool
	validation           string
	// uid and resourceVersion of the live object stand for <uid> and <rv> in the body.
}

// answer is what came of a step.
type answer struct {
	Code     int            `json:"code"`
	Warnings []string       `json:"warnings,omitempty"`
	Body     map[string]any `json:"body"`
	Changed  bool           `json:"changed"`
}

// namespace is where a run of the tests works.
var namespace = fmt.Sprintf("kinds-%d", time.Now().Unix())

// simulated keeps objects in memory and lets kinds do the rest.
type simulated struct {
	registry *kinds.Registry
	objects  map[string]*unstructured.Unstructured
	version  int
	now      time.Time
}

func parse(resource string) (gvr schema.GroupVersionResource, subresource string) {
	parts := strings.Split(resource, "/")
	gvr = schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	if len(parts) > 3 {
		subresource = parts[3]
	}
	return gvr, subresource
}

func (w *simulated) do(g Gomega, s step) answer {
	gvr, subresource := parse(s.resource)
	r, ok := w.registry.Resource(gvr)
	g.Expect(ok).To(BeTrue(), s.resource)
	key := gvr.GroupResource().String() + "/" + s.name
	live := w.objects[key]
	write := kinds.Write{
		Subresource: subresource, Body: []byte(fill(s.body, live)), Manager: manager(s), Force: s.force,
		FieldValidation: s.validation, Now: w.now,
	}
	if r.Namespaced {
		write.Namespace = namespace
	}
	if s.verb != "create" {
		write.Name = s.name
	}
	write.Verb, write.PatchType = verbOf(s.verb)
	var before []byte
	if live != nil {
		before, _ = json.Marshal(live.Object)
	}
	argument := live
	if write.Verb == kinds.Create {
		argument = nil
	}
	result, err := r.Next(argument, write)
	if live != nil {
		after, _ := json.Marshal(live.Object)
		g.Expect(after).To(Equal(before), "the live object has been modified")
	}
	if err != nil {
		var status *apierrors.StatusError
		g.Expect(errors.As(err, &status)).To(BeTrue(), "%T: %v", err, err)
		return answer{Code: int(status.ErrStatus.Code), Body: content(g, status.ErrStatus), Warnings: result.Warnings}
	}
	code := http.StatusOK
	object := result.Object
	if live == nil {
		code = http.StatusCreated
		object = object.DeepCopy()
		if object.GetUID() == "" {
			object.SetUID(types.UID(fmt.Sprintf("uid-%d", w.version)))
		}
		object.SetCreationTimestamp(metav1.NewTime(w.now))
	}
	if result.Changed {
		object = object.DeepCopy()
		w.version++
		object.SetResourceVersion(fmt.Sprint(w.version))
		w.objects[key] = object
	}
	shown := r.Convert(object)
	return answer{Code: code, Body: shown.DeepCopy().Object, Warnings: result.Warnings, Changed: result.Changed}
}

func fill(body string, live *unstructured.Unstructured) string {
	body = strings.ReplaceAll(body, "<ns>", namespace)
	if live == nil {
		return body
	}
	return strings.NewReplacer("<uid>", string(live.GetUID()), "<rv>", live.GetResourceVersion()).Replace(body)
}

func manager(s step) string {
	if s.manager == "" {
		return "test"
	}
	return s.manager
}

func verbOf(verb string) (kinds.Verb, types.PatchType) {
	switch verb {
	case "json":
		return kinds.Patch, types.JSONPatchType
	case "merge":
		return kinds.Patch, types.MergePatchType
	case "strategic":
		return kinds.Patch, types.StrategicMergePatchType
	case "apply":
		return kinds.Apply, types.ApplyPatchType
	}
	return kinds.Verb(verb), ""
}

func content(g Gomega, value any) map[string]any {
	doc, err := json.Marshal(value)
	g.Expect(err).NotTo(HaveOccurred())
	var content map[string]any
	g.Expect(json.Unmarshal(doc, &content)).To(Succeed())
	return content
}

// server is a kube-apiserver.
type server struct {
	registry *kinds.Registry
	client   *http.Client
	host     string
}

func (w *server) request(g Gomega, method, path, contentType string, query url.Values, body string) (int, http.Header, map[string]any) {
	req, err := http.NewRequest(method, w.host+path+"?"+query.Encode(), bytes.NewBufferString(body))
	g.Expect(err).NotTo(HaveOccurred())
	req.Header.Set("Content-Type", contentType)
	response, err := w.client.Do(req)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	doc, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	var content map[string]any
	if json.Unmarshal(doc, &content) != nil {
		content = map[string]any{"text": string(doc)} // what comes from outside the machinery
	}
	return response.StatusCode, response.Header, content
}

func (w *server) do(g Gomega, s step) answer {
	gvr, subresource := parse(s.resource)
	r, _ := w.registry.Resource(gvr)
	path := "/apis/" + gvr.Group + "/" + gvr.Version
	if gvr.Group == "" {
		path = "/api/v1"
	}
	if r == nil || r.Namespaced {
		path += "/namespaces/" + namespace
	}
	path += "/" + gvr.Resource
	named := path + "/" + s.name
	_, _, before := w.request(g, http.MethodGet, named, "", nil, "")
	live := &unstructured.Unstructured{Object: before}
	if subresource != "" {
		named += "/" + subresource
	}
	query := url.Values{"fieldManager": {manager(s)}}
	if s.force {
		query.Set("force", "true")
	}
	if s.validation != "" {
		query.Set("fieldValidation", s.validation)
	}
	method, contentType := http.MethodPatch, string("application/json")
	switch verb, patchType := verbOf(s.verb); verb {
	case kinds.Create:
		method, named = http.MethodPost, path
	case kinds.Update:
		method = http.MethodPut
	default:
		contentType = string(patchType)
		if s.verb == "apply" {
			contentType = string(types.ApplyYAMLPatchType)
		}
	}
	code, header, body := w.request(g, method, named, contentType, query, fill(s.body, live))
	_, _, after := w.request(g, http.MethodGet, strings.TrimSuffix(named, "/"+subresource), "", nil, "")
	var warnings []string
	for _, warning := range header.Values("Warning") {
		warnings = append(warnings, strings.TrimSuffix(strings.TrimPrefix(warning, `299 - "`), `"`))
	}
	for i := range warnings {
		warnings[i] = strings.ReplaceAll(warnings[i], `\"`, `"`)
	}
	changed := code < 300 && (s.verb == "create" || (&unstructured.Unstructured{Object: after}).GetResourceVersion() != live.GetResourceVersion())
	return answer{Code: code, Body: body, Warnings: warnings, Changed: changed}
}

// own matches what is different from server to server in a document that a message quotes.
var own = regexp.MustCompile(`(UID in object meta: |(?:uid|resourceVersion|Timestamp|time)[\\\\]+":[\\\\]+")[^"\\\\]*`)

// normal makes answers comparable.
func normal(g Gomega, a answer) string {
	if a.Code >= http.StatusBadRequest {
		doc, err := json.Marshal(a.Body)
		g.Expect(err).NotTo(HaveOccurred())
		doc = own.ReplaceAll(doc, []byte(`$1...`))
		a.Body = nil
		g.Expect(json.Unmarshal(doc, &a.Body)).To(Succeed())
		delete(a.Body, "metadata")
		delete(a.Body, "apiVersion")
		delete(a.Body, "kind")
		if details, ok := a.Body["details"].(map[string]any); ok {
			delete(details, "uid")
		}
	} else {
		o := &unstructured.Unstructured{Object: a.Body}
		uid := string(o.GetUID())
		metadata, _ := a.Body["metadata"].(map[string]any)
		for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "selfLink"} {
			if metadata[name] != nil {
				metadata[name] = "..."
			}
		}
		if entries, ok := metadata["managedFields"].([]any); ok {
			for _, entry := range entries {
				if entry, ok := entry.(map[string]any); ok && entry["time"] != nil {
					entry["time"] = "..."
				}
			}
			// Their order follows the times.
			slices.SortFunc(entries, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		doc, err := json.Marshal(a.Body)
		g.Expect(err).NotTo(HaveOccurred())
		if len(uid) > 0 {
			doc = bytes.ReplaceAll(doc, []byte(uid), []byte("UID"))
		}
		a.Body = nil
		g.Expect(json.Unmarshal(doc, &a.Body)).To(Succeed())
		if a.Body["kind"] == "Service" {
			spec, _ := a.Body["spec"].(map[string]any)
			if ip, _ := spec["clusterIP"].(string); strings.HasPrefix(ip, "10.") {
				spec["clusterIP"], spec["clusterIPs"] = "IP", "[IP]"
			}
			ports, _ := spec["ports"].([]any)
			for _, port := range ports {
				if p, _ := port.(map[string]any); p["nodePort"] != nil {
					p["nodePort"] = "PORT"
				}
			}
		}
	}
	doc, err := yaml.Marshal(a)
	g.Expect(err).NotTo(HaveOccurred())
	return string(doc)
}

func definitions(g Gomega, crds ...string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, crd := range crds {
		var definition unstructured.Unstructured
		doc, err := yaml.YAMLToJSON([]byte(crd))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(definition.UnmarshalJSON(doc)).To(Succeed())
		all = append(all, &definition)
	}
	return all
}

// define creates a CustomResourceDefinition, waits until it is served, and returns the registry that has it.
func (w *server) define(g Gomega, crd string) *kinds.Registry {
	definition := definitions(g, crd)[0]
	doc, err := json.Marshal(definition.Object)
	g.Expect(err).NotTo(HaveOccurred())
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	code, _, body := w.request(g, http.MethodPost, path, "application/json", nil, string(doc))
	g.Expect(code).To(BeElementOf(http.StatusCreated, http.StatusConflict), "%v", body)
	var stored map[string]any
	served := func() any {
		_, _, stored = w.request(g, http.MethodGet, path+"/"+definition.GetName(), "", nil, "")
		group, _, _ := unstructured.NestedString(stored, "spec", "group")
		plural, _, _ := unstructured.NestedString(stored, "spec", "names", "plural")
		versions, _, _ := unstructured.NestedSlice(stored, "spec", "versions")
		for _, version := range versions {
			v, _ := version.(map[string]any)
			code, _, _ := w.request(g, http.MethodGet, fmt.Sprintf("/apis/%s/%s/%s", group, v["name"], plural), "", nil, "")
			if code != http.StatusOK {
				return code
			}
		}
		return http.StatusOK
	}
	for range 100 {
		if served() == http.StatusOK {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	// The schemas of the versions come to the server a moment later.
	time.Sleep(time.Second)
	registry, err := kinds.BuiltIn().With([]*unstructured.Unstructured{{Object: stored}})
	g.Expect(err).NotTo(HaveOccurred())
	return registry
}

func startReal(t *testing.T) (*server, *rest.Config) {
	t.Helper()
	g := NewWithT(t)
	var config *rest.Config
	if path := os.Getenv("KINDS_KUBECONFIG"); path != "" {
		var err error
		config, err = clientcmd.BuildConfigFromFlags("", path)
		g.Expect(err).NotTo(HaveOccurred())
	} else {
		config = controlplane.StartForTest(t, controlplane.Options{}).RESTConfig()
	}
	client, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	return &server{registry: kinds.BuiltIn(), client: client, host: config.Host}, config
}

func TestAgreesWithKubeAPIServer(t *testing.T) {
	actual, _ := startReal(t)
	NewWithT(t).Expect(actual.do(NewWithT(t), step{
		verb: "create", resource: "/v1/namespaces", name: namespace, body: `{"metadata":{"name":"<ns>"}}`,
	}).Code).To(Equal(http.StatusCreated))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			registry := kinds.BuiltIn()
			if c.crd != "" {
				registry = actual.define(g, c.crd)
			}
			actual.registry = registry
			sim := &simulated{
				registry: registry, objects: map[string]*unstructured.Unstructured{}, version: 100, now: time.Now(),
			}
			for i, s := range c.steps {
				expected := normal(g, actual.do(g, s))
				got := normal(g, sim.do(g, s))
				if got != expected {
					t.Errorf("step %d, %s %s %s:\n%s", i, s.verb, s.resource, s.name, difference(expected, got))
				}
			}
		})
	}
}

// difference shows the lines that differ.
func difference(expected, got string) string {
	a, b := strings.Split(expected, "\n"), strings.Split(got, "\n")
	count := map[string]int{}
	for _, line := range a {
		count[line]++
	}
	for _, line := range b {
		count[line]--
	}
	var out []string
	for _, line := range a {
		if count[line] > 0 {
			out = append(out, "- "+line)
			count[line]--
		}
	}
	for _, line := range b {
		if count[line] < 0 {
			out = append(out, "+ "+line)
			count[line]++
		}
	}
	if len(out) > 60 {
		out = append(out[:60], "...")
	}
	if len(out) == 0 {
		return "another order"
	}
	return strings.Join(out, "\n")
}
