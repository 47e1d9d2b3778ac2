package istioclusterconfig

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// Bounds of what is kept of an object.
const (
	maxPorts     = 100 // of a Service, and of those that a rule has settings for
	maxExports   = 100 // of a rule
	maxExportTo  = 4 << 10
	maxNamespace = 63 // of the name of a namespace, in an API server
)

// Keys of objects that are not written.
const (
	// AnnotationExportTo of a Service are the namespaces that see it, separated by commas.
	AnnotationExportTo = "networking.istio.io/exportTo"
	// LabelRole has the value of RoleIngress in namespaces with ingress gateways.
	LabelRole = "gardener.cloud/role"
	// RoleIngress is the value of LabelRole.
	RoleIngress = "istio-ingress"
	// LabelExposureClass is on namespaces with the ingress gateways of an exposure class.
	LabelExposureClass = "handler.exposureclass.gardener.cloud/name"
)

// Kinds of Istio, which need not be there.
var (
	destinationRuleKind = schema.GroupVersionKind{
		Group: "networking.istio.io", Version: "v1beta1", Kind: "DestinationRule",
	}
	envoyFilterKind = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1alpha3", Kind: "EnvoyFilter"}
)

// clusterDomain ends the hosts of Services.
const clusterDomain = ".svc.cluster.local"

// rule is what is kept of a DestinationRule. Nothing is kept of one from which nothing can follow.
type rule struct {
	uid      types.UID
	service  types.NamespacedName
	exports  exports
	protocol protocol // of all ports, if the rule says so
	ports    []port   // that it says another one of
	fault    string   // that it exceeds a bound
}

// nothing is kept of a rule or a Service from which nothing can follow.
type nothing struct{}

func ruleOf(obj client.Object) any {
	content, _ := contentOf(obj)
	spec, _ := content["spec"].(map[string]any)
	host, _ := spec["host"].(string)
	kept := &rule{uid: obj.GetUID()}
	var is bool
	if kept.service, is = serviceOfHost(host, obj.GetNamespace()); !is {
		return nothing{}
	}
	if subsets, _ := spec["subsets"].([]any); len(subsets) > 0 || spec["workloadSelector"] != nil {
		return nothing{} // they make other clusters, or are about sidecars
	}
	exportTo, _ := spec["exportTo"].([]any)
	if len(exportTo) > maxExports {
		kept.fault = fmt.Sprintf("spec.exportTo has %d entries, more than %d", len(exportTo), maxExports)
		return kept
	}
	if kept.exports = exportsOf(texts(exportTo), obj.GetNamespace()); kept.exports.nowhere() {
		return nothing{}
	}
	policy, _ := spec["trafficPolicy"].(map[string]any)
	kept.protocol = ofPolicy(policy)
	ports, _ := policy["portLevelSettings"].([]any)
	if len(ports) > maxPorts {
		kept.fault = fmt.Sprintf("spec.trafficPolicy.portLevelSettings has %d entries, more than %d", len(ports), maxPorts)
		return kept
	}
	for _, item := range ports {
		settings, _ := item.(map[string]any)
		number, _, _ := unstructured.NestedFieldNoCopy(settings, "port", "number") // what cannot be read is not there
		if p := (port{portNumber(number), ofPolicy(settings)}); p.protocol != other {
			kept.ports = append(kept.ports, p)
		}
	}
	return kept
}

// serviceOfHost is the Service that the host of a rule in a namespace names.
func serviceOfHost(host, own string) (types.NamespacedName, bool) {
	if host != "" && len(host) <= maxNamespace && !strings.Contains(host, ".") {
		return types.NamespacedName{Namespace: own, Name: host}, true
	}
	names, is := strings.CutSuffix(host, clusterDomain)
	service, namespace, qualified := strings.Cut(names, ".")
	if !is || !qualified || service == "" || namespace == "" || strings.Contains(namespace, ".") ||
		len(service) > maxNamespace || len(namespace) > maxNamespace {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: namespace, Name: service}, true
}

func texts(list []any) (found []string) {
	for _, item := range list {
		if text, is := item.(string); is {
			found = append(found, text)
		}
	}
	return found
}

// portNumber is the number of a port, as JSON decoders return it; zero if it is none.
func portNumber(value any) int32 {
	var number int64
	switch n := value.(type) {
	case int64:
		number = n
	case float64:
		number = int64(n)
	}
	if number < 1 || number > 1<<16-1 {
		return 0
	}
	return int32(number)
}

// port is one of a Service, and what gateways speak with it.
type port struct {
	number   int32
	protocol protocol
}

// service is what is kept of one that is exported anywhere.
type service struct {
	uid     types.UID
	exports exports
	ports   []port
	fault   string // that it exceeds a bound
}

func serviceOf(obj client.Object) any {
	text := obj.GetAnnotations()[AnnotationExportTo]
	kept := &service{uid: obj.GetUID()}
	if len(text) > maxExportTo {
		kept.fault = fmt.Sprintf("annotation %s has %d bytes, more than %d", AnnotationExportTo, len(text), maxExportTo)
		return kept
	}
	if kept.exports = exportsOf(strings.Split(text, ","), obj.GetNamespace()); kept.exports.nowhere() {
		return nothing{}
	}
	whole := &corev1.Service{}
	content, is := contentOf(obj)
	if !is || runtime.DefaultUnstructuredConverter.FromUnstructured(content, whole) != nil {
		return nothing{} // no API server sends that
	}
	if n := len(whole.Spec.Ports); n > maxPorts {
		kept.fault = fmt.Sprintf("spec.ports has %d entries, more than %d", n, maxPorts)
		return kept
	}
	for _, p := range whole.Spec.Ports {
		kept.ports = append(kept.ports, port{p.Port, ofPort(p.Name, p.AppProtocol)})
	}
	return kept
}

// namespace is what is kept of one.
type namespace struct {
	uid     types.UID
	ingress bool // it has ingress gateways, and does not end
}

func namespaceOf(obj client.Object) any {
	_, exposes := obj.GetLabels()[LabelExposureClass]
	return namespace{
		uid:     obj.GetUID(),
		ingress: (exposes || obj.GetLabels()[LabelRole] == RoleIngress) && obj.GetDeletionTimestamp() == nil,
	}
}

// filter is what is kept of an EnvoyFilter with the label.
type filter struct {
	uid         types.UID
	version     string
	fingerprint fingerprint
}

func filterOf(obj client.Object) any {
	return filter{obj.GetUID(), obj.GetResourceVersion(), fingerprintOf(obj)}
}

func contentOf(obj client.Object) (map[string]any, bool) {
	content, ok := obj.(interface{ UnstructuredContent() map[string]any })
	if !ok {
		return nil, false
	}
	return content.UnstructuredContent(), true
}

// watches are what is watched in a target.
type watches struct {
	rules, services, namespaces, filters *multicluster.Objects
}

func newWatches() watches {
	return watches{
		rules: &multicluster.Objects{
			Kind: destinationRuleKind,
			Fields: [][]string{
				{"spec", "host"}, {"spec", "exportTo"}, {"spec", "subsets"}, {"spec", "workloadSelector"},
				{"spec", "trafficPolicy", "connectionPool", "http"}, {"spec", "trafficPolicy", "portLevelSettings"},
			},
			Transform: ruleOf, Form: "what EnvoyFilters follow from of a DestinationRule", Optional: true,
		},
		services: &multicluster.Objects{
			Kind: corev1.SchemeGroupVersion.WithKind("Service"), Fields: [][]string{{"spec", "ports"}},
			Transform: serviceOf, Form: "what EnvoyFilters follow from of a Service",
		},
		namespaces: &multicluster.Objects{
			Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), MetadataOnly: true,
			Transform: namespaceOf, Form: "whether a namespace has ingress gateways",
		},
		filters: &multicluster.Objects{
			Kind: envoyFilterKind, LabelSelector: labels.SelectorFromSet(labels.Set{LabelManagedBy: ManagedBy}),
			Fields: [][]string{{"spec"}}, Transform: filterOf, Form: "the fingerprint of an EnvoyFilter", Optional: true,
		},
	}
}

func (w *watches) all() []*multicluster.Objects {
	return []*multicluster.Objects{w.rules, w.services, w.namespaces, w.filters}
}

// A request with a name only is about a source: a namespace with rules. One with a namespace, too, is about a Service.
// The name of one about a namespace with gateways begins with aboutIngress.
const aboutIngress = "ingress/"

// ofRule has the namespace of a rule reconciled if something has changed that matters.
func ofRule(name types.NamespacedName, old, value any) []types.NamespacedName {
	if sameEffect(old, value) {
		return nil
	}
	return []types.NamespacedName{{Name: name.Namespace}}
}

// ofService has the sources sought that have rules for a Service.
func ofService(name types.NamespacedName, old, value any) []types.NamespacedName {
	if sameEffect(old, value) {
		return nil
	}
	return []types.NamespacedName{name}
}

// sameEffect reports whether the same follows from an object as before. Nothing follows from one that is not there.
func sameEffect(old, value any) bool {
	for _, state := range []*any{&old, &value} {
		if *state == nil {
			*state = nothing{}
		}
	}
	return reflect.DeepEqual(old, value)
}

// ofNamespace has a namespace reconciled that is new, and the sources sought that have to do with its gateways.
func ofNamespace(name types.NamespacedName, old, value any) (requests []types.NamespacedName) {
	before, _ := old.(namespace)
	after, _ := value.(namespace)
	if after.uid != before.uid && after.uid != "" {
		requests = append(requests, types.NamespacedName{Name: name.Name})
	}
	if after.ingress != before.ingress {
		requests = append(requests, types.NamespacedName{Name: aboutIngress + name.Name})
	}
	return requests
}

// ofFilter has the source of an EnvoyFilter reconciled if it has changed.
func ofFilter(name types.NamespacedName, old, value any) []types.NamespacedName {
	source, is := sourceOf(name)
	if !is || old == value {
		return nil
	}
	return []types.NamespacedName{{Name: source}}
}
