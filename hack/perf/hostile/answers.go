package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// place is a request whose answer is hostile.
type place struct {
	name string
	// asked reports whether a request is this one.
	asked func(*http.Request) bool
	// prefix and suffix are around the hostile value.
	prefix, suffix string
	// contentType and status of the answer; JSON and 200 if they are not set.
	contentType string
	status      int
	// pages has the honest server not stream lists.
	pages bool
	// unaggregated has the honest server answer discovery piece by piece.
	unaggregated bool
	// managed is needed: the request comes only if a ManagedResource has objects in the target.
	managed bool
	// leaving is needed: the request comes only for objects whose ManagedResource is deleted.
	leaving bool
}

const (
	aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	protobufType   = "application/vnd.kubernetes.protobuf"
	kubeSystem     = "/api/v1/namespaces/kube-system"
)

func exactly(method string, paths ...string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && slices.Contains(paths, r.URL.Path) }
}

// isResource reports whether a path is one of objects, and not of discovery. named is true if it names one of them.
func isResource(path string) (named, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return false, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return len(parts) > 1, true
}

func reads(verb string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		named, ok := isResource(r.URL.Path)
		if !ok || r.Method != http.MethodGet || r.URL.Path == kubeSystem {
			return false
		}
		switch verb {
		case "watch":
			return r.URL.Query().Get("watch") != ""
		case "list":
			return !named && r.URL.Query().Get("watch") == ""
		default:
			return named && r.URL.Query().Get("watch") == ""
		}
	}
}

// object is the beginning of an object with its metadata open.
const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"steady-0",` +
	`"uid":"u","resourceVersion":"9",`

// partial is the same as metadata alone.
const partial = `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{` +
	`"namespace":"default","name":"steady-0","uid":"u","resourceVersion":"9",`

// list is the beginning of a page.
const list = `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9"},`

// places are all requests that a hub sends to a target.
var places = []place{
	{
		name: "version", asked: exactly(http.MethodGet, "/version"),
		prefix: `{"gitVersion":"v1.36.3","platform":`, suffix: "}",
	},
	{
		name: "identity", asked: exactly(http.MethodGet, kubeSystem),
		prefix: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":"u","managedFields":`,
		suffix: "}}",
	},
	{
		name: "self review", asked: exactly(http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
		prefix: `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview",` +
			`"status":{"userInfo":{"username":"u","groups":`,
		suffix: "}}}", status: http.StatusCreated,
	},
	{
		name: "aggregated discovery", asked: exactly(http.MethodGet, "/api", "/apis"), contentType: aggregatedType,
		prefix: `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":`,
		suffix: "}",
	},
	{
		name: "groups of discovery", asked: exactly(http.MethodGet, "/apis"),
		prefix: `{"kind":"APIGroupList","apiVersion":"v1","groups":`, suffix: "}", unaggregated: true,
	},
	{
		name: "resources of discovery", asked: exactly(http.MethodGet, "/api/v1", "/apis/apps/v1"),
		prefix: `{"kind":"APIResourceList","groupVersion":"v1","resources":`, suffix: "}", unaggregated: true,
	},
	{
		name: "pages", asked: reads("list"), pages: true,
		prefix: list + `"items":`, suffix: "}",
	},
	{
		name: "objects of pages", asked: reads("list"), pages: true,
		prefix: list + `"items":[` + partial + `"managedFields":`, suffix: "}}]}",
	},
	{
		name: "watch events", asked: reads("watch"),
		prefix: `{"type":"ADDED","object":` + partial + `"managedFields":`, suffix: "}}}\n",
	},
	{name: "GET", asked: reads("get"), prefix: object + `"managedFields":`, suffix: "}}", managed: true, leaving: true},
	{
		name: "PATCH", asked: func(r *http.Request) bool { return r.Method == http.MethodPatch },
		prefix: object + `"managedFields":`, suffix: "}}", managed: true,
	},
	{
		name: "refusals", asked: func(r *http.Request) bool {
			_, ok := isResource(r.URL.Path)
			return ok && r.URL.Path != kubeSystem && !strings.HasPrefix(r.URL.Path, "/apis/auth")
		},
		prefix: `{"apiVersion":"v1","kind":"Status","status":"Failure","code":500,"details":{"causes":`, suffix: "}}",
		status: http.StatusInternalServerError,
	},
}

// placed finds a place by its name.
func placed(name string) place {
	i := slices.IndexFunc(places, func(p place) bool { return p.name == name })
	if i < 0 {
		panic("no place is called " + name)
	}
	return places[i]
}

// intercepts answers what is asked at the place with a value.
func (p place) intercepts(s shape, size int, zipped bool) interceptor {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if p.asked(r) {
			a := answer{status: p.status, contentType: p.contentType, gzip: zipped}
			a.send(w, body{p.prefix, p.suffix, s, size})
			return true
		}
		if p.unaggregated && (r.URL.Path == "/api" || r.URL.Path == "/apis") {
			r.Header.Set("Accept", "application/json")
		}
		return false
	}
}

// The sizes of values: what is below bounds of bytes and large in memory, and what is above all of them.
const (
	below = 900 << 10
	about = 12 << 20
	above = 256 << 20
)

// protobufShapes are values of metadata in protobuf that are two or three bytes each, and much more in memory.
var protobufShapes = map[string]protowire.Number{"ownerReferences": 13, "finalizers": 14, "managedFields": 17}

// protobufObject is metadata in protobuf with many empty elements in one of its fields.
func protobufObject(field protowire.Number, size int) []byte {
	element := protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), nil)
	metadata := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "steady-0")
	metadata = protowire.AppendString(protowire.AppendTag(metadata, 3, protowire.BytesType), "default")
	metadata = protowire.AppendString(protowire.AppendTag(metadata, 5, protowire.BytesType), "u")
	metadata = protowire.AppendString(protowire.AppendTag(metadata, 6, protowire.BytesType), "9")
	metadata = append(metadata, bytes.Repeat(element, size/len(element))...)
	raw := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), metadata)
	return enveloped("meta.k8s.io/v1", "PartialObjectMetadata", raw)
}

// enveloped is a document of protobuf with its type.
func enveloped(version, kind string, raw []byte) []byte {
	typed := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), version)
	typed = protowire.AppendString(protowire.AppendTag(typed, 2, protowire.BytesType), kind)
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), typed)
	unknown = protowire.AppendBytes(protowire.AppendTag(unknown, 2, protowire.BytesType), raw)
	return append([]byte("k8s\x00"), unknown...)
}

// protobufIntercepts answers GET and PATCH, or watches, with such an object.
func protobufIntercepts(field protowire.Number, size int, watches, zipped bool) interceptor {
	document := protobufObject(field, size)
	contentType := protobufType
	if watches {
		contentType += ";stream=watch"
		event := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "ADDED")
		extension := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), document)
		event = protowire.AppendBytes(protowire.AppendTag(event, 2, protowire.BytesType), extension)
		//nolint:gosec // sizes are those of this package
		document = append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
	}
	if zipped {
		document = compressed(document)
	}
	isGet, isWatch := reads("get"), reads("watch")
	return func(w http.ResponseWriter, r *http.Request) bool {
		if watches && !isWatch(r) || !watches && !isGet(r) && r.Method != http.MethodPatch {
			return false
		}
		w.Header().Set("Content-Type", contentType)
		if zipped {
			w.Header().Set("Content-Encoding", "gzip")
		}
		_, _ = w.Write(document) // a client that leaves is no error
		return true
	}
}

// answersCases are those of answers that are small on the wire and large in memory.
func answersCases() []attack {
	var out []attack
	// Each shape in each place at once: ten targets and more in a namespace.
	for _, s := range shapes {
		for _, v := range []struct {
			name  string
			size  int
			gzip  bool
			http1 bool
			quick bool
		}{
			{"gzip, HTTP/2", above, true, false, s.name == elements.name},
			{"gzip, HTTP/1.1", about, true, true, false},
			{"HTTP/2", about, false, false, false},
			{"HTTP/1.1", above, false, true, false},
			{"small, HTTP/2", below, false, false, false},
		} {
			out = append(out, attack{
				row: 5, name: fmt.Sprintf("%s in all places, %s", s.name, v.name), budget: manyTargets, quick: v.quick,
				begin: func(ctx context.Context, sc *scene) error {
					return sc.each(places, func(i int, p place) error {
						return sc.place(ctx, fmt.Sprintf("t%d", i), p, p.managed || i%2 == 0, serverOptions{
							http1: v.http1, intercept: p.intercepts(s, v.size, v.gzip),
						})
					})
				},
			})
		}
	}
	// Each place alone, with what is worst there.
	for _, p := range places {
		for _, v := range []struct {
			shape shape
			size  int
			gzip  bool
		}{{elements, above, true}, {elements, about, false}, {managedFields, about, true}} {
			name := fmt.Sprintf("%s in %s, %d MiB", v.shape.name, p.name, v.size>>20)
			if v.gzip {
				name += ", gzip"
			}
			out = append(out, attack{
				row: 5, name: name, budget: oneTarget, quick: p.name == "PATCH" && v.size == about && !v.gzip,
				begin: func(ctx context.Context, sc *scene) error {
					return sc.place(ctx, "t", p, true, serverOptions{intercept: p.intercepts(v.shape, v.size, v.gzip)})
				},
			})
		}
	}
	for field, number := range protobufShapes {
		for _, watches := range []bool{false, true} {
			for _, zipped := range []bool{false, true} {
				name := field + " in protobuf, GET and PATCH"
				if watches {
					name = field + " in protobuf, watch events"
				}
				if zipped {
					name += ", gzip"
				}
				out = append(out, attack{
					row: 5, name: name, budget: oneTarget,
					begin: func(ctx context.Context, sc *scene) error {
						hostile := protobufIntercepts(number, about, watches, zipped)
						return sc.target(ctx, "t", true, serverOptions{intercept: hostile})
					},
				})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b attack) int { return strings.Compare(a.name, b.name) })
	return out
}

// managed is what a ManagedResource of a hostile target applies.
func managedObjects(n int) []string {
	var out []string
	for i := range n {
		out = append(out, testbed.ConfigMap("default", fmt.Sprintf("steady-%d", i), "value"))
	}
	return append(out,
		`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"steady"},`+
			`"spec":{"ports":[{"port":80}]}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"steady"},`+
			`"spec":{"replicas":1,`+
			`"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},`+
			`"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
}
