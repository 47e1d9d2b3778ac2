package networkpolicy

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// Bounds of what is kept of an object.
const (
	maxBackends   = 1000 // of an Ingress or a VirtualService
	maxGateways   = 20   // of a VirtualService
	maxClientKeys = 256  // of a pod
	maxLabels     = 100  // of a selector, whose size is that of an annotation at most
)

// istio is the group of VirtualServices and Gateways, which need not be there.
var istio = schema.GroupVersion{Group: "networking.istio.io", Version: "v1beta1"}

// clusterDomain ends the hosts of Services in VirtualServices.
const clusterDomain = ".svc.cluster.local"

// mesh stands for all sidecars in the gateways of a VirtualService.
const mesh = "mesh"

// service is what is kept of one.
type service struct {
	uid         types.UID
	deleting    bool
	selector    map[string]string
	tooLarge    bool // the selector is, and was not kept
	ports       []Port
	annotations map[string]string
}

func serviceOf(obj client.Object) any {
	kept := &service{uid: obj.GetUID(), deleting: obj.GetDeletionTimestamp() != nil}
	whole := &corev1.Service{}
	if !convert(obj, whole) {
		return kept // has no pods then
	}
	if kept.tooLarge = isTooLarge(whole.Spec.Selector); !kept.tooLarge && len(whole.Spec.Selector) > 0 {
		kept.selector = whole.Spec.Selector
	}
	for _, port := range whole.Spec.Ports[:min(len(whole.Spec.Ports), maxPorts+1)] {
		kept.ports = append(kept.ports, Port{
			Protocol: cmp.Or(port.Protocol, corev1.ProtocolTCP), Name: port.Name, Number: port.Port, Target: port.TargetPort,
		})
	}
	for key, value := range whole.Annotations {
		if !isRelevant(key) {
			continue
		}
		if kept.annotations == nil {
			kept.annotations = map[string]string{}
		}
		kept.annotations[key] = strings.Clone(value[:min(len(value), maxAnnotation+1)])
	}
	return kept
}

// isTooLarge reports whether a selector exceeds the bounds: each policy of a Service has it.
func isTooLarge(selector map[string]string) bool {
	size := 0
	for key, value := range selector {
		size += len(key) + len(value)
	}
	return len(selector) > maxLabels || size > maxAnnotation
}

// policy is what is kept of one that belongs to a Service.
type policy struct {
	service     types.NamespacedName
	uid         types.UID
	fingerprint fingerprint
}

func policyOf(obj client.Object) any {
	kept := policy{service: owner(obj), uid: obj.GetUID()}
	whole := &networkingv1.NetworkPolicy{}
	if convert(obj, whole) {
		kept.fingerprint = fingerprintOf(whole)
	}
	return kept
}

// owner is the Service that a policy belongs to; empty if it belongs to none.
func owner(obj client.Object) types.NamespacedName {
	set := obj.GetLabels()
	name := types.NamespacedName{Namespace: set[LabelServiceNamespace], Name: set[LabelServiceName]}
	if name.Namespace == "" || name.Name == "" {
		return types.NamespacedName{}
	}
	return name
}

// namespace is what is kept of one.
type namespace struct {
	labels      map[string]string
	terminating bool
}

func namespaceOf(obj client.Object) any {
	return &namespace{obj.GetLabels(), obj.GetDeletionTimestamp() != nil}
}

// clientKeysOf are the keys of a pod's labels that make it a client, sorted.
func clientKeysOf(obj client.Object) any {
	var keys []string
	for key, value := range obj.GetLabels() {
		if value == allowed && strings.HasPrefix(key, clientLabelPrefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys[:min(len(keys), maxClientKeys)]
}

// backend is a port of a Service that an Ingress or a VirtualService names.
type backend struct {
	service types.NamespacedName
	port    PortReference
}

func ingressOf(obj client.Object) any {
	whole := &networkingv1.Ingress{}
	if !convert(obj, whole) {
		return []backend(nil)
	}
	var found []backend
	for _, rule := range whole.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for _, path := range rule.HTTP.Paths {
			if to := path.Backend.Service; to != nil {
				found = append(found, backend{
					types.NamespacedName{Namespace: obj.GetNamespace(), Name: to.Name},
					PortReference{Name: to.Port.Name, Number: to.Port.Number},
				})
			}
		}
	}
	return distinct(found)
}

// distinct are some backends in an order, each once.
func distinct(all []backend) []backend {
	slices.SortFunc(all, func(a, b backend) int {
		return cmp.Or(cmp.Compare(a.service.Namespace, b.service.Namespace), cmp.Compare(a.service.Name, b.service.Name),
			cmp.Compare(a.port.Name, b.port.Name), cmp.Compare(a.port.Number, b.port.Number))
	})
	all = slices.Compact(all)
	return all[:min(len(all), maxBackends)]
}

// virtualService is what is kept of one: gateways, and ports of Services of its namespace that these lead to.
type virtualService struct {
	gateways []types.NamespacedName
	backends []backend
}

func virtualServiceOf(obj client.Object) any {
	kept := &virtualService{}
	content, ok := contentOf(obj)
	if !ok {
		return kept
	}
	names, _, _ := unstructured.NestedStringSlice(content, "spec", "gateways") // those that cannot be read are none
	for _, text := range names {
		if text == mesh || text == "" || len(kept.gateways) == maxGateways {
			continue
		}
		name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: text}
		if before, after, found := strings.Cut(text, "/"); found {
			name = types.NamespacedName{Namespace: before, Name: after}
		}
		kept.gateways = append(kept.gateways, name)
	}
	for _, protocol := range []string{"http", "tls", "tcp"} {
		for _, rule := range objectsIn(content, "spec", protocol) {
			for _, route := range objectsIn(rule, "route") {
				if to, is := destination(route); is && to.service.Namespace == obj.GetNamespace() {
					kept.backends = append(kept.backends, to)
				}
			}
		}
	}
	kept.backends = distinct(kept.backends)
	return kept
}

// objectsIn are the objects in a list.
func objectsIn(content map[string]any, path ...string) (found []map[string]any) {
	value, _, _ := unstructured.NestedFieldNoCopy(content, path...) // what cannot be read is not there
	list, _ := value.([]any)
	for _, item := range list {
		if object, is := item.(map[string]any); is {
			found = append(found, object)
		}
	}
	return found
}

// destination is the port of a Service that a route leads to.
func destination(route map[string]any) (backend, bool) {
	host, _, _ := unstructured.NestedFieldNoCopy(route, "destination", "host")
	number, _, _ := unstructured.NestedFieldNoCopy(route, "destination", "port", "number")
	text, _ := host.(string)
	name, domain := strings.CutSuffix(text, clusterDomain)
	service, namespace, qualified := strings.Cut(name, ".")
	if !domain || !qualified || strings.Contains(namespace, ".") {
		return backend{}, false
	}
	to := backend{service: types.NamespacedName{Namespace: namespace, Name: service}}
	switch n := number.(type) {
	case int64:
		to.port.Number = int32(min(max(n, 0), 1<<16))
	case float64:
		to.port.Number = int32(min(max(n, 0), 1<<16))
	}
	return to, true
}

// gatewayOf is the selector of the gateway's pods, of which the API has but labels.
func gatewayOf(obj client.Object) any {
	content, _ := contentOf(obj)
	selector, _, _ := unstructured.NestedStringMap(content, "spec", "selector") // one that cannot be read selects nothing
	if isTooLarge(selector) {
		return map[string]string(nil)
	}
	return selector
}

// convert reads an object that was watched.
func convert(obj client.Object, into any) bool {
	content, ok := contentOf(obj)
	return ok && runtime.DefaultUnstructuredConverter.FromUnstructured(content, into) == nil
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
	services, policies, namespaces, pods, ingresses, virtualServices, gateways *multicluster.Objects
}

func newWatches(settings func(clustercache.Status) (Settings, bool)) watches {
	owned := labels.NewSelector()
	for _, key := range []string{LabelServiceName, LabelServiceNamespace} {
		requirement, err := labels.NewRequirement(key, selection.Exists, nil)
		if err != nil {
			panic(err) // the key is a constant
		}
		owned = owned.Add(*requirement)
	}
	when := func(wanted func(Settings) bool) func(clustercache.Status) bool {
		return func(status clustercache.Status) bool {
			s, on := settings(status)
			return on && wanted(s)
		}
	}
	return watches{
		services: &multicluster.Objects{
			Kind:      corev1.SchemeGroupVersion.WithKind("Service"),
			Fields:    [][]string{{"spec", "selector"}, {"spec", "ports"}},
			Transform: serviceOf, Form: "what network policies of a Service follow from",
		},
		policies: &multicluster.Objects{
			Kind: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), LabelSelector: owned,
			Fields: [][]string{{"spec"}}, Transform: policyOf, Form: "the fingerprint of a network policy",
		},
		namespaces: &multicluster.Objects{
			Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), MetadataOnly: true,
			Transform: namespaceOf, Form: "labels of a namespace, and whether it ends",
		},
		pods: &multicluster.Objects{
			Kind: corev1.SchemeGroupVersion.WithKind("Pod"), MetadataOnly: true,
			Transform: clientKeysOf, Form: "labels of a pod for network policies",
			When: when(needsPods),
		},
		ingresses: &multicluster.Objects{
			Kind:   networkingv1.SchemeGroupVersion.WithKind("Ingress"),
			Fields: [][]string{{"spec", "rules"}}, Transform: ingressOf, Form: "Services of an Ingress",
			When: when(needsIngresses),
		},
		virtualServices: &multicluster.Objects{
			Kind: istio.WithKind("VirtualService"),
			Fields: [][]string{
				{"spec", "gateways"}, {"spec", "http"}, {"spec", "tls"}, {"spec", "tcp"},
			},
			Transform: virtualServiceOf, Form: "Services of a VirtualService", Optional: true,
		},
		gateways: &multicluster.Objects{
			Kind: istio.WithKind("Gateway"), Fields: [][]string{{"spec", "selector"}},
			Transform: gatewayOf, Form: "selector of a Gateway", Optional: true,
		},
	}
}

func needsPods(s Settings) bool      { return s.OnlyWithClientPods }
func needsIngresses(s Settings) bool { return s.IngressController != nil }

// all are all watches.
func (w *watches) all() []watched {
	return []watched{
		{Objects: w.services}, {Objects: w.policies}, {Objects: w.namespaces},
		{Objects: w.pods, wanted: needsPods}, {Objects: w.ingresses, wanted: needsIngresses},
		{Objects: w.virtualServices}, {Objects: w.gateways},
	}
}

type watched struct {
	*multicluster.Objects
	wanted func(Settings) bool // nil: always
}

// Requests that are not about a Service have no namespace. Their name is what they are about and its name.
const aboutNamespace, aboutPods, aboutGateway = "namespace/", "pods/", "gateway/"

func request(about, name string) types.NamespacedName {
	return types.NamespacedName{Name: about + name}
}

// ofService has a Service reconciled if something has changed that matters.
func ofService(name types.NamespacedName, old, value any) []types.NamespacedName {
	if reflect.DeepEqual(old, value) {
		return nil
	}
	return []types.NamespacedName{name}
}

// ofPolicy has the Services reconciled that a policy belongs to and belonged to.
func ofPolicy(_ types.NamespacedName, old, value any) (services []types.NamespacedName) {
	if old == value {
		return nil
	}
	for _, state := range []any{old, value} {
		if kept, exists := state.(policy); exists && kept.service.Name != "" {
			services = append(services, kept.service)
		}
	}
	return distinctNames(services)
}

func ofNamespace(name types.NamespacedName, old, value any) []types.NamespacedName {
	if reflect.DeepEqual(old, value) {
		return nil
	}
	return []types.NamespacedName{request(aboutNamespace, name.Name)}
}

func ofPod(name types.NamespacedName, old, value any) []types.NamespacedName {
	before, _ := old.([]string)
	after, _ := value.([]string)
	if slices.Equal(before, after) {
		return nil
	}
	return []types.NamespacedName{request(aboutPods, name.Namespace)}
}

// ofIngress has the Services reconciled that an Ingress leads to and led to.
func ofIngress(_ types.NamespacedName, old, value any) []types.NamespacedName {
	before, _ := old.([]backend)
	after, _ := value.([]backend)
	if old != nil && value != nil && slices.Equal(before, after) {
		return nil
	}
	return servicesOf(before, after)
}

// ofVirtualService has the Services reconciled that a VirtualService leads to and led to.
func ofVirtualService(_ types.NamespacedName, old, value any) []types.NamespacedName {
	before, _ := old.(*virtualService)
	after, _ := value.(*virtualService)
	if reflect.DeepEqual(before, after) {
		return nil
	}
	var all [][]backend
	for _, kept := range []*virtualService{before, after} {
		if kept != nil {
			all = append(all, kept.backends)
		}
	}
	return servicesOf(all...)
}

func ofGateway(name types.NamespacedName, old, value any) []types.NamespacedName {
	before, existed := old.(map[string]string)
	after, exists := value.(map[string]string)
	if existed == exists && maps.Equal(before, after) {
		return nil
	}
	return []types.NamespacedName{request(aboutGateway, name.String())}
}

func servicesOf(lists ...[]backend) (services []types.NamespacedName) {
	for _, list := range lists {
		for _, b := range list {
			services = append(services, b.service)
		}
	}
	return distinctNames(services)
}

func distinctNames(names []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(names, compareNames)
	return slices.Compact(names)
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
