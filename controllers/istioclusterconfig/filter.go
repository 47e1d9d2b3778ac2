package istioclusterconfig

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The label of EnvoyFilters that this controller may change and delete.
const (
	LabelManagedBy = "resources.gardener.cloud/managed-by"
	ManagedBy      = "istio-cluster-configuration"
)

// nameSuffix ends the name of an EnvoyFilter, after that of its source.
const nameSuffix = "-cluster-configuration"

// What patches set, as Envoy recommends it for edge proxies.
const (
	bufferBytes           = 32 << 10
	streamWindowBytes     = 64 << 10
	connectionWindowBytes = 1 << 20
	maxConnectionDuration = "86400s"

	optionsKey  = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	optionsType = "type.googleapis.com/" + optionsKey
)

// patch is for a cluster of Envoy: a port of a Service.
type patch struct {
	service  types.NamespacedName
	port     int32
	protocol protocol
}

// content is the patch in an EnvoyFilter.
func (p patch) content() map[string]any {
	value := map[string]any{"per_connection_buffer_limit_bytes": int64(bufferBytes)}
	options := map[string]any{
		"@type":                        optionsType,
		"common_http_protocol_options": map[string]any{"max_connection_duration": maxConnectionDuration},
	}
	windows := map[string]any{"http2_protocol_options": map[string]any{
		"initial_stream_window_size":     int64(streamWindowBytes),
		"initial_connection_window_size": int64(connectionWindowBytes),
	}}
	switch p.protocol {
	case http2:
		options["explicit_http_config"] = windows
		value["typed_extension_protocol_options"] = map[string]any{optionsKey: options}
	case asClient:
		options["use_downstream_protocol_config"] = windows
		value["typed_extension_protocol_options"] = map[string]any{optionsKey: options}
	case other:
	}
	cluster := fmt.Sprintf("outbound|%d||%s.%s%s", p.port, p.service.Name, p.service.Namespace, clusterDomain)
	return map[string]any{
		"applyTo": "CLUSTER",
		"match":   map[string]any{"context": "GATEWAY", "cluster": map[string]any{"name": cluster}},
		"patch":   map[string]any{"operation": "MERGE", "value": value},
	}
}

// nameOf is the name of the EnvoyFilter of a source.
func nameOf(source string) string { return source + nameSuffix }

// sourceOf is the source of an EnvoyFilter.
func sourceOf(filter types.NamespacedName) (string, bool) {
	source, is := strings.CutSuffix(filter.Name, nameSuffix)
	return source, is && source != ""
}

// newFilter returns the EnvoyFilter of a source in a namespace.
func newFilter(in, source string, uid types.UID, patches []patch) *unstructured.Unstructured {
	list := make([]any, 0, len(patches))
	for _, p := range patches {
		list = append(list, p.content())
	}
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configPatches": list}}}
	made.SetGroupVersionKind(envoyFilterKind)
	made.SetNamespace(in)
	made.SetName(nameOf(source))
	made.SetLabels(map[string]string{LabelManagedBy: ManagedBy})
	made.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Namespace", Name: source, UID: uid,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}})
	return made
}

// sizeOf is how many bytes the spec of an EnvoyFilter has as JSON.
func sizeOf(f *unstructured.Unstructured) int {
	text, err := json.Marshal(f.Object["spec"])
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return len(text)
}

// fingerprint is that of all that this controller determines in an EnvoyFilter.
type fingerprint [sha256.Size]byte

func fingerprintOf(obj client.Object) fingerprint {
	content, _ := contentOf(obj)
	text, err := json.Marshal([]any{obj.GetLabels(), obj.GetOwnerReferences(), content["spec"]})
	if err != nil {
		return fingerprint{} // nothing that came as JSON
	}
	return sha256.Sum256(text)
}
